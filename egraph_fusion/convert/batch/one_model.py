"""One model of a batch, in a worker process: read, optimised, written aside, checked."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egraph_fusion import pipeline
from egraph_fusion.convert.batch.details import details, latencies
from egraph_fusion.convert.batch.file_states import FileState, all_still
from egraph_fusion.convert.check import Runner, compare, reference_runner, require
from egraph_fusion.convert.executors.tasks import StageReporter
from egraph_fusion.errors import EgraphFusionError, ModelError
from egraph_fusion.frontend import export, load
from egraph_fusion.frontend.external import external_files, whole_model, work_nodes
from egraph_fusion.frontend.files import read_model
from egraph_fusion.frontend.input_shapes import fix_input_shapes
from egraph_fusion.fusion.plan import Plan
from egraph_fusion.ir.graph import Graph
from egraph_fusion.optimizer import Optimized, Report


@dataclass(frozen=True)
class Request:
    """What to convert: the model file, where to write (`folder`, `name`), the batch's options."""

    file: Path
    folder: Path
    name: str
    options: Mapping[str, Any]

    @property
    def staged(self) -> Path:
        """Where the result is written until it is published."""
        return self.folder / self.name


def convert(request: Mapping[str, Any], stage: StageReporter) -> dict[str, Any]:
    """Convert one model: an executor's function.

    Returns {"report": ..., "outputs": states of the files written into the staging folder,
    "details": what the page on the batch shows}; reports the stages read, load, optimise, plan,
    compile, write, check, measure, and the fact "inputs" (states of the files that the model
    consists of).  Raises EgraphFusionError for what cannot be converted.
    """
    asked = Request(
        Path(request["file"]), Path(request["folder"]), request["name"], request["options"]
    )
    shutil.rmtree(asked.folder, ignore_errors=True)  # what an attempt that was cut off has left
    asked.folder.mkdir(parents=True)
    stage("read")
    inputs = _input_states(asked.file)
    stage("load", inputs=[s.to_dict() for s in inputs])
    graph = _shaped(load(asked.file), asked.options["input_shapes"])
    stage("optimise")
    found = _optimized(graph, asked.options)
    stage("plan")
    notes: list[str] = []
    plans = [_planned(g, notes) for g in (graph, found.graph)]
    verbatim = _write(asked, graph, found, plans[1], len(inputs) == 1, stage)
    worst = None
    if asked.options["check"]:
        stage("check")
        worst = 0.0 if verbatim else _checked(asked, graph)
    if all_still(inputs, rehash=False) is None:
        raise ModelError(f"{asked.file} changed while it was converted")
    sides: list[float | None] = [None, None]
    if asked.options["latency"]:
        stage("measure")
        sides = latencies(graph, found.graph, asked.options["numerics"], notes)
    report = _report(found.report, plans, sides, notes)
    numerics = asked.options["numerics"]
    shown = None if plans[1] is None else details(graph, found, plans[1], numerics)
    outputs = [FileState.of(p).to_dict() for p in sorted(asked.folder.iterdir())]
    extra = {"verbatim": verbatim, "worst_difference": worst}
    return {"report": {**report, **extra}, "outputs": outputs, "details": shown}


def _input_states(file: Path) -> list[FileState]:
    try:
        own = FileState.of(file)
        others = _others(file)
        return [own, *(FileState.of(p) for p in others)]
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror or error}") from error


def _others(file: Path) -> list[Path]:
    try:
        return external_files(file.read_bytes(), file.resolve().parent, str(file))
    except ModelError:
        return []  # loading it says what is wrong


def _shaped(graph: Graph, shapes: Mapping[str, list[int]]) -> Graph:
    """Fix the shapes of those inputs that this model has: the others are of other models."""
    own = _own_shapes(graph, shapes)
    return fix_input_shapes(graph, own) if own else graph


def _own_shapes(graph: Graph, shapes: Mapping[str, list[int]]) -> dict[str, tuple[int, ...]]:
    return {k: tuple(v) for k, v in shapes.items() if k in graph.inputs}


def _optimized(graph: Graph, options: Mapping[str, Any]) -> Optimized:
    return pipeline.optimize(
        graph,
        rules=None if options["rules"] is None else Path(options["rules"]),
        without=tuple(options["without"]),
        verify=False,  # the batch's options were checked once, with the rules
        **{
            k: options[k]
            for k in ("numerics", "extractor", "cost", "time_limit", "node_limit", "iter_limit")
        },
    )


def _planned(graph: Graph, notes: list[str]) -> Plan | None:
    try:
        return pipeline.plan(graph)
    except EgraphFusionError as error:
        notes.append(f"no plan: {error}")
        return None


def _write(
    asked: Request,
    graph: Graph,
    found: Optimized,
    plan: Plan | None,
    alone: bool,
    stage: StageReporter,
) -> bool:
    """Write the result into the staging folder; whether it is the original, byte for byte."""
    target = asked.options["target"]
    if target == "c":
        _expect_sizes(found.graph)
        stage("compile")
        session = pipeline.compile(
            found.graph, target, numerics=asked.options["numerics"], optimize=False
        )
        stage("write")
        session.save(asked.staged)
        return False
    if target == "onnx-functions" and plan is None:
        raise ModelError(f"{asked.file} has no fusion plan, so no blocks to write as functions")
    stage("write")
    functions = plan if target == "onnx-functions" else None
    pipeline.save(found.graph, asked.staged, functions, asked.options["opset"])
    if not alone or not _needless(asked, graph, found.report):
        return False
    shutil.copyfile(asked.file, asked.staged)
    return True


def _expect_sizes(graph: Graph) -> None:
    """Raise ModelError for an input whose shape is left open."""
    for v in graph.inputs:
        if graph.types[v].static_shape is None:
            raise ModelError(
                f"input {v!r} is {graph.types[v]}, and compiled files are for fixed shapes: "
                "give this one by --input-shape NAME=DIMS (input_shapes in Python)"
            )


def _needless(asked: Request, graph: Graph, report: Report) -> bool:
    """Whether the original is as good as what was made of it, and says the same."""
    if report.flops_after < report.flops_before or report.bytes_after < report.bytes_before:
        return False
    before, after = read_model(asked.file), read_model(asked.staged)
    versions = {e.domain: e.version for e in before.opset_import}
    same_opsets = all(versions.get(e.domain) == e.version for e in after.opset_import)
    shaped = _own_shapes(graph, asked.options["input_shapes"])
    blocks = len(after.functions) > len(before.functions)
    return same_opsets and not shaped and not blocks and work_nodes(before) <= work_nodes(after)


def _checked(asked: Request, graph: Graph) -> float:
    """Return the worst difference between original and result; CheckError beyond the tolerance.

    What runs is the file as it is and the result as it was written, unless shapes were fixed: then
    `graph`, the original with these shapes.
    """
    shaped = _own_shapes(graph, asked.options["input_shapes"])
    before = export(graph) if shaped else whole_model(asked.file)
    if asked.options["target"] == "c":
        session = pipeline.load_compiled(asked.staged)
        after: Runner = lambda feeds: session.run(None, feeds)  # noqa: E731
    else:
        after = reference_runner(whole_model(asked.staged))
    differences = compare(before, after, asked.options["seeds"], str(asked.file))
    require(differences, asked.options["tolerance"])
    return max((d.worst for d in differences), default=0.0)


def _report(
    report: Report, plans: list[Plan | None], seconds: list[float | None], notes: list[str]
) -> dict[str, Any]:
    before, after = (None if p is None else len(p.blocks) for p in plans)
    whole = report.to_dict()
    return {
        **whole,
        "notes": [*whole["notes"], *notes],
        "blocks_before": before,
        "blocks_after": after,
        "seconds_before": seconds[0],
        "seconds_after": seconds[1],
    }
