"""Write the pages of docs/ that come from tables; with --check, only say if they are current."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from growth_page import growth_page
from mutation_page import verification_page
from rules_page import rules_page
from typer.main import get_command

from egraph_fusion.cli import app
from egraph_fusion.ir.ops.table import operators_table

FOLDER = Path(__file__).parent
CLI_HEAD = """# Command line

Generated from the commands by `make docs`. `egraph-fusion` is also `python -m egraph_fusion`.

Exit codes: 0 done, 1 the work failed (one line on standard error says why, nothing is written), 2
wrong usage. A spinner on standard error shows progress if that is a terminal. A `.efz` file is
executable code: run only files that you trust.

Compiled programs are kept in `$EGRAPH_FUSION_CACHE`, else `$XDG_CACHE_HOME/egraph-fusion` or
`~/.cache/egraph-fusion`, so that a model that was compiled once starts at once;
`$EGRAPH_FUSION_CACHE_MB` (8192) bounds the megabytes that they take. `$CC` names the C compiler.
"""


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command below a group with its full name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def parameter_row(parameter: Any) -> str:
    """One row: how a parameter is written, what it means, its default."""
    names = [*parameter.opts, *parameter.secondary_opts]
    written = ", ".join(f"`{n}`" for n in names) if parameter.param_type_name == "option" else ""
    value = parameter.default
    shown = "" if value is None or callable(value) or value is False else f" ({value})"
    meaning = (parameter.help or "").replace("|", "\\|")
    return f"| {written or f'`{parameter.name.upper()}`'} | {meaning}{shown} |"


def command_lines(name: str, command: Any) -> Iterator[str]:
    """Lines of one command's section."""
    positional = (p for p in command.params if p.param_type_name == "argument")
    usage = " ".join([name, *(p.name.upper() + ("..." if p.nargs < 0 else "") for p in positional)])
    yield f"\n## {name.removeprefix('egraph-fusion ')}\n"
    yield f"`{usage}`: {command.help}\n"
    rows = [parameter_row(p) for p in command.params if p.name not in ("help", "debug")]
    yield from ("| parameter | meaning (default) |\n|---|---|", *rows) if rows else ()


def global_lines(group: Any) -> Iterator[str]:
    """Lines of the options that stand before a command's name."""
    yield "## Options of all commands\n"
    yield "These stand before the command's name, as in `egraph-fusion --json plan m.onnx`.\n"
    yield "| parameter | meaning (default) |\n|---|---|"
    yield from (parameter_row(p) for p in group.params)
    yield (
        "\n`--json` and `--debug` may also stand behind it; `--json` holds where a command has it."
    )


def cli_page() -> str:
    """The page of all commands."""
    found = commands(get_command(app), "egraph-fusion")
    lines = [CLI_HEAD, *global_lines(get_command(app))]
    return "\n".join([*lines, *(line for n, c in found for line in command_lines(n, c))]) + "\n"


PAGES = {
    "cli.md": cli_page,
    "growth.md": growth_page,
    "operators.md": operators_table,
    "rules.md": rules_page,
    "verification.md": verification_page,
}


def main(arguments: list[str]) -> int:
    """Write or check every page; 1 if one is not current."""
    stale = [
        n
        for n, page in PAGES.items()
        if not (FOLDER / n).exists() or (FOLDER / n).read_text() != page()
    ]
    if arguments == ["--check"]:
        for name in stale:
            print(f"docs/{name} is not current: run make docs")
        return bool(stale)
    for name in stale:
        (FOLDER / name).write_text(PAGES[name]())
        print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
