"""Commands about the rewrite rules: list, show, verify."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from egraph_fusion.commands import rule_tables
from egraph_fusion.commands.options import Debug, Json, no_nan
from egraph_fusion.commands.outcome import emit, errors
from egraph_fusion.convert.places import output_apart
from egraph_fusion.output_files import write_text

if TYPE_CHECKING:
    from egraph_fusion.rulesets.verify_report import Row


def rules_list(as_json: Json = False, debug: Debug = False) -> None:
    """List the rules: family, name, formula, level."""
    from egraph_fusion import rulesets

    with errors(debug):
        emit(as_json, rule_tables.rules_data(rulesets.ALL), rule_tables.rules_table(rulesets.ALL))


def rules_show(
    name: Annotated[str, typer.Argument(help="The name that `rules list` shows.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show one rule: both sides, guards, level, source, and a graph that costs more without it."""
    from egraph_fusion import rulesets

    with errors(debug):
        found = rulesets.find(name)
        emit(as_json, rule_tables.rule_data(found), rule_tables.rule_text(found))


def rules_verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of ours or Python files; all if absent.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes that share the rules.", min=1)] = 1,
    cluster: Annotated[
        str | None, typer.Option(help="A Dask scheduler's address, or local.")
    ] = None,
    max_examples: Annotated[int, typer.Option(help="Examples for each rule.", min=1)] = 200,
    seed: Annotated[int, typer.Option(help="The same seed gives the same verdicts.", min=0)] = 0,
    time_limit: Annotated[
        float | None, typer.Option(min=0, callback=no_nan, help="Seconds for each rule.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Try to refute rules; a wrong one comes with a snippet that shows it (exit code 1)."""
    from egraph_fusion.rulesets import verify_report as report

    with errors(debug):
        if junit is not None:
            output_apart(junit, *(names or ()))
        rows: list[report.Row] = []
        rules = report.named_rules(names or ())
        if jobs > 1 or cluster is not None:
            verdicts = _spread(jobs, cluster, names or (), max_examples, seed, time_limit)
        else:
            verdicts = report.verify_all(rules, max_examples, seed, time_limit)
        for row in verdicts:
            rows.append(row)
            if not as_json:
                typer.echo(report.as_text(row))
        totals = report.summary(rows)
        if junit is not None:
            write_text(junit, report.as_junit(rows))
        if as_json:
            typer.echo(json.dumps({**totals, "results": [r.to_dict() for r in rows]}, indent=2))
        else:
            typer.echo(", ".join(f"{n} {word}" for word, n in totals.items() if word != "all_ok"))
        if not totals["all_ok"]:
            raise typer.Exit(1)


def _spread(
    jobs: int,
    cluster: str | None,
    names: Sequence[str],
    max_examples: int,
    seed: int,
    time_limit: float | None,
) -> Iterator[Row]:
    """Verify rules in worker processes, here or on a cluster."""
    from egraph_fusion.convert.executors.choosing import executor_for
    from egraph_fusion.convert.verification import verify_on

    executor = executor_for(cluster, jobs)
    try:
        yield from verify_on(executor, names, max_examples, seed, time_limit)
    finally:
        executor.close()
