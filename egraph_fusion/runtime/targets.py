"""The targets by name: what they need to know, how they build a program, how they load one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from egraph_fusion.codegen import build
from egraph_fusion.codegen.schedule import TargetInfo
from egraph_fusion.runtime import c_target, machine, opencl_target
from egraph_fusion.runtime.execution import Native
from egraph_fusion.runtime.program import Program

if TYPE_CHECKING:
    from egraph_fusion.runtime.assemble import Assembly


@dataclass(frozen=True, slots=True)
class Backend:
    """One target; `march` is the C compiler's, None for this machine.

    `identity` is equal where the same model becomes the same program.
    """

    info: Callable[[str | None, int], TargetInfo]
    build: Callable[[Assembly, str | None], Program]
    load: Callable[[Program, int], Native]
    identity: Callable[[str | None], str]


TARGETS: dict[str, Backend] = {
    "c": Backend(machine.target_info, c_target.build_program, c_target.CNative, build.identity),
    "opencl": Backend(
        opencl_target.target_info,
        opencl_target.build_program,
        opencl_target.OpenCLNative,
        opencl_target.identity,
    ),
}


def load_native(program: Program, threads: int) -> Native:
    """Load the native code of `program` for `threads` threads."""
    return TARGETS[program.target].load(program, threads)
