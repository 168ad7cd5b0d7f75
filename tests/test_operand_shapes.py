"""Operands that ONNX lets broadcast one way only, or wants of a given shape: others are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from egraph_fusion import rulesets
from egraph_fusion.ir.dims import Shape, symbol
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.ops.reading import TypeRuleError
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.rule import rule
from egraph_fusion.rulesets.verification import verify

Shapes = Sequence[tuple[int, ...]]
IMAGE, VECTOR = (2, 3, 4, 5), (3,)
FITS: dict[str, tuple[str, Sequence[Shapes], dict[str, Any]]] = {
    "Gemm": ("Gemm", [[(3, 2), (2, 4), c] for c in ((), (4,), (1,), (1, 4), (3, 1), (3, 4))], {}),
    "Gemm of nothing": ("Gemm", [[(0, 2), (2, 4), c] for c in ((4,), (0, 4), (1, 4))], {}),
    "PRelu": ("PRelu", [[(2, 3, 4), s] for s in ((), (4,), (3, 1), (2, 3, 4), (1, 1, 1))], {}),
    "Clip": ("Clip", [[(2, 3), (), ()], [(), (), ()], [(2, 3), ()]], {}),
    "LayerNormalization": (
        "LayerNormalization",
        [[(2, 3, 4), s, s] for s in ((4,), (1,), (3, 4), (1, 4))],
        {"axis": 1},
    ),
    "BatchNormalization": (
        "BatchNormalization",
        [[IMAGE, *[VECTOR] * 4], [(4, 3), *[VECTOR] * 4]],
        {},
    ),
    "InstanceNormalization": ("InstanceNormalization", [[IMAGE, VECTOR, VECTOR]], {}),
    "Conv": ("Conv", [[(1, 2, 4, 4), (3, 2, 2, 2), VECTOR]], {}),
    "ConvTranspose": ("ConvTranspose", [[(1, 2, 4, 4), (2, 3, 2, 2), VECTOR]], {}),
    "Pad": ("Pad", [[(2, 3)], [(2, 1)], [(0, 3)]], {"pads": (0, 1, 0, 1), "mode": "reflect"}),
}
REFUSED: dict[str, tuple[str, Sequence[Shapes], dict[str, Any]]] = {
    "Gemm": (
        "Gemm",
        [[(3, 2), (2, 3), c] for c in ((2,), (1, 4), (4, 3), (0, 0), (2, 2), (1, 1, 1), (0,))],
        {},
    ),
    "Gemm, enlarged": ("Gemm", [[(1, 2), (2, 3), c] for c in ((2, 3), (2, 1))], {}),
    "PRelu": ("PRelu", [[(3, 4), s] for s in ((3,), (2, 3, 4), (1, 3, 4))], {}),
    "PRelu, enlarged": ("PRelu", [[(1, 4), (3, 4)], [(), (1,)], [(1,), (0,)]], {}),
    "Clip": ("Clip", [[(2, 3), (3,), ()], [(2, 3), (), (2, 3)], [(2, 3), (1,), ()]], {}),
    "LayerNormalization": (
        "LayerNormalization",
        [[(2, 3, 4), s] for s in ((3,), (2, 2, 3, 4), (5, 4))],
        {},
    ),
    "RMSNormalization": ("RMSNormalization", [[(1, 4), s] for s in ((3, 4), (3,), (1, 1, 4))], {}),
    "BatchNormalization": (
        "BatchNormalization",
        [[IMAGE, *[s] * 4] for s in ((2,), (1,), (), (3, 1))] + [[(5,), *[(5,)] * 4]],
        {},
    ),
    "InstanceNormalization": (
        "InstanceNormalization",
        [[IMAGE, (1,), VECTOR], [IMAGE, VECTOR, (3, 1)], [(3,), (1,), (1,)]],
        {},
    ),
    "Conv": ("Conv", [[(1, 2, 4, 4), (3, 2, 2, 2), s] for s in ((1,), (2,), (), (1, 3, 1, 1))], {}),
    "ConvTranspose": (
        "ConvTranspose",
        [[(1, 2, 4, 4), (2, 3, 2, 2), s] for s in ((1,), (2,), (), (3, 1))],
        {},
    ),
    "Pad": ("Pad", [[(2, 0)], [(0, 0)]], {"pads": (0, 1, 0, 1), "mode": "reflect"}),
    "Pad, cropped": ("Pad", [[(2, 3)]], {"pads": (0, -3, 0, 2), "mode": "edge"}),
}
INTEGERS: list[tuple[str, Shapes, list[str], dict[str, Any], bool]] = [
    ("MatMulInteger", [(2, 3), (3, 4), (2,), (4,)], ["int8"] * 4, {}, True),
    ("MatMulInteger", [(2, 3), (3, 4), (), (1,)], ["int8"] * 4, {}, True),
    ("MatMulInteger", [(2, 3), (3, 4), (3,)], ["int8"] * 3, {}, False),
    ("MatMulInteger", [(2, 3), (3, 4), (), (3,)], ["int8"] * 4, {}, False),
    ("ConvInteger", [(1, 2, 4), (3, 2, 2), (), (3,)], ["int8"] * 4, {}, True),
    ("ConvInteger", [(1, 2, 4), (3, 2, 2), (2,)], ["int8"] * 3, {}, False),
    ("ConvInteger", [(1, 2, 4), (3, 2, 2), (), (2,)], ["int8"] * 4, {}, False),
    ("QuantizeLinear", [(2, 3), (3,), (3,)], ["float32", "float32", "int8"], {"axis": 1}, True),
    ("QuantizeLinear", [(2, 3), (2,), (2,)], ["float32", "float32", "int8"], {"axis": 1}, False),
    ("QuantizeLinear", [(2, 3), (3,), (2,)], ["float32", "float32", "int8"], {"axis": 1}, False),
    ("DequantizeLinear", [(2, 3), (), (3,)], ["int8", "float32", "int8"], {"axis": 1}, False),
    ("GatherElements", [(2, 3), (1, 5)], ["float32", "int64"], {"axis": 1}, True),
    ("GatherElements", [(2, 3), (3, 5)], ["float32", "int64"], {"axis": 1}, False),
    ("GatherND", [(2, 3), (2, 1)], ["float32", "int64"], {"batch_dims": 1}, True),
    ("GatherND", [(2, 3), (1, 1)], ["float32", "int64"], {"batch_dims": 1}, False),
    ("GatherND", [(2, 3), (1,)], ["float32", "int64"], {"batch_dims": 1}, False),
    ("OneHot", [(2,), (2,)], ["int64", "float32"], {"depth": 3}, True),
    ("OneHot", [(2,), (3,)], ["int64", "float32"], {"depth": 3}, False),
]


def infer(op: str, types: list[TensorType], attrs: dict[str, Any]) -> TensorType:
    """Return the result's type."""
    return OPERATORS[op].infer(types, normalized(OPERATORS[op], types, attrs))[0]


def floats(shapes: Shapes) -> list[TensorType]:
    """Return types of floats."""
    return [TensorType(DType.FLOAT32, s) for s in shapes]


def in_reference(op: str, shapes: Shapes, attrs: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape that onnx.reference gives."""
    names = [f"x{i}" for i in range(len(shapes))]
    feeds: dict[str, Any] = {n: np.ones(s, np.float32) for n, s in zip(names, shapes, strict=True)}
    wired = [*names]
    if op == "Pad":
        feeds["pads"] = np.asarray(attrs["pads"], np.int64)
        wired, attrs = [*names, "pads"], {"mode": attrs["mode"]}
    node = helper.make_node(op, wired, ["y"], **attrs)
    kinds = {n: helper.np_dtype_to_tensor_dtype(v.dtype) for n, v in feeds.items()}
    inputs = [helper.make_tensor_value_info(n, k, feeds[n].shape) for n, k in kinds.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    model = helper.make_model(helper.make_graph([node], "g", inputs, outputs))
    results: Any = ReferenceEvaluator(model).run(None, feeds)
    return tuple(results[0].shape)


@pytest.mark.parametrize("name", FITS)
def test_operands_that_fit_are_taken(name: str) -> None:
    op, cases, attrs = FITS[name]
    for shapes in cases:
        assert infer(op, floats(shapes), attrs).shape == in_reference(op, shapes, attrs)


@pytest.mark.parametrize("name", REFUSED)
def test_operands_that_do_not_fit_are_refused(name: str) -> None:
    op, cases, attrs = REFUSED[name]
    for shapes in cases:
        with pytest.raises(TypeRuleError, match=op):
            infer(op, floats(shapes), attrs)


@pytest.mark.parametrize(("op", "shapes", "dtypes", "attrs", "fits"), INTEGERS)
def test_operands_of_other_dtypes(
    op: str, shapes: Shapes, dtypes: list[str], attrs: dict[str, Any], fits: bool
) -> None:
    types = [TensorType(DType(d), s) for d, s in zip(dtypes, shapes, strict=True)]
    if fits:
        assert infer(op, types, attrs).shape is not None
    else:
        with pytest.raises(TypeRuleError, match=op):
            infer(op, types, attrs)


def test_sizes_that_are_not_known_are_taken() -> None:
    n, m = symbol("n"), symbol("m")
    taken: list[tuple[str, list[Shape], Shape]] = [
        ("Gemm", [(n, 2), (2, m), (m,)], (n, m)),
        ("Gemm", [(n, 2), (2, 4), (m, 4)], (n, 4)),
        ("PRelu", [(n, 4), (n, 1)], (n, 4)),
        ("Conv", [(n, 2, 4), (3, 2, 1), (m,)], (n, 3, 4)),
    ]
    for op, shapes, wanted in taken:
        assert infer(op, [TensorType(DType.FLOAT32, s) for s in shapes], {}).shape == wanted


a, b, c = rulesets.tensors("a b c")
s, t = rulesets.attrs("s t")


@pytest.mark.parametrize("seed", range(4))
def test_a_bias_taken_out_of_gemm_is_right(seed: int) -> None:
    product = ops.gemm(a, b, alpha=1.0, beta=1.0, transA=s, transB=t)
    r = rule("r", ops.gemm(a, b, c, alpha=1.0, beta=1.0, transA=s, transB=t), product + c)
    found = verify(r, max_examples=60, seed=seed, check_guards=False)
    assert found.ok, str(found)
