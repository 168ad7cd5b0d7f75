"""Masks of the least float and of -inf, whole rows masked: results are what they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from masked_models import LEAST, checked, masked_by_infinity, problems
from numpy.typing import NDArray
from onnx_models import runtime
from test_real_models import materialized

import egraph_fusion as ef
from egraph_fusion.frontend import export
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType

Array = NDArray[Any]
ROWS, WIDTH = 6, 8
SCALE = 1 / np.sqrt(WIDTH)


def _constant(b: GraphBuilder, value: Any) -> str:
    return b.const(np.asarray(value, np.float32))


def _absence(b: GraphBuilder, mask: str) -> str:
    """Return 1 where the mask is 0."""
    present = b.op("Cast", b.op("Unsqueeze", mask, axes=(0,)), to="float32")
    return b.op("Sub", _constant(b, 1), present)


def _times(value: float) -> Callable[[GraphBuilder, str, str], str]:
    def masked(b: GraphBuilder, scores: str, mask: str) -> str:
        return b.op("Add", scores, b.op("Mul", _absence(b, mask), _constant(b, value)))

    return masked


def _chosen(value: float) -> Callable[[GraphBuilder, str, str], str]:
    def masked(b: GraphBuilder, scores: str, mask: str) -> str:
        hidden = b.op("Equal", b.op("Unsqueeze", mask, axes=(0,)), b.const(np.array(0, np.int64)))
        return b.op("Where", hidden, _constant(b, value), scores)

    return masked


def _added_choice(value: float) -> Callable[[GraphBuilder, str, str], str]:
    def masked(b: GraphBuilder, scores: str, mask: str) -> str:
        hidden = b.op("Cast", _absence(b, mask), to="bool")
        chosen = b.op("Where", hidden, _constant(b, value), _constant(b, 0))
        return b.op("Add", scores, chosen)

    return masked


def _constant_rows(value: float) -> Callable[[GraphBuilder, str, str], str]:
    """Mask with a constant whose second row is masked whole, beside the mask that is given."""

    def masked(b: GraphBuilder, scores: str, mask: str) -> str:
        causal = np.triu(np.full((ROWS, ROWS), value), 1)
        causal[1] = value
        return _times(LEAST)(b, b.op("Add", scores, _constant(b, causal)), mask)

    return masked


def _twice(value: float) -> Callable[[GraphBuilder, str, str], str]:
    def masked(b: GraphBuilder, scores: str, mask: str) -> str:
        causal = np.where(np.tri(ROWS, dtype=bool), 0, value)
        return b.op("Add", _times(value)(b, scores, mask), _constant(b, causal))

    return masked


MASKS = {
    f"{name} {label}": make(value)
    for name, make in (
        ("absence times", _times),
        ("chosen", _chosen),
        ("added choice", _added_choice),
        ("constant rows beside", _constant_rows),
        ("twice", _twice),
    )
    for label, value in (("least", LEAST), ("-inf", -np.inf))
}
MASKS["absence times -1e9"] = _times(-1e9)
FINITE = [n for n in MASKS if n.startswith(("absence", "chosen", "added")) and "inf" not in n]


def _softmax(b: GraphBuilder, scores: str) -> str:
    return b.op("Softmax", scores, axis=-1)


def _spelled_out(b: GraphBuilder, scores: str) -> str:
    peak = b.op("ReduceMax", scores, axes=(-1,), keepdims=1)
    powers = b.op("Exp", b.op("Sub", scores, peak))
    return b.op("Div", powers, b.op("ReduceSum", powers, axes=(-1,), keepdims=1))


NORMALISED = {"softmax": _softmax, "spelled out": _spelled_out}


def attention(mask: str, normalised: str) -> Graph:
    """Return a graph that attends under a mask, with a scale before and a product after."""
    b = GraphBuilder("attention", opset=17)
    shape = TensorType(DType.FLOAT32, (ROWS, WIDTH))
    q, k, v = (b.add_input(n, shape) for n in "qkv")
    given = b.add_input("mask", TensorType(DType.INT64, (ROWS,)))
    scores = b.op("MatMul", b.op("Mul", q, _constant(b, SCALE)), b.op("Transpose", k, perm=(1, 0)))
    weights = NORMALISED[normalised](b, MASKS[mask](b, scores, given))
    out = b.op("MatMul", weights, b.op("Mul", v, _constant(b, 2)))
    b.output(b.op("Mul", out, _constant(b, 0.5)))
    return b.build()


def _feeds(present: list[int]) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    feeds: dict[str, Array] = {n: rng.normal(size=(ROWS, WIDTH)).astype(np.float32) for n in "qkv"}
    return {**feeds, "mask": np.array(present, np.int64)}


CASES = [
    *((m, "softmax") for m in MASKS),
    *((m, "spelled out") for m in MASKS if m.startswith(("absence", "chosen"))),
]


@pytest.mark.parametrize(("mask", "normalised"), CASES)
def test_a_masked_row_comes_out_as_it_was(mask: str, normalised: str) -> None:
    graph = attention(mask, normalised)
    optimized = ef.optimize(graph).graph
    original, written = export(graph), export(optimized)
    session = ef.compile(optimized, optimize=False)
    for present in ([0] * ROWS, [1, 0] * (ROWS // 2), [1] * ROWS):
        feeds = _feeds(present)
        (wanted,) = runtime(original, feeds)
        assert problems(runtime(written, feeds)[0], wanted) == ""
        assert problems(session.run(None, feeds)[0], wanted) == ""
        assert mask not in FINITE or np.isfinite(wanted).all()


def test_rows_masked_whole_by_infinity_are_not_numbers() -> None:
    """Say that the oracle of the test above holds what it is about."""
    (wanted,) = runtime(export(attention("chosen -inf", "softmax")), _feeds([0] * ROWS))
    assert np.isnan(wanted).all()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("infinite", [False, True], ids=["least", "-inf"])
@pytest.mark.parametrize("name", ["tinybert", "distilbert"])
def test_a_transformer_is_what_it_was_under_every_mask(
    name: str, infinite: bool, shared_models: Path, tmp_path: Path
) -> None:
    model = onnx.load(materialized(shared_models, name, tmp_path))
    variant = masked_by_infinity(model) if infinite else model
    for mask, wrong, finite in checked(variant):
        assert wrong == "", mask
        assert finite or infinite
