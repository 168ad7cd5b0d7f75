"""Public functions with arguments that they do not take: an error of ours that names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import dense, dense_inputs, saved

import egraph_fusion
from egraph_fusion.arguments import checked, described, fits

# Type checkers would refuse these calls as well.
ef: Any = egraph_fusion
ODD: tuple[Any, ...] = (
    None, 0, -1, 3, 2**70, 2.5, float("nan"), True, b"", b"xx", "", "none", "a\0b", [], [3], ["y"],
    (1, 2), {}, {"x": None}, {"x": [[1], [1, 2]]}, {3: 1}, np.ones(3), object(), len, Path("."),
)  # fmt: skip


@cache
def graph() -> Any:
    return ef.load(dense())


@cache
def session() -> Any:
    return ef.compile(dense(), threads=1)


@cache
def planned() -> Any:
    return ef.plan(graph())


def fed(key: Any, value: Any) -> Any:
    try:
        return session().run(None, {key: value})
    except TypeError as error:
        raise ef.RunError("unhashable, so python refuses it") from error


x = dense_inputs()["x"]
CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "load": lambda v, _: ef.load(v),
    "optimize": lambda v, _: ef.optimize(v),
    "optimize, rules": lambda v, _: ef.optimize(graph(), v, time_limit=5),
    "optimize, without": lambda v, _: ef.optimize(graph(), (), v),
    "optimize, numerics": lambda v, _: ef.optimize(graph(), numerics=v),
    "optimize, extractor": lambda v, _: ef.optimize(graph(), extractor=v),
    "optimize, cost": lambda v, _: ef.optimize(graph(), cost=v),
    "optimize, time_limit": lambda v, _: ef.optimize(graph(), (), time_limit=v),
    "optimize, node_limit": lambda v, _: ef.optimize(graph(), (), node_limit=v),
    "optimize, iter_limit": lambda v, _: ef.optimize(graph(), (), iter_limit=v),
    "report": lambda v, folder: ef.report(v, folder / "r.html", measure=False),
    "report, path": lambda v, _: ef.report(graph(), v, measure=False),
    "plan": lambda v, _: ef.plan(v),
    "plan, planner": lambda v, _: ef.plan(graph(), v),
    "plan, profile": lambda v, _: ef.plan(graph(), "dnnfusion", v),
    "save, graph": lambda v, folder: ef.save(v, folder / "o.onnx"),
    "save, path": lambda v, _: ef.save(graph(), v),
    "save, functions": lambda v, folder: ef.save(graph(), folder / "o.onnx", v),
    "save, opset": lambda v, folder: ef.save(graph(), folder / "o.onnx", None, v),
    "compile": lambda v, _: ef.compile(v, threads=1),
    "compile, target": lambda v, _: ef.compile(graph(), v, 1),
    "compile, threads": lambda v, _: ef.compile(graph(), threads=v),
    "compile, numerics": lambda v, _: ef.compile(graph(), threads=1, numerics=v),
    "compile, shapes": lambda v, _: ef.compile(graph(), threads=1, shapes=v),
    "compile, march": lambda v, _: ef.compile(graph(), threads=1, march=v),
    "load_compiled": lambda v, _: ef.load_compiled(v),
    "emit_c": lambda v, folder: ef.emit_c(v, folder),
    "emit_c, folder": lambda v, _: ef.emit_c(graph(), v),
    "bench": lambda v, _: ef.bench(v, rounds=1, threads=1),
    "bench, against": lambda v, _: ef.bench(graph(), v, rounds=1, threads=1),
    "why_not": lambda v, _: planned().why_not(v, "y"),
    "run, names": lambda v, _: session().run(v, {"x": x}),
    "run, feeds": lambda v, _: session().run(None, v),
    "run, key": lambda v, _: fed(v, x),
    "run, value": lambda v, _: fed("x", v),
    "profile": lambda v, _: session().profile(v, 1),
    "profile, runs": lambda v, _: session().profile(None, -1 if isinstance(v, int) else v),
    "steps": lambda v, _: session().steps(v),
    "session.save": lambda v, _: session().save(v),
}


@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments_are_taken_or_refused_by_an_error_of_ours(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = 0
    for value in ODD:
        try:
            CALLS[name](value, tmp_path)
        except ef.EgraphFusionError:
            refused += 1
    assert refused > len(ODD) // 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ef.load(3), r"load: source is 3 \(int\); expected str, Path or ModelProto"),
        (lambda: ef.load(b"xx"), r"load: source is b'xx' \(bytes\)"),
        (lambda: ef.load(None), r"load: source is None"),
        (lambda: ef.save(ef.optimize(graph()), "o"), r"expected Graph; did you mean its \.graph\?"),
        (lambda: ef.compile(dense(), threads=0), "compile: threads is 0; expected 1 or more"),
        (lambda: ef.compile(dense(), threads=True), r"threads is True \(bool\); expected int or"),
        (
            lambda: ef.compile(dense("rows"), shapes={"x": 3}),
            r"shapes is \{'x': 3\} \(dict\); expected a dict of str to a list of int or None",
        ),
        (lambda: ef.bench(dense(), rounds=0), "bench: rounds is 0; expected 1 or more"),
        (lambda: ef.save(graph(), "o", opset=10**6), "opset 1000000 cannot be written; expected 1"),
        (lambda: session().run(None, None), r"given as a NoneType; expected a dict of arrays by"),
        (lambda: session().run(None, [x]), r"given as a list; .*: \{'x': float32\[3,5\]\}"),
        (lambda: session().run("y", {"x": x}), r"are 'y'; expected a list of \['y', 'z'\], or Non"),
        (lambda: session().run([3], {"x": x}), "no output is called 3"),
        (lambda: session().run(None, {3: x}), "no input is called 3"),
        (lambda: session().run(None, {"x": None}), r"input 'x' \(float32\[3,5\]\) is missing"),
        (lambda: session().run(None, {"x": [[1], [2, 3]]}), "got a list that is no array"),
        (
            lambda: session().run(None, {"x": np.full((3, 5), None)}),
            r"expected float32\[3,5\], got dtype object",
        ),
        (lambda: session().profile(runs=0), "profile: runs is 0; expected 1 or more"),
        (lambda: planned().why_not(3, "y"), r"why_not: a is 3 \(int\); expected str or Node"),
    ],
)
def test_the_message_says_what_came_and_what_was_expected(
    call: Callable[[], Any], words: str
) -> None:
    with pytest.raises(ef.EgraphFusionError, match=words):
        call()


def unaligned() -> Any:
    data = np.zeros(x.nbytes + 1, np.uint8)
    data[1:] = np.frombuffer(x.tobytes(), np.uint8)
    return data[1:].view(np.float32).reshape(x.shape)


@pytest.mark.parametrize(
    "other",
    [x.astype(x.dtype.newbyteorder()), unaligned(), np.asfortranarray(x), np.flip(np.flip(x))],
    ids=["byte order", "unaligned", "column order", "backwards"],
)
def test_however_values_lie_in_memory_they_mean_the_same(other: Any) -> None:
    for wanted, found in zip(
        session().run(None, {"x": x}), session().run(None, {"x": other}), strict=True
    ):
        np.testing.assert_array_equal(wanted, found)


def test_numpy_integers_and_lists_of_sizes_are_taken() -> None:
    sizes: Any = {"x": [np.int64(2), 5]}
    assert ef.compile(dense("rows"), threads=1, shapes=sizes).get_inputs()[0].shape == [2, 5]


def test_plans_and_benchmarks_take_every_kind_of_model(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path / "m.onnx")
    for source in (path, str(path), dense(), graph()):
        assert ef.optimize(source, ()).report.ops_before == 5
        assert ef.plan(source).blocks
        assert ef.bench(source, rounds=1, threads=1).milliseconds > 0


@pytest.mark.parametrize(
    ("hint", "words", "good", "bad"),
    [
        (int, "int", (3, np.int32(3)), (True, 2.5, "3")),
        (float, "float", (3, 2.5, np.float32(1)), (True, "3", None)),
        (str | Path, "str or Path", ("a", Path("a")), (b"a", None)),
        (Sequence[str], "a list of str", ([], ["a"], ("a",)), ("a", [3], {"a"}, None)),
        (tuple[int, ...], "a list of int", ((1,), [1]), (1, ["a"])),
        (Mapping[str, int] | None, "a dict of str to int or None", (None, {"a": 1}), ({1: 1}, [])),
        (Callable[[int], int] | None, "a function or None", (None, abs), (3, "abs")),
        (object, "object", (None, 3), ()),
    ],
)
def test_types_are_held_against_annotations(
    hint: Any, words: str, good: Sequence[Any], bad: Sequence[Any]
) -> None:
    assert described(hint) == words
    assert [v for v in good if not fits(v, hint)] == []
    assert [v for v in bad if fits(v, hint)] == []


def test_the_function_stays_what_it_was() -> None:
    @checked(ef.RunError, least={"count": 1})
    def double(count: int, *, step: float = 0.5) -> float:
        """Return twice the count."""
        return 2 * count + step

    assert double.__doc__ == "Return twice the count."
    assert double(2, step=1) == 5
    untyped: Any = double
    for wrong in ({"count": 0}, {"count": 1, "step": "a"}):
        with pytest.raises(ef.RunError):
            untyped(**wrong)
    with pytest.raises(TypeError):
        untyped()
