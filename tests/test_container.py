"""The .efz file and the cache of programs: the same model again, and damage found."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node
from onnx_models import info, model_of
from small_models import dense, dense_inputs, python, saved, with_opaque

import egraph_fusion as ef
from egraph_fusion import pipeline
from egraph_fusion.codegen import cache
from egraph_fusion.frontend.source import ModelSource
from egraph_fusion.runtime import c_target, container
from egraph_fusion.runtime.program_cache import ProgramCache


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("efz") / "m.efz"
    ef.compile(dense(), threads=2).save(path)
    return path


def test_a_loaded_model_computes_the_same_bits(file: Path) -> None:
    own = ef.compile(dense(), threads=2).run(None, dense_inputs())
    loaded = ef.load_compiled(file, threads=2).run(None, dense_inputs())
    assert [a.tobytes() for a in own] == [a.tobytes() for a in loaded]


def test_a_loaded_model_describes_itself_the_same(tmp_path: Path) -> None:
    node = make_node("Concat", ["x", "x"], ["y"], axis=0)
    session = ef.compile(model_of([node], [info("x", ["n", 2])], ["y"]))
    session.run(None, {"x": np.ones((3, 2), np.float32)})
    session.save(tmp_path / "m.efz")
    loaded = ef.load_compiled(tmp_path / "m.efz")
    assert session.get_outputs()[0].shape == ["2*n", 2]
    assert loaded.get_inputs() == session.get_inputs()
    assert loaded.get_outputs() == session.get_outputs()


def test_a_fresh_process_needs_neither_compiler_nor_optimiser(file: Path, tmp_path: Path) -> None:
    code = f"""
import sys, numpy as np, egraph_fusion as ef
session = ef.load_compiled({str(file)!r}, threads=2)
y, z = session.run(None, {{"x": np.ones((3, 5), np.float32)}})
assert y.shape == (3, 4) and z.shape == (3,)
print(sorted({{"egglog", "highspy", "onnx", "egraph_fusion.optimizer"}} & sys.modules.keys()))
"""
    done = python(code, {"PATH": str(tmp_path), "EGRAPH_FUSION_CACHE": str(tmp_path / "cache")})
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_weights_are_mapped_not_copied(file: Path) -> None:
    (program,) = ef.load_compiled(file).programs
    base: Any = program.constants
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)


def test_constants_of_fallback_steps_survive(tmp_path: Path) -> None:
    nodes = [make_node("StringConcat", ["s", "tail"], ["y"])]
    text = info("s", [2], TensorProto.STRING)
    model = model_of(nodes, [text], [info("y", [2], TensorProto.STRING)], opset=20, ir_version=9)
    model.graph.initializer.add(name="tail", data_type=TensorProto.STRING, dims=[1]).string_data[
        :
    ] = [b"!"]
    ef.compile(model).save(tmp_path / "m.efz")
    (y,) = ef.load_compiled(tmp_path / "m.efz").run(None, {"s": np.array(["a", "é"], dtype=object)})
    assert y.tolist() == ["a!", "é!"]


def test_fallback_steps_run_after_loading(tmp_path: Path) -> None:
    ef.compile(with_opaque()).save(tmp_path / "m.efz")
    x = np.ones((4, 6), np.float32)
    (y,) = ef.load_compiled(tmp_path / "m.efz").run(None, {"x": x})
    np.testing.assert_array_equal(y, np.argwhere(x).T)


def test_a_model_with_open_shapes_is_saved_with_the_shapes_it_ran_with(tmp_path: Path) -> None:
    session = ef.compile(dense("rows"))
    with pytest.raises(ef.CompileError, match="the shapes of x are symbolic"):
        session.save(tmp_path / "m.efz")
    expected = session.run(None, dense_inputs(2))[0]
    session.save(tmp_path / "m.efz")
    loaded = ef.load_compiled(tmp_path / "m.efz")
    assert loaded.get_inputs()[0].shape == ["rows", 5]
    np.testing.assert_array_equal(loaded.run(None, dense_inputs(2))[0], expected)
    with pytest.raises(
        ef.RunError, match=r"compiled for input shapes \[\[\(2, 5\)\]\], not \[\(3, 5\)\]"
    ):
        loaded.run(None, dense_inputs(3))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "not a .efz file"),
    "text": (lambda data: b"hello" * 100, "not a .efz file"),
    "cut in the header": (lambda data: data[:60], "damaged"),
    "cut in the weights": (lambda data: data[:-70], "shorter|damaged"),
    "bit flip in the header": (lambda data: flipped(data, 100), "damaged"),
    "bit flip at the end": (lambda data: flipped(data, len(data) - 1), "damaged"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found(kind: str, file: Path, tmp_path: Path) -> None:
    damage, words = DAMAGE[kind]
    bad = tmp_path / "bad.efz"
    bad.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ef.CompileError, match=words):
        ef.load_compiled(bad)


def test_a_bit_flip_in_any_section_is_found(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    (program,) = ef.load_compiled(file).programs
    for held in (program.library, program.constants.tobytes()):
        bad = tmp_path / "bad.efz"
        bad.write_bytes(flipped(data, data.index(held) + len(held) // 2))
        with pytest.raises(ef.CompileError, match="damaged"):
            ef.load_compiled(bad)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ef.CompileError, match=r"cannot read '.*none\.efz'"):
        ef.load_compiled(tmp_path / "none.efz")


def lacks_avx1024(_needed: tuple[str, ...]) -> list[str]:
    return ["avx1024"]


def test_another_cpu_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_target, "missing_features", lacks_avx1024)
    with pytest.raises(ef.CompileError, match="a CPU with avx1024, which this machine lacks"):
        ef.load_compiled(file).run(None, dense_inputs())


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egraph_fusion.runtime.program_json.__version__", "9.9")
    ef.compile(dense()).save(tmp_path / "m.efz")
    monkeypatch.undo()
    with pytest.raises(ef.CompileError, match=r"written by version 9\.9"):
        container.read(tmp_path / "m.efz")


def refuse(*_args: object, **_kwargs: object) -> Any:
    raise AssertionError("a stage ran")


@pytest.mark.parametrize("rows", [3, "rows"])
def test_a_known_model_starts_without_any_stage(
    rows: int | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EGRAPH_FUSION_CACHE", str(tmp_path / "cache"))
    path = saved(dense(rows), tmp_path / "m.onnx")
    cold = ef.compile(path).run(None, dense_inputs())
    monkeypatch.setattr(ModelSource, "graph", refuse)
    monkeypatch.setattr(pipeline, "_through", refuse)
    warm = ef.compile(path).run(None, dense_inputs())
    assert [a.tobytes() for a in cold] == [a.tobytes() for a in warm]


def test_options_are_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRAPH_FUSION_CACHE", str(tmp_path))
    choices: list[dict[str, Any]] = [{}, {"optimize": False}, {"threads": 7}, {"numerics": "exact"}]
    for options in choices:
        ef.compile(dense(), **options)
    assert len(list((tmp_path / "programs").iterdir())) == 4


def test_a_changed_weight_is_another_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRAPH_FUSION_CACHE", str(tmp_path / "cache"))
    path = saved(dense(), tmp_path / "m.onnx")
    before = ef.compile(path).run(None, dense_inputs())[0]
    other = dense()
    other.graph.initializer[2].raw_data = np.array(4.0, np.float32).tobytes()
    np.testing.assert_allclose(
        ef.compile(saved(other, path)).run(None, dense_inputs())[0], 2 * before, rtol=1e-6
    )


def test_a_damaged_entry_counts_as_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRAPH_FUSION_CACHE", str(tmp_path))
    before = ef.compile(dense()).run(None, dense_inputs())[0]
    (entry,) = (tmp_path / "programs").iterdir()
    entry.write_bytes(flipped(entry.read_bytes(), entry.stat().st_size // 2))
    np.testing.assert_array_equal(ef.compile(dense()).run(None, dense_inputs())[0], before)


def test_the_cache_forgets_what_was_not_used_for_longest(file: Path, tmp_path: Path) -> None:
    ports, programs = container.read(file)
    store = ProgramCache(tmp_path / "programs", int(2.5 * file.stat().st_size))
    for age, key in enumerate("ab"):
        store.keep(key, ports, programs)
        os.utime(tmp_path / "programs" / f"{key}.efz", (age, age))
    store.find("a")
    store.keep("c", ports, programs)
    assert sorted(p.stem for p in (tmp_path / "programs").iterdir()) == ["a", "c"]


def test_a_cache_that_others_can_write_is_not_used(file: Path, tmp_path: Path) -> None:
    ports, programs = container.read(file)
    store = ProgramCache(tmp_path / "programs", 1 << 30)
    store.keep("a", ports, programs)
    assert store.find("a") is not None
    (tmp_path / "programs").chmod(0o777)
    assert store.find("a") is None


def random_bytes(out: Path) -> None:
    out.write_bytes(os.urandom(1000))


def test_compiled_units_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LIMIT", 50_000)
    store = cache.Cache(tmp_path / "units")
    for number in range(400):
        store.fetch(f"key {number}", ".o", random_bytes)
    assert sum(p.stat().st_size for p in store.folder.iterdir()) < 300_000
    newest = store.fetch("key 399", ".o", refuse)
    assert newest.stat().st_size == 1000
