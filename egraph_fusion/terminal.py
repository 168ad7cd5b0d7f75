"""What the command line prints: rich tables for people, plain dicts for `--json`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from egraph_fusion.convert.bench import BenchResult
    from egraph_fusion.fusion.plan import Plan
    from egraph_fusion.runtime.session import ProfileStep, Session


def show(item: RenderableType) -> None:
    """Print to standard output; names from a model are never read as markup or emoji.

    Text of lines stays as it is: only tables are fitted to the terminal's width.
    """
    console = Console(markup=False, highlight=False, emoji=False)
    console.print(item, soft_wrap=isinstance(item, str))


@contextmanager
def progress(what: str, *, quiet: bool) -> Generator[None]:
    """Show a spinner on standard error while the body runs, if that is a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


def one_line(error: BaseException) -> str:
    """Return an error's message on one line; control characters become escapes."""
    return printable(str(error) or type(error).__name__)


def printable(text: str) -> str:
    """Return `text` with escapes for what a terminal would act on or cannot show."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain(data: Any) -> Any:
    """Return `data` as JSON has it: numbers that are not finite, and what it lacks, as text."""
    # Python writes NaN and Infinity, which JSON has not; reading them back gives a choice.
    return json.loads(json.dumps(data, default=str), parse_constant=str)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table; columns after the first are right-aligned where they hold numbers."""
    out = Table(title=Text(title, style="bold"), title_justify="left", header_style="bold")
    for i, name in enumerate(columns):
        numeric = bool(rows) and all(_is_number(r[i]) for r in rows)
        out.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        out.add_row(*(Text(_cell(v)) for v in row))
    return out


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return value.replace(",", "").replace(".", "", 1).isdecimal()
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value))


def amount(value: int) -> str:
    """Return a count in four digits and thousands: 22.41 G."""
    size = float(value)
    for prefix in ("", " k", " M", " G", " T"):
        if abs(size) < 1000 or prefix == " T":
            break
        size /= 1000
    return f"{size:.4g}{prefix}"


def optimize_table(report: Mapping[str, Any]) -> RenderableType:
    """Return the before/after table, the rules used, and what the check found."""
    rows = [
        (what, report[f"{key}_before"], report[f"{key}_after"])
        for what, key in (
            ("FLOPs", "flops"),
            ("of contractions", "contraction_flops"),
            ("of the rest", "other_flops"),
            ("operators", "ops"),
            ("bytes between operators", "bytes"),
        )
    ]
    parts: list[RenderableType] = [table("optimised", ("", "before", "after"), rows)]
    uses = [(k, v) for k, v in sorted(report["rule_uses"].items()) if v]
    if uses:
        parts.append(table("rules in the result", ("rule", "uses"), uses))
    parts.append(
        f"e-graph: {report['eclasses']} classes, {report['enodes']} nodes after "
        f"{report['iterations']} iterations ({report['stop_reason']}); "
        f"extraction gap: {report['extraction_gap']}"
    )
    parts += [f"assumed: {a}" for a in report["assumptions"]]
    if "worst_difference" in report:
        parts.append(f"checked: worst difference {report['worst_difference']:.3g} of the spread")
    return Group(*parts)


def plan_data(plan: Plan) -> dict[str, Any]:
    """Return a plan's blocks and bytes."""
    return {
        "planner": plan.planner,
        "nodes": len(plan.graph.nodes),
        "intermediate_bytes_before": plan.intermediate_bytes_before,
        "intermediate_bytes_after": plan.intermediate_bytes_after,
        "values_of_unknown_size": list(plan.unsized),
        "blocks": [
            {
                "mapping_type": b.mapping_type.value,
                "opaque": b.opaque,
                "reason": b.nodes[0].reason if b.opaque else "",
                "nodes": [n.label() for n in b.nodes],
                "inputs": list(b.inputs),
                "outputs": list(b.outputs),
            }
            for b in plan.blocks
        ],
    }


def plan_table(plan: Plan) -> RenderableType:
    """Return one row a block, and the totals."""
    rows = [
        (i, "opaque" if b.opaque else b.mapping_type.value, len(b.nodes), b.label())
        for i, b in enumerate(plan.blocks)
    ]
    totals = f"{len(plan.graph.nodes)} nodes in {len(plan.blocks)} blocks; {_bytes_between(plan)}"
    columns = ("block", "mapping type", "nodes", "operators")
    opaque = (b.nodes[0] for b in plan.blocks if b.opaque)
    reasons = (f"opaque: {printable(n.label())}: {printable(n.reason)}" for n in opaque)
    return Group(table(f"plan ({plan.planner})", columns, rows), totals, *reasons)


def _bytes_between(plan: Plan) -> str:
    """Say how many bytes go between kernels; a sum that leaves sizes out is no sum."""
    if plan.unsized:
        return (
            f"bytes between kernels unknown: {len(plan.unsized)} values have symbolic or unknown "
            "sizes (--input-shape NAME=DIMS fixes those of inputs)"
        )
    before, after = plan.intermediate_bytes_before, plan.intermediate_bytes_after
    return f"bytes between kernels {before:,} -> {after:,}"


def plan_summary(plan: Plan) -> RenderableType:
    """Return how often each kind of block occurs, most frequent first, and the totals."""
    counts = Counter((b.mapping_type.value, b.label()) for b in plan.blocks)
    rows = [(n, kind, label) for (kind, label), n in counts.most_common()]
    totals = f"{len(plan.graph.nodes)} operators in {len(plan.blocks)} blocks"
    columns = ("blocks", "mapping type", "operators")
    return Group(table("fusion plan", columns, rows), totals)


def program_data(session: Session) -> dict[str, Any]:
    """Return what was compiled: launches by executor and memory."""
    programs: list[dict[str, Any]] = []
    for program in session.programs:
        records = program.records()
        programs.append(
            {
                "target": program.target,
                "launches": len(records),
                "native": sum(r.executor == "native" for r in records),
                "fallback": sum(r.executor == "fallback" for r in records),
                "fallback_reasons": [
                    f"{r.nodes[0]}: {r.reason}" for r in records if r.executor == "fallback"
                ],
                "arena_bytes": program.arena_bytes,
                "constant_bytes": int(program.constants.nbytes),
            }
        )
    return {"programs": programs}


def program_table(data: Mapping[str, Any]) -> RenderableType:
    """Return one row per program and the reasons of its fallback steps."""
    rows = [
        (p["target"], p["native"], p["fallback"], p["arena_bytes"], p["constant_bytes"])
        for p in data["programs"]
    ]
    columns = ("target", "native blocks", "fallback steps", "arena bytes", "weight bytes")
    reasons = [f"fallback: {r}" for p in data["programs"] for r in p["fallback_reasons"]]
    return Group(table("compiled", columns, rows), *reasons)


def outputs_data(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return dtype, shape and a summary of each output."""
    return {name: _summary(value) for name, value in outputs.items()}


def _summary(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"dtype": str(value.dtype), "shape": list(value.shape)}
    if value.size and value.dtype.kind in "fiub":
        wide = value.astype("float64")
        data |= {"min": float(wide.min()), "max": float(wide.max()), "mean": float(wide.mean())}
    return data


def outputs_table(outputs: Mapping[str, Any]) -> RenderableType:
    """Return one row an output."""
    data = outputs_data(outputs)
    rows = [
        (k, d["dtype"], str(d["shape"]), d.get("min"), d.get("max"), d.get("mean"))
        for k, d in data.items()
    ]
    return table("outputs", ("name", "dtype", "shape", "min", "max", "mean"), rows)


def bench_table(result: BenchResult) -> RenderableType:
    """Return the medians and the ratio."""
    rows: list[tuple[object, ...]] = [("egraph_fusion", result.milliseconds, None)]
    if result.peer is not None:
        rows.append((result.peer, result.peer_milliseconds, result.speedup))
    note = f"{result.threads} threads, {result.rounds} interleaved rounds, medians"
    if result.worst_difference is not None:
        note += f"; outputs differ by at most {result.worst_difference:.3g} of their spread"
    return Group(table("latency", ("", "ms a run", "we are faster by"), rows), note)


def profile_data(models: Mapping[str, Sequence[ProfileStep]]) -> dict[str, Any]:
    """Return all launches of each model."""
    return {
        model: [
            {
                "nodes": list(s.nodes),
                "executor": s.executor,
                "mapping_type": s.mapping_type,
                "seconds": s.seconds,
                "flops": s.flops,
                "bytes": s.bytes,
            }
            for s in steps
        ]
        for model, steps in models.items()
    }


def profile_table(models: Mapping[str, Sequence[ProfileStep]]) -> RenderableType:
    """Return one table a model: launches in order, and the fallback's share."""
    parts: list[RenderableType] = []
    for model, steps in models.items():
        total = sum(s.seconds for s in steps) or 1.0
        rows = [
            (
                s.executor,
                s.mapping_type,
                f"{s.seconds * 1e6:,.1f}",
                f"{100 * s.seconds / total:.1f}",
                f"{s.flops / max(s.seconds, 1e-9) / 1e9:.2f}",
                ", ".join(s.nodes),
            )
            for s in steps
        ]
        columns = ("executor", "mapping type", "µs", "%", "GFLOP/s", "nodes")
        parts.append(table(f"launches of {model}", columns, rows))
        slow = [s for s in steps if s.executor == "fallback"]
        share = 100 * sum(s.seconds for s in slow) / total
        parts.append(
            f"{len(steps)} launches in {total * 1e6:,.1f} µs; fallback: {len(slow)} ({share:.1f} %)"
        )
    return Group(*parts)


def doctor_table(found: Mapping[str, Any]) -> RenderableType:
    """Return one row a check."""
    rows = [(c["what"], c["ok"], c["detail"]) for c in found["checks"]]
    return table("doctor", ("what", "works", "detail"), rows)
