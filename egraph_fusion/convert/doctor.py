"""What works on this machine: one check a line, each with what to do if it fails."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from egraph_fusion.codegen import build
from egraph_fusion.codegen.cache import default_folder
from egraph_fusion.errors import EgraphFusionError

_NEEDED = ("egglog", "onnx", "numpy", "cffi", "highspy", "typer", "rich")


def examine() -> dict[str, Any]:
    """Return {"ok": all that is needed works, "checks": [{"what", "ok", "needed", "detail"}]}."""
    checks = [
        _check("Python", platform.python_version),
        _check("operating system", _system),
        *(_check(name, partial(version, name)) for name in _NEEDED),
        _check("C compiler", _compiler),
        _check("cache folder", _cache),
        _check("cores", lambda: str(os.cpu_count())),
        _check("OpenCL", _opencl, needed=False),
        _check("onnxruntime", lambda: version("onnxruntime"), needed=False),
    ]
    return {"ok": all(c["ok"] or not c["needed"] for c in checks), "checks": checks}


def _check(what: str, examine_it: Callable[[], str], *, needed: bool = True) -> dict[str, Any]:
    try:
        return {"what": what, "ok": True, "needed": needed, "detail": examine_it()}
    except PackageNotFoundError:
        detail = f"not installed: pip install {what}"
    except (EgraphFusionError, OSError, ImportError) as error:
        detail = str(error)
    return {"what": what, "ok": False, "needed": needed, "detail": detail}


def _compiler() -> str:
    found = build.find_compiler()
    return f"{found.command[0]}: {found.version.splitlines()[0]}"


def _system() -> str:
    if os.name == "nt":
        raise EgraphFusionError("Windows is not supported; use Linux, macOS or WSL")
    return f"{platform.system()} {platform.machine()}"


def _cache() -> str:
    folder = default_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder):
        return str(folder)


def _opencl() -> str:
    from egraph_fusion.runtime.opencl_target import describe_device

    return describe_device()
