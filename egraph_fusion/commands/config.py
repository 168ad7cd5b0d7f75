"""Defaults of options from a file: `[tool.egraph_fusion]` of a pyproject.toml, or its own file.

A key at the top holds for every command that has such an option; a table named as a command
(`batch`, `rules.verify`) for that one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from egraph_fusion.commands.options import Debug, Json

NAME = "egraph_fusion"
PROJECT = "pyproject.toml"


def configure(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file with defaults of options; else [tool.egraph_fusion] in the nearest "
            "pyproject.toml."
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Take defaults of options from a file, and options of every command from before its name."""
    path = config or _nearest_project(Path.cwd())
    try:
        table = {} if path is None else _table(path, explicit=config is not None)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}") from error
    defaults = _defaults(table, context.command, str(path))
    given = {k for k, wanted in (("json", as_json), ("debug", debug)) if wanted}
    _switch_on(given, defaults, context.command)
    context.default_map = defaults


def _nearest_project(folder: Path) -> Path | None:
    found = (p / PROJECT for p in (folder, *folder.parents))
    return next((p for p in found if p.is_file()), None)


def _table(path: Path, *, explicit: bool) -> dict[str, Any]:
    """Return the file's part that is ours; a file named by the user may be ours as a whole."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    if explicit and path.name != PROJECT:
        return content
    return _part(_part(content, "tool", path), NAME, path)


def _part(content: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    found: Any = content.get(key, {})
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{path}: {key!r} is {found!r}; expected a table")
    return cast(dict[str, Any], found)


def _defaults(table: Mapping[str, Any], group: Any, where: str) -> dict[str, Any]:
    """Return click's defaults by command; BadParameter for a key that no option answers to."""
    commands: Mapping[str, Any] = group.commands
    everywhere = {k: v for k, v in table.items() if not isinstance(v, dict)}
    _refuse_unknown(set(everywhere) - set(all_options(group)), where, all_options(group))
    _refuse_unknown(set(table) - set(everywhere) - set(commands), where, commands)
    found: dict[str, Any] = {}
    for name, command in commands.items():
        own = table.get(name, {})
        if hasattr(command, "commands"):
            found[name] = _defaults({**_known_to(command, everywhere), **own}, command, where)
        else:
            options = _options(command)
            _refuse_unknown(set(own) - set(options), f"{where}, [{name}]", options)
            merged = {**_known_to(command, everywhere), **own}
            found[name] = {options[k]: v for k, v in merged.items()}
    return found


def _switch_on(given: set[str], defaults: dict[str, Any], group: Any) -> None:
    """Let the switches `given` hold for every command that has them."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            _switch_on(given, defaults[name], command)
        else:
            options = _options(command)
            defaults[name] |= {options[k]: True for k in given if k in options}


def _known_to(command: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    known = set(all_options(command))
    return {k: v for k, v in values.items() if k in known}


def all_options(command: Any) -> dict[str, str]:
    """Return the options of a command and of those below it."""
    found = _options(command) if not hasattr(command, "commands") else {}
    for below in getattr(command, "commands", {}).values():
        found |= all_options(below)
    return found


def _options(command: Any) -> dict[str, str]:
    """Return the parameter behind each name that a key may have: `time-limit` or `time_limit`."""
    return dict(_option_names(command))


def _option_names(command: Any) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        if parameter.param_type_name != "option" or parameter.name == "help":
            continue
        for option in parameter.opts:
            if option.startswith("--"):
                plain = option.removeprefix("--")
                yield plain, parameter.name
                yield plain.replace("-", "_"), parameter.name


def _refuse_unknown(unknown: set[str], where: str, known: Mapping[str, Any]) -> None:
    if unknown:
        names = ", ".join(sorted({k.replace("_", "-") for k in known}))
        raise typer.BadParameter(f"{where}: unknown key {min(unknown)!r}; there are {names}")
