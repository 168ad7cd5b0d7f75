"""ONNX's own backend tests, run in one batch, and the committed list of how each went."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase as Case
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.pipeline import Options
from egraph_fusion.runtime.backend import EgraphFusionRep, prepare_many

KINDS = ("node", "pytorch-converted", "pytorch-operator", "simple")
LISTS = Path(__file__).parent / "onnx_backend"
PAGE = Path(__file__).parent.parent / "docs" / "onnx_backend.md"
RANKS = {"fails": 0, "fallback": 1, "native": 2}
REWRITTEN = ("test_attention_4d_causal_fp16",)
"""A scale that rewriting moves rounds these once more than ONNX's tolerance in float16 allows."""
RANDOM = ("test_bernoulli",)
RANDOM_NOTE = "its numbers are random, so shapes and types alone are compared"
HEADER = "# Written by pytest tests/test_onnx_backend.py --update-golden.  It may only get better."


@dataclass(frozen=True, slots=True, order=True)
class Outcome:
    """How one test went: "native" (no fallback step), "fallback" or "fails", and why or how."""

    name: str
    status: str
    note: str = ""

    def __str__(self) -> str:
        """One line of the list."""
        return f"{self.name} {self.status}" + (f": {self.note}" if self.note else "")

    @staticmethod
    def parse(line: str) -> Outcome:
        """Read one line of the list."""
        head, _, note = line.partition(": ")
        name, status = head.split()
        return Outcome(name, status, note)


@dataclass(frozen=True, slots=True)
class DataSet:
    """Inputs in the model's order and the outputs that ONNX expects."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]


def cases(kind: str) -> list[Case]:
    """Return ONNX's tests of one kind; the loader's own arithmetic warnings are ONNX's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(load_model_tests(kind=kind), key=lambda case: case.name)


def run_all(found: Sequence[Case]) -> list[Outcome]:
    """Run tests, compiled in two batches: models as they are, and some rewritten.

    There is little of the C compiler's optimisations: what is tested is what operators mean.  What
    rewriting makes of models is compared in tests of their own.
    """
    plain = [c for c in found if not c.name.startswith(REWRITTEN)]
    others = [c for c in found if c.name.startswith(REWRITTEN)]
    return [*_run(plain, optimize=False), *_run(others, optimize=True)]


def _run(found: Sequence[Case], *, optimize: bool) -> list[Outcome]:
    models = [_model(case) for case in found]
    data = [_data_sets(case, model) for case, model in zip(found, models, strict=True)]
    feeds = [sets[0].inputs for sets in data]
    options = Options(threads=1, optimize=optimize, node_limit=2_000, iter_limit=3)
    reps = prepare_many(models, feeds, options, flags=("-O1",))
    return [_outcome(case, rep, sets) for case, rep, sets in zip(found, reps, data, strict=True)]


def read_list(kind: str) -> dict[str, Outcome]:
    """Return the committed list of one kind, by test."""
    path = LISTS / f"{kind}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    outcomes = [Outcome.parse(line) for line in lines if line and not line.startswith("#")]
    return {o.name: o for o in outcomes}


def write_list(kind: str, outcomes: Iterable[Outcome]) -> None:
    """Write the list of one kind, sorted."""
    LISTS.mkdir(exist_ok=True)
    lines = [HEADER, *map(str, sorted(outcomes))]
    (LISTS / f"{kind}.txt").write_text("\n".join(lines) + "\n")


def table() -> list[str]:
    """Return the counts of all lists as a Markdown table."""
    lines = ["| tests | native | fallback | fails | all |", "|---|---:|---:|---:|---:|"]
    for kind in KINDS:
        found = [o.status for o in read_list(kind).values()]
        counts = [str(found.count(s)) for s in ("native", "fallback", "fails")]
        lines.append(f"| {kind} | {' | '.join(counts)} | {len(found)} |")
    return lines


def update_page() -> None:
    """Write the table into the documentation."""
    text = PAGE.read_text()
    old = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    PAGE.write_text(text.replace(old, "\n".join(table())))


def changes(listed: Mapping[str, Outcome], found: Iterable[Outcome]) -> tuple[list[str], list[str]]:
    """Return what got worse, and what the list does not say yet."""
    worse: list[str] = []
    better: list[str] = []
    for now in found:
        before = listed.get(now.name)
        if before is None or RANKS[now.status] > RANKS[before.status]:
            better.append(f"{now} (listed: {before.status if before else 'not'})")
        elif RANKS[now.status] < RANKS[before.status]:
            worse.append(f"{now} (listed: {before.status})")
    return worse, better


def _model(case: Case) -> onnx.ModelProto:
    if case.model is not None:
        return case.model
    return onnx.load(_folder(case) / "model.onnx")


def _folder(case: Case) -> Path:
    assert case.model_dir is not None
    return Path(case.model_dir)


def _data_sets(case: Case, model: onnx.ModelProto) -> list[DataSet]:
    if case.data_sets is not None:
        return [DataSet(*([_plain(v) for v in side] for side in s)) for s in case.data_sets]
    return [
        DataSet(
            _files(folder, "input", model.graph.input), _files(folder, "output", model.graph.output)
        )
        for folder in sorted(_folder(case).glob("test_data_set_*"))
    ]


def _files(folder: Path, side: str, infos: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    count = len(list(folder.glob(f"{side}_*.pb")))
    return [_read((folder / f"{side}_{i}.pb").read_bytes(), infos[i].type) for i in range(count)]


def _read(data: bytes, kind: onnx.TypeProto) -> Any:
    match kind.WhichOneof("value"):
        case "sequence_type":
            return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        case "optional_type":
            return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
        case _:
            return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _plain(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _outcome(
    case: Case, rep: EgraphFusionRep | EgraphFusionError, data: Sequence[DataSet]
) -> Outcome:
    if isinstance(rep, EgraphFusionError):
        return Outcome(case.name, "fails", _line(rep))
    try:
        for one in data:
            found = rep.run(one.inputs)
            if case.name.startswith(RANDOM):
                assert [_kind(v) for v in found] == [_kind(v) for v in one.outputs]
                continue
            Runner.assert_similar_outputs(one.outputs, found, case.rtol, case.atol)
    except (EgraphFusionError, AssertionError, TypeError) as error:  # TypeError: kinds differ
        return Outcome(case.name, "fails", _line(error))
    return _passed(case.name, rep, data[0])


def _kind(value: Any) -> tuple[Any, ...]:
    return value.dtype, value.shape


def _passed(name: str, rep: EgraphFusionRep, data: DataSet) -> Outcome:
    steps = rep.session.steps(rep.feeds(data.inputs))
    left = [s for s in steps if s.executor == "fallback"]
    if left:
        operators = sorted({s.nodes[0].rpartition(" (")[2].rstrip(")") for s in left})
        reason = RANDOM_NOTE if name.startswith(RANDOM) else left[0].reason
        return Outcome(name, "fallback", f"{', '.join(operators)}: {reason}")
    bound = sorted({v for values in rep.session.bound_values for v in values})
    notes = [f"compiled for the values of {', '.join(bound)}"] if bound else []
    notes += [] if steps else ["folded"]
    return Outcome(name, "native", ", ".join(notes))


def _line(error: BaseException) -> str:
    """Return what an error says in one line; numpy's comparisons put the numbers last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    shown = [line for line in lines if not line.startswith("Arrays are not")][:4]
    return f"{type(error).__name__}: {' '.join(shown)}"[:160]
