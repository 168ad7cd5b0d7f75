"""Where results may go: never in the place of a file that they are made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from egraph_fusion.errors import EgraphFusionError, ModelError
from egraph_fusion.output_files import output_path

_HOLD_ALL = (".efz", ".npz", ".py")


def output_apart(
    path: str | Path, *inputs: Any, error: type[EgraphFusionError] = EgraphFusionError
) -> Path:
    """Return where a file called `path` is to be written, as `output_path` does.

    Raises `error` too if that is one of the `inputs`, under this name or another, or holds data of
    one.  Inputs that are no paths are in no file's way.
    """
    target = output_path(path, error)
    refuse_input(target, *inputs, error=error)
    return target


def refuse_input(
    target: Path, *inputs: Any, error: type[EgraphFusionError] = EgraphFusionError
) -> None:
    """Raise `error` if the file `target` is one of the `inputs` or holds data of one."""
    if not target.is_file():
        return
    for given in inputs:
        if isinstance(given, str | Path) and any(map(target.samefile, _files(given, target))):
            raise error(
                f"{target} cannot be written: this command reads it, and inputs are never changed; "
                "give the output another name"
            )


def _files(given: str | Path, target: Path) -> Iterator[Path]:
    """Yield the files that an input stands for, as far as they may be `target`."""
    path = Path(given)
    with suppress(OSError, RuntimeError, ValueError):  # no name of a file: whoever reads it says so
        path = path.resolve()
        if path.is_dir() and path in target.parents and target.suffix == ".onnx":
            yield target
        if path.is_file():
            yield path
            yield from _data_files(path, target)


def _data_files(model: Path, target: Path) -> Sequence[Path]:
    """Return the files beside a model that hold its data, if `target` lies there."""
    if model.suffix in _HOLD_ALL or model.parent not in target.parents:
        return ()
    from egraph_fusion.frontend.external import external_files

    try:
        return external_files(model.read_bytes(), model.parent, str(model))
    except (ModelError, OSError):  # no model, as whoever reads it will say
        return ()
