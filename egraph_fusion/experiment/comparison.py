"""Rule sets compared: what each makes of some models, as a table."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from egraph_fusion import pipeline
from egraph_fusion.arguments import checked
from egraph_fusion.errors import (
    EgraphFusionError,
    ModelError,
    OptimizeError,
    RuleError,
    UnverifiedRuleError,
)
from egraph_fusion.experiment.expressions import graph_of, shown
from egraph_fusion.frontend import load
from egraph_fusion.frontend.source import Source
from egraph_fusion.ir.graph import Graph
from egraph_fusion.rulesets import select
from egraph_fusion.rulesets.pattern import Pattern
from egraph_fusion.rulesets.rule import Rule

Rules = Sequence[Rule | str] | str | Path | None
Model = Source | Pattern
Models = Model | Sequence[Model] | Mapping[str, Model]


@dataclass(frozen=True)
class Row:
    """One model under one rule set; `error` says why there are no numbers.

    FLOPs of one run and operators, before and after; fusion blocks, e-nodes and classes at the
    end; `seconds` of rewriting.
    """

    model: str
    rules: str
    flops_before: int | None = None
    flops: int | None = None
    nodes_before: int | None = None
    nodes: int | None = None
    blocks_before: int | None = None
    blocks: int | None = None
    enodes: int | None = None
    eclasses: int | None = None
    stop_reason: str = ""
    seconds: float | None = None
    error: str = ""


COLUMNS = tuple(f.name for f in fields(Row))


@dataclass(frozen=True)
class Comparison:
    """Every model under every rule set; prints as a table."""

    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: `{"rows": [{column: value}]}`."""
        return {"rows": [asdict(r) for r in self.rows]}

    def to_csv(self) -> str:
        """Return comma-separated values under a line of column names."""
        out = io.StringIO()
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(r) for r in self.rows)
        return out.getvalue()

    def to_markdown(self) -> str:
        """Return a table in Markdown."""
        lines = [_line(HEADS), _line(["---"] * 2 + ["---:"] * (len(HEADS) - 3) + ["---"])]
        return "\n".join([*lines, *(_line([_escaped(c) for c in cells(r)]) for r in self.rows)])

    def __str__(self) -> str:
        """Print with aligned columns; names stand left and numbers right."""
        table = [HEADS, *(cells(r) for r in self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join(_aligned(row, widths).rstrip() for row in table)


HEADS = ["model", "rules", "FLOPs", "nodes", "blocks", "e-nodes", "classes", "s", "ended by"]


def cells(r: Row) -> list[str]:
    """Return a row as text under HEADS."""
    if r.error:
        return [r.model, r.rules, *["-"] * 6, r.error]
    change = 0.0 if not r.flops_before else (cast(int, r.flops) - r.flops_before) / r.flops_before
    return [
        r.model,
        r.rules,
        f"{r.flops} ({change:+.1%})",
        f"{r.nodes_before} -> {r.nodes}",
        f"{r.blocks_before} -> {r.blocks}",
        str(r.enodes),
        str(r.eclasses),
        f"{r.seconds:.2f}",
        r.stop_reason,
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    last = len(row) - 1
    pairs = zip(row, widths, strict=True)
    cells = [c.ljust(w) if i in (0, 1, last) else c.rjust(w) for i, (c, w) in enumerate(pairs)]
    return "  ".join(cells)


@checked(
    OptimizeError,
    least={"time_limit": 0, "node_limit": 1, "iter_limit": 0},
    others={"rulesets": RuleError, "models": ModelError, "without": RuleError},
)
def compare_rulesets(
    rulesets: Mapping[str, Rules],
    models: Models,
    without: Sequence[str] = (),
    numerics: str = "finite",
    time_limit: float = 60.0,
    node_limit: int = 100_000,
    iter_limit: int = 12,
    extractor: str = "auto",
    cost: str = "flops",
) -> Comparison:
    """Optimise every model under every rule set and return the results as a table.

    A rule set is what `optimize` takes as `rules`: rules, names of ours, a Python file, or None for
    all of ours.  `models` is a folder (its `.onnx` files, at any depth), a file, a graph, a
    ModelProto, several of these, or a mapping from names to them.  A model that cannot be read or
    optimised is a row with its reason; the other arguments are those of `optimize`.  Raises
    RuleError for unusable rules, ModelError if there is no model, OptimizeError for impossible
    options.
    """
    if not rulesets:
        raise ModelError("compare_rulesets needs at least one rule set, e.g. {'all': None}")
    chosen = {name: None if r is None else select(r) for name, r in rulesets.items()}
    options = {
        "numerics": numerics,
        "time_limit": time_limit,
        "node_limit": node_limit,
        "iter_limit": iter_limit,
        "extractor": extractor,
        "cost": cost,
    }
    rows: list[Row] = []
    for model, source in named_models(models):
        rows += _rows(model, source, chosen, tuple(without), options)
    return Comparison(tuple(rows))


def named_models(models: Models) -> tuple[tuple[str, Model], ...]:
    """Return models with names to show: paths below the folder given, names of graphs.

    Raises ModelError if there is none.
    """
    found = tuple(_named(models))
    if not found:
        raise ModelError(f"there is no .onnx file in {models}")
    return found


def _named(models: Models) -> Iterator[tuple[str, Model]]:
    if isinstance(models, Mapping):
        yield from models.items()
    elif isinstance(models, Sequence) and not isinstance(models, str):
        for m in models:
            yield from _named(m)
    elif isinstance(models, str | Path):
        yield from _files(Path(models))
    elif isinstance(models, Pattern):
        yield shown(models), models
    else:
        yield (models.name if isinstance(models, Graph) else models.graph.name) or "graph", models


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    if not path.is_dir():
        yield path.name, path
        return
    for file in sorted(path.rglob("*.onnx")):
        yield str(file.relative_to(path)), file


def _rows(
    model: str,
    source: Model,
    chosen: Mapping[str, tuple[Rule, ...] | None],
    without: tuple[str, ...],
    options: Mapping[str, Any],
) -> Iterator[Row]:
    try:
        graph = _graph(source)
        blocks = len(pipeline.plan(graph).blocks)
    except Exception as e:  # whatever is wrong with a model, the others have their rows
        yield from (Row(model, name, error=_one_line(e)) for name in chosen)
        return
    for name, rules in chosen.items():
        known = {r.name for r in rules} if rules is not None else None
        left_out = tuple(w for w in without if known is None or w in known)
        try:
            yield _row(model, name, graph, blocks, {**options, "rules": rules, "without": left_out})
        except Exception as e:  # as above
            yield Row(model, name, error=_one_line(e))


def _graph(model: Model) -> Graph:
    if isinstance(model, Pattern):
        return graph_of([model]).graph
    return model if isinstance(model, Graph) else load(model)


def _row(model: str, name: str, graph: Graph, blocks: int, options: Mapping[str, Any]) -> Row:
    start = time.perf_counter()
    found = pipeline.optimize(graph, **options)
    seconds = time.perf_counter() - start
    report = found.report
    return Row(
        model,
        name,
        report.flops_before,
        report.flops_after,
        report.ops_before,
        report.ops_after,
        blocks,
        len(pipeline.plan(found.graph).blocks),
        report.enodes,
        report.eclasses,
        report.stop_reason,
        round(seconds, 3),
    )


def _one_line(error: Exception) -> str:
    said = error.message if isinstance(error, UnverifiedRuleError) else str(error)
    text = " ".join(said.split())
    return text if isinstance(error, EgraphFusionError) else f"{type(error).__name__}: {text}"
