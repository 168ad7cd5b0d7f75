"""Commands that experiment with rules: explore, rules compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from egraph_fusion import terminal
from egraph_fusion.commands.options import (
    Debug,
    IterLimit,
    Json,
    Model,
    NodeLimit,
    Numerics,
    TimeLimit,
)
from egraph_fusion.commands.outcome import emit, errors
from egraph_fusion.convert.places import output_apart
from egraph_fusion.errors import suggested
from egraph_fusion.output_files import write_text

if TYPE_CHECKING:
    from egraph_fusion.experiment.comparison import Comparison, Row, Rules
    from egraph_fusion.experiment.exploration import Exploration

COMPARED = ("rules", "FLOPs", "±", "nodes", "blocks", "e-nodes", "s", "ended by")


def explore(
    model: Model,
    html: Annotated[Path | None, typer.Option(help="Write a page on it to this file.")] = None,
    rules: Annotated[
        str | None, typer.Option(help="A Python file with rules, or all, paper, structural, ...")
    ] = None,
    without: Annotated[list[str] | None, typer.Option(help="Leave out this rule.")] = None,
    numerics: Numerics = "finite",
    why: Annotated[
        tuple[str, str] | None, typer.Option(help="Two tensors: which rules make them equal?")
    ] = None,
    why_not: Annotated[
        list[str] | None, typer.Option(help="A rule: what kept it from firing?")
    ] = None,
    time_limit: TimeLimit = 60.0,
    node_limit: NodeLimit = 100_000,
    iter_limit: IterLimit = 12,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what rules make of a model: growth, hits, classes, why and why not."""
    from egraph_fusion.experiment import exploration

    with errors(debug):
        if html is not None:
            output_apart(html, model, rules)
        with terminal.progress("exploring", quiet=as_json):
            found = exploration.explore(
                model,
                None if rules is None else rule_set(rules),
                tuple(without or ()),
                numerics,
                time_limit,
                node_limit,
                iter_limit,
            )
            if html is not None:
                found.to_html(html)
        if why is not None:
            told = found.why(*why)
            emit(
                as_json, {"rules": list(told), "steps": [str(s) for s in told.steps]}, _lines(told)
            )
            return
        if why_not:
            misses = [found.why_not(name) for name in why_not]
            emit(as_json, [m.to_dict() for m in misses], _lines(*misses))
            return
        emit(as_json, explored_data(found), explored_table(found))


def compare(
    models: Annotated[list[str], typer.Argument(help="ONNX files, or folders of them.")],
    rules: Annotated[
        list[str] | None,
        typer.Option(
            help="May be repeated: a Python file, or all, paper (its ten), structural, "
            "associative, distributive, commutative, none. Without any: structural, paper and all."
        ),
    ] = None,
    numerics: Numerics = "finite",
    time_limit: TimeLimit = 60.0,
    node_limit: NodeLimit = 100_000,
    iter_limit: IterLimit = 12,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare rule sets on models: FLOPs, nodes, blocks, e-graph, time; 1 if a model failed."""
    from egraph_fusion.experiment import comparison

    with errors(debug):
        for path in filter(None, (csv, markdown)):
            output_apart(path, *models, *(rules or ()))
        sets: dict[str, Rules] = {n: rule_set(n) for n in rules or ("structural", "paper", "all")}
        with terminal.progress("comparing", quiet=as_json):
            found = comparison.compare_rulesets(
                sets,
                models,
                numerics=numerics,
                time_limit=time_limit,
                node_limit=node_limit,
                iter_limit=iter_limit,
            )
        if csv is not None:
            write_text(csv, found.to_csv())
        if markdown is not None:
            write_text(markdown, found.to_markdown() + "\n")
        emit(as_json, found.to_dict(), compared_table(found))
        if any(r.error for r in found.rows):
            raise typer.Exit(1)


def _lines(*values: object) -> str:
    """Return the text of values; control characters in names become escapes."""
    lines = (line for v in values for line in str(v).splitlines())
    return "\n".join(map(terminal.printable, lines))


def rule_set(name: str) -> Any:
    """Return the rules of a named set or of a Python file."""
    from egraph_fusion.rulesets.catalogue import NAMED_SETS, rules_in_file

    if name in NAMED_SETS:
        return NAMED_SETS[name]
    path = Path(name)
    if path.suffix or len(path.parts) > 1 or path.exists():
        return rules_in_file(path)
    hint = suggested(name, NAMED_SETS, f"there are {', '.join(NAMED_SETS)}")
    raise typer.BadParameter(f"no rule set is called {terminal.printable(name)!r}; {hint}")


def compared_table(found: Comparison) -> RenderableType:
    """Return a table for each model with a row for each rule set, and below why some failed."""
    done = [r for r in found.rows if not r.error]
    failed = {f"{r.model}: {r.error}": None for r in found.rows if r.error}
    tables = [
        terminal.table(model, COMPARED, [_compared(r) for r in done if r.model == model])
        for model in dict.fromkeys(r.model for r in done)
    ]
    return Group(*tables, *map(terminal.printable, failed))


def _compared(r: Row) -> tuple[object, ...]:
    assert r.flops is not None
    change = (r.flops - r.flops_before) / r.flops_before if r.flops_before else 0.0
    return (
        r.rules,
        terminal.amount(r.flops),
        f"{change:+.1%}",
        f"{r.nodes_before}→{r.nodes}",
        f"{r.blocks_before}→{r.blocks}",
        f"{r.enodes}",
        f"{r.seconds:.2f}",
        r.stop_reason,
    )


def explored_data(found: Exploration) -> dict[str, Any]:
    """Return an exploration as plain data."""
    return {
        "enodes": found.enodes,
        "eclasses": found.eclasses,
        "iterations": found.iterations,
        "stop_reason": found.stop_reason,
        "growth": list(found.growth),
        "hits": found.hits,
        "seconds": found.seconds,
        "classes": [
            {
                "id": c.id,
                "type": str(c.type),
                "bounds": c.bounds,
                "constant": c.constant,
                "names": list(c.names),
                "terms": list(c.terms),
            }
            for c in found.classes
        ],
    }


def explored_table(found: Exploration) -> RenderableType:
    """Return the size, the rules that fired, and the classes that they made larger."""
    rows = [(name, n, 1e3 * found.seconds.get(name, 0.0)) for name, n in found.hits.items()]
    wide = [c for c in found.classes if len(c.expressions) > 1]
    shown = sorted(wide, key=lambda c: (-len(c.expressions), c.id))[:SHOWN]
    listed = [(f"%{c.id}", str(c.type), len(c.expressions), " = ".join(c.terms[:4])) for c in shown]
    size = (
        f"{found.enodes} e-nodes in {found.eclasses} classes after {found.iterations} iterations"
        f" ({found.stop_reason}); growth {' '.join(map(str, found.growth))}"
    )
    more = f"{len(wide)} classes hold several terms; the {len(shown)} with most are above"
    return Group(
        size,
        terminal.table("rules that fired", ("rule", "hits", "ms"), rows),
        terminal.table("classes", ("class", "type", "terms", "equal terms"), listed),
        more,
    )


SHOWN = 20
"""Classes in the table."""
