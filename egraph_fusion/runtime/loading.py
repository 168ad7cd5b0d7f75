"""Loading compiled models: needs neither the stages that made them nor a compiler."""

from __future__ import annotations

import os
from pathlib import Path

from egraph_fusion.arguments import checked
from egraph_fusion.errors import CompileError
from egraph_fusion.runtime.container import read
from egraph_fusion.runtime.session import Session
from egraph_fusion.runtime.targets import load_native


@checked(CompileError, least={"threads": 1})
def load_compiled(path: str | Path, threads: int | None = None) -> Session:
    """Load a `.efz` file; needs neither compiler nor optimiser.

    The file is executable code: load only what you trust.  Raises CompileError if it is damaged or
    was compiled for another CPU.
    """
    ports, programs = read(Path(path))
    count = threads or os.cpu_count() or 1
    return Session(ports, programs, lambda program: load_native(program, count))
