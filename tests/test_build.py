"""The compiler driver: its errors, and a cache that survives damage, company and bad disks."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from egraph_fusion.codegen import build, cache
from egraph_fusion.codegen.build import Unit, find_compiler, shared_library
from egraph_fusion.errors import CompileError

DECLARATION = "int answer(void);"
Change = Callable[[build.Compiler, Unit], tuple[build.Compiler, Unit]]
UNIT = Unit("answer", "int answer(void) { return 42; }")
root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def counting_compiler(folder: Path) -> tuple[build.Compiler, Path]:
    """A compiler that notes each call in a log."""
    log = folder / "calls"
    script = folder / "counting-cc"
    script.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec cc "$@"\n')
    script.chmod(0o755)
    return build.Compiler((str(script),), "counting"), log


def calls(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_builds_and_calls(tmp_path: Path) -> None:
    library = build.build([UNIT], DECLARATION, cache_folder=tmp_path / "cache")
    assert library.function("answer")() == 42


def test_several_units_link_together(tmp_path: Path) -> None:
    caller = Unit("caller", "int answer(void); int twice(void) { return 2 * answer(); }")
    library = build.build([UNIT, caller], "int twice(void);", cache_folder=tmp_path)
    assert library.function("twice")() == 84


def test_unknown_function_is_named(tmp_path: Path) -> None:
    library = build.build([UNIT], "int question(void);", cache_folder=tmp_path)
    with pytest.raises(CompileError, match="question"):
        library.function("question")


def test_second_build_compiles_nothing(tmp_path: Path) -> None:
    compiler, log = counting_compiler(tmp_path)
    first = shared_library([UNIT], compiler=compiler, cache_folder=tmp_path / "cache")
    before = calls(log)
    assert shared_library([UNIT], compiler=compiler, cache_folder=tmp_path / "cache") == first
    assert calls(log) == before == 2


def test_changed_unit_leaves_the_others_compiled(tmp_path: Path) -> None:
    compiler, log = counting_compiler(tmp_path)
    other = Unit("other", "int other(void) { return 1; }")
    shared_library([UNIT, other], compiler=compiler, cache_folder=tmp_path / "cache")
    before = calls(log)
    changed = Unit("other", "int other(void) { return 2; }")
    shared_library([UNIT, changed], compiler=compiler, cache_folder=tmp_path / "cache")
    assert calls(log) - before == 2


def other_source(compiler: build.Compiler, unit: Unit) -> tuple[build.Compiler, Unit]:
    return compiler, Unit(unit.name, unit.source + "\n")


def other_flags(compiler: build.Compiler, unit: Unit) -> tuple[build.Compiler, Unit]:
    return compiler, Unit(unit.name, unit.source, ("-O1",))


def other_version(compiler: build.Compiler, unit: Unit) -> tuple[build.Compiler, Unit]:
    return build.Compiler(compiler.command, "another version"), unit


@pytest.mark.parametrize("change", [other_source, other_flags, other_version])
def test_entry_depends_on(change: Change, tmp_path: Path) -> None:
    compiler, log = counting_compiler(tmp_path)
    shared_library([UNIT], compiler=compiler, cache_folder=tmp_path / "cache")
    before = calls(log)
    other, unit = change(compiler, UNIT)
    shared_library([unit], compiler=other, cache_folder=tmp_path / "cache")
    assert calls(log) > before


def test_march_is_part_of_the_key(tmp_path: Path) -> None:
    native = shared_library([UNIT], cache_folder=tmp_path)
    keys = set(tmp_path.glob("*.key"))
    shared_library([UNIT], build.baseline_march(), cache_folder=tmp_path)
    assert set(tmp_path.glob("*.key")) > keys
    assert native.exists()


def test_damaged_entry_is_rebuilt(tmp_path: Path) -> None:
    path = shared_library([UNIT], cache_folder=tmp_path)
    path.write_bytes(b"\x7fELF truncated")
    library = build.build([UNIT], DECLARATION, cache_folder=tmp_path)
    assert library.function("answer")() == 42


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"../../etc/passwd", b"0" * 64])
def test_damaged_key_is_rebuilt(content: bytes, tmp_path: Path) -> None:
    shared_library([UNIT], cache_folder=tmp_path)
    for key in tmp_path.glob("*.key"):
        key.write_bytes(content)
    assert build.build([UNIT], DECLARATION, cache_folder=tmp_path).function("answer")() == 42


def test_cache_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    path = shared_library([UNIT], cache_folder=folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_folder_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    path = shared_library([UNIT], cache_folder=tmp_path)
    assert path.parent != tmp_path
    assert not list(tmp_path.iterdir())


def test_unusable_cache_falls_back_to_a_private_folder(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    unit = Unit("blocked", "int answer(void) { return 42; } /* blocked */")
    path = shared_library([unit], cache_folder=blocked / "cache")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert build.load(path, DECLARATION).function("answer")() == 42


@root
def test_read_only_cache_is_read_and_not_written(tmp_path: Path) -> None:
    known = shared_library([UNIT], cache_folder=tmp_path)
    before = sorted(tmp_path.iterdir())
    tmp_path.chmod(0o500)
    assert shared_library([UNIT], cache_folder=tmp_path) == known
    other = Unit("other", "int answer(void) { return 43; }")
    assert build.build([other], DECLARATION, cache_folder=tmp_path).function("answer")() == 43
    assert sorted(tmp_path.iterdir()) == before
    tmp_path.chmod(0o700)


def test_full_disk_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        if Path(target).is_relative_to(tmp_path):
            raise OSError(28, "No space left on device")
        Path(target).write_bytes(Path(source).read_bytes())

    monkeypatch.setattr(shutil, "copyfile", full)
    unit = Unit("full", "int answer(void) { return 42; } /* full */")
    assert not shared_library([unit], cache_folder=tmp_path).is_relative_to(tmp_path)
    assert not list(tmp_path.iterdir())


def test_threads_and_processes_may_build_the_same_at_once(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from egraph_fusion.codegen import build;"
        "u = build.Unit('answer', 'int answer(void) { return 42; }');"
        "lib = build.build([u], 'int answer(void);', cache_folder=Path(sys.argv[1]));"
        "assert lib.function('answer')() == 42"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    others = [
        subprocess.Popen(command, env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
        for _ in range(2)
    ]
    with ThreadPoolExecutor(4) as pool:
        building = [pool.submit(shared_library, [UNIT], cache_folder=tmp_path) for _ in range(4)]
        found = [future.result() for future in building]
    assert [process.wait() for process in others] == [0, 0]
    assert build.load(found[0], DECLARATION).function("answer")() == 42
    assert not list(tmp_path.glob(".new-*"))


def test_missing_compiler_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"no C compiler: looked for cc, gcc, clang.*install"):
        find_compiler({"PATH": str(tmp_path)})


def test_wrong_cc_is_shown() -> None:
    with pytest.raises(CompileError, match="'/nowhere/cc'"):
        find_compiler({"CC": "/nowhere/cc", "PATH": os.environ["PATH"]})


def test_cc_may_carry_arguments() -> None:
    found = find_compiler({"CC": "cc -m64", "PATH": os.environ["PATH"]})
    assert found.command[1:] == ("-m64",)
    assert found.version


def test_compiler_error_shows_unit_and_last_lines(tmp_path: Path) -> None:
    bad = Unit("bad one", "int answer(void) { return 1 }")
    with pytest.raises(CompileError, match=r"'bad one'.*said last:[\s\S]*expected"):
        shared_library([bad], cache_folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_link_error_is_shown(tmp_path: Path) -> None:
    compiler = build.Compiler(("false",), "fails")
    with pytest.raises(CompileError, match=r"exit 1\).*\n.*said nothing"):
        shared_library([UNIT], compiler=compiler, cache_folder=tmp_path)


def test_crash_of_the_compiler_is_shown(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="cannot be run"):
        shared_library([UNIT], compiler=build.Compiler(("/nowhere",), ""), cache_folder=tmp_path)


def test_unloadable_library_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "broken.so"
    path.write_bytes(b"no library")
    with pytest.raises(CompileError, match=r"broken\.so cannot be loaded"):
        build.load(path, DECLARATION)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({cache.VARIABLE: "/a/b"}, Path("/a/b")),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/egraph-fusion")),
        ({"HOME": "/h"}, Path("/h/.cache/egraph-fusion")),
    ],
)
def test_default_folder(
    environment: dict[str, str], expected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (cache.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache.default_folder() == expected


def test_digest_tells_parts_apart() -> None:
    assert cache.digest("ab", "c") != cache.digest("a", "bc")
