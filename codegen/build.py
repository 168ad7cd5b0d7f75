"""C sources to a loaded shared library: find the compiler, compile through the cache, open it."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from egraph_fusion.codegen.cache import Cache, default_folder, digest
from egraph_fusion.errors import CompileError

CANDIDATES: Final = ("cc", "gcc", "clang")
# No flag here changes a result: neither errno nor floating-point exception flags are read, and
# without them functions such as sqrt and comparisons vectorise. -fwrapv defines integer overflow.
FLAGS: Final = (
    "-O3", "-std=gnu11", "-fPIC", "-pthread", "-w", "-ffp-contract=off", "-fopenmp-simd",
    "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
)  # fmt: skip
_SHOWN_LINES = 12
_INSTALL = (
    "install one (Debian/Ubuntu: `apt install gcc libc6-dev`, Fedora: `dnf install gcc`, "
    "macOS: `xcode-select --install`) or set $CC"
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: its command and what it says of itself."""

    command: tuple[str, ...]
    version: str


@dataclass(frozen=True, slots=True)
class Unit:
    """One translation unit; `flags` come after the common ones."""

    name: str
    source: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Library:
    """A loaded shared library; `ffi` is the cffi.FFI that knows its declarations."""

    path: Path
    ffi: Any
    handle: Any

    def function(self, name: str) -> Any:
        """Return the declared function `name`; CompileError if the library lacks it."""
        try:
            return getattr(self.handle, name)
        except AttributeError as error:
            raise CompileError(f"library {self.path.name} has no function {name!r}") from error


def find_compiler(environ: Mapping[str, str] | None = None) -> Compiler:
    """Return $CC, else the first of cc, gcc, clang on $PATH; CompileError says what to install."""
    env = os.environ if environ is None else environ
    chosen, path = env.get("CC", ""), env.get("PATH", "")
    if chosen.strip():
        command = tuple(shlex.split(chosen))
        if shutil.which(command[0], path=path) is None:
            raise CompileError(
                f"$CC is {chosen!r}, which cannot be run: {_INSTALL} to a C compiler"
            )
        return _asked(command, path)
    for name in CANDIDATES:
        if shutil.which(name, path=path):
            return _asked((name,), path)
    raise CompileError(f"no C compiler: looked for {', '.join(CANDIDATES)} on $PATH; {_INSTALL}")


def build(
    units: Sequence[Unit],
    declarations: str,
    *,
    march: str | None = None,
    compiler: Compiler | None = None,
    cache_folder: Path | None = None,
    jobs: int = 2,
) -> Library:
    """Compile `units` (through the cache), link them and load the library.

    `declarations` is what cffi's `cdef` reads; `march` as for the compiler (None: this machine).
    Raises CompileError with the compiler's last lines, or if there is no compiler.
    """
    return load(shared_library(units, march, compiler, cache_folder, jobs), declarations)


def shared_library(
    units: Sequence[Unit],
    march: str | None = None,
    compiler: Compiler | None = None,
    cache_folder: Path | None = None,
    jobs: int = 2,
) -> Path:
    """Return the path of the shared library of `units`, compiled unless the cache has it."""
    cc = compiler or find_compiler()
    store = Cache(cache_folder or default_folder())
    target = target_flags(march)
    keys = [_key(cc, unit, target) for unit in units]

    def compile_one(unit: Unit, key: str) -> Path:
        return store.fetch(key, ".o", lambda out: _compile(cc, unit, target, out))

    def compile_all(out: Path) -> None:
        with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
            objects = pool.map(compile_one, units, keys)
            _run([*cc.command, "-shared", "-pthread", *map(str, objects), "-o", str(out), "-lm"])

    try:
        return store.fetch(digest("link", *keys), _suffix(), compile_all)
    except OSError as error:
        raise CompileError(
            f"compiled code cannot be written: {error}; is the disk full?"
        ) from error


def load(path: Path, declarations: str) -> Library:
    """Open a shared library; CompileError if the dynamic linker refuses it."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(declarations)
    try:
        return Library(path, ffi, ffi.dlopen(str(path)))
    except OSError as error:
        raise CompileError(f"library {path.name} cannot be loaded: {error}") from error


def target_flags(march: str | None) -> tuple[str, ...]:
    """Return the flags that choose the instruction set: `march`, or this machine's.

    On x86 compilers use half of the AVX-512 registers unless told; whole ones make loops over
    transcendental functions a third faster.
    """
    machine = platform.machine()
    name = "-mcpu" if machine in ("arm64", "aarch64") and march is None else "-march"
    wide = ("-mprefer-vector-width=512",) if machine in ("x86_64", "AMD64") else ()
    return (f"{name}={march or 'native'}", *wide)


def identity(march: str | None) -> str:
    """Return what compiled code depends on besides its source: compiler, flags and CPU.

    Raises CompileError if there is no compiler.
    """
    compiler = find_compiler()
    flags = (*FLAGS, *target_flags(march))
    return digest(*compiler.command, compiler.version, *flags, cpu_features())


def baseline_march() -> str:
    """Return the `march` of every 64-bit machine of this family (no AVX, no fused multiply-add)."""
    return "armv8-a" if platform.machine() in ("arm64", "aarch64") else "x86-64"


@cache
def cpu_features() -> str:
    """Return what this machine's CPU calls itself and can do, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    wanted = ("flags", "Features", "model name", "CPU part")
    found = {line for line in lines if line.split("\t")[0].split(":")[0].strip() in wanted}
    return "\n".join([platform.machine(), platform.processor(), *sorted(found)])


def _key(compiler: Compiler, unit: Unit, target: tuple[str, ...]) -> str:
    machine = cpu_features() if any("native" in f for f in target) else platform.machine()
    flags = "\0".join((*FLAGS, *target, *unit.flags))
    command = "\0".join(compiler.command)
    return digest("unit", unit.source, flags, command, compiler.version, machine)


def _compile(compiler: Compiler, unit: Unit, target: tuple[str, ...], out: Path) -> None:
    source = out.with_name(f"{out.stem}.c")
    source.write_text(unit.source, encoding="utf-8")
    flags = [*FLAGS, *target, *unit.flags]
    _run([*compiler.command, *flags, "-c", str(source), "-o", str(out)], unit.name)


def _run(command: list[str], unit: str = "link") -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise CompileError(f"{command[0]} cannot be run: {error}; {_INSTALL}") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-_SHOWN_LINES:]
        said = "\n".join(f"  {line}" for line in last) or "  (it said nothing)"
        code = done.returncode
        raise CompileError(f"{command[0]} failed on {unit!r} (exit {code}); it said last:\n{said}")


@cache
def _asked(command: tuple[str, ...], path: str) -> Compiler:
    """Ask a compiler for its version, once per process."""
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True)
    except OSError as error:
        raise CompileError(f"{command[0]} cannot be run: {error}; {_INSTALL}") from error
    if done.returncode:
        raise CompileError(f"`{shlex.join(command)} --version` failed: {_INSTALL}")
    found = shutil.which(command[0], path=path) or command[0]
    return Compiler((found, *command[1:]), done.stdout)


def _suffix() -> str:
    return ".dylib" if sys.platform == "darwin" else ".so"
