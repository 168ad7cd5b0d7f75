"""Every declared operator: laws, intervals, operation counts, mapping types and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from operator_oracles import applied, evaluated
from operator_samples import SAMPLES, Sample

from egraph_fusion.ir.dims import Dim, Shape, substitute, symbol
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS, Kind, Law, MappingType
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.ops.reading import TypeRuleError, types_of
from egraph_fusion.ir.ops.tracing import node_flops
from egraph_fusion.ir.tensors import DType, TensorType

Array = NDArray[Any]
by_sample = pytest.mark.parametrize("sample", SAMPLES, ids=str)


N = symbol("n")
UNARY = [n for n, o in OPERATORS.items() if o.kind is Kind.ELEMENTWISE and o.arity == (1, 1)]


def _domain(name: str) -> Array:
    """Return float64 points of the operator's domain, in increasing order."""
    partial = {"Sqrt": (0, 9), "Log": (0.01, 9), "Acosh": (1, 9), "Reciprocal": (0.1, 9)}
    unit = dict.fromkeys(("Asin", "Acos", "Atanh"), (-0.99, 0.99))
    low, high = {**partial, **unit}.get(name, (-1.5, 1.5) if name == "Tan" else (-6, 6))
    return np.linspace(low, high, 193)


def _apply(name: str, *operands: Array) -> Array:
    sample = next(s for s in SAMPLES if s.op == name)
    operator = OPERATORS[name]
    return operator.evaluate(operands, normalized(operator, types_of(operands), sample.attrs))[0]


def _with_law(law: Law) -> list[str]:
    return [n for n in UNARY if law in OPERATORS[n].laws and n != "Not" and n[:3] != "Bit"]


@pytest.mark.parametrize("name", _with_law(Law.INCREASING))
def test_increasing(name: str) -> None:
    assert (np.diff(_apply(name, _domain(name))) >= -1e-12).all()


@pytest.mark.parametrize("name", _with_law(Law.DECREASING))
def test_decreasing(name: str) -> None:
    assert (np.diff(_apply(name, _domain(name))) <= 1e-12).all()


@pytest.mark.parametrize("name", _with_law(Law.ODD))
def test_odd(name: str) -> None:
    x = _domain(name)
    np.testing.assert_allclose(_apply(name, -x), -_apply(name, x), atol=1e-12)


@pytest.mark.parametrize("name", _with_law(Law.EVEN))
def test_even(name: str) -> None:
    x = _domain(name)
    np.testing.assert_allclose(_apply(name, -x), _apply(name, x), atol=1e-12)


@pytest.mark.parametrize("name", _with_law(Law.ZERO_PRESERVING))
def test_zero_preserving(name: str) -> None:
    assert _apply(name, np.zeros(1))[0] == 0


@pytest.mark.parametrize("name", _with_law(Law.IDEMPOTENT))
def test_idempotent(name: str) -> None:
    once = _apply(name, _domain(name))
    np.testing.assert_array_equal(_apply(name, once), once)


@pytest.mark.parametrize("name", _with_law(Law.INVOLUTION))
def test_involution(name: str) -> None:
    x = _domain(name)
    np.testing.assert_array_equal(_apply(name, _apply(name, x)), x)


BINARY = [
    n for n, o in OPERATORS.items() if o.kind is Kind.ELEMENTWISE and Law.COMMUTATIVE in o.laws
]


def _two(name: str) -> list[Array]:
    sample = next(s for s in SAMPLES if s.op == name)
    x = sample.operands[0]
    assert x is not None
    return [np.roll(x.astype(np.float64) if x.dtype.kind == "f" else x, i) for i in range(3)]


@pytest.mark.parametrize("name", BINARY)
def test_commutative(name: str) -> None:
    a, b, _ = _two(name)
    np.testing.assert_array_equal(_apply(name, a, b), _apply(name, b, a))


@pytest.mark.parametrize("name", [n for n in BINARY if Law.ASSOCIATIVE in OPERATORS[n].laws])
def test_associative(name: str) -> None:
    a, b, c = _two(name)
    left, right = _apply(name, _apply(name, a, b), c), _apply(name, a, _apply(name, b, c))
    np.testing.assert_allclose(left, right, rtol=1e-12)


@by_sample
def test_interval_contains_what_is_computed(sample: Sample) -> None:
    operator, attrs = applied(sample)
    operands = [o for o in sample.operands if o is not None]
    numeric = all(o.size and np.isfinite(o.astype(np.float64)).all() for o in operands)
    if operator.interval is None or len(operands) < len(sample.operands) or not numeric:
        return
    bounds = [(float(o.min()), float(o.max())) for o in operands]
    low, high = operator.interval(bounds, attrs)
    found = evaluated(sample)[0].astype(np.float64)
    assert found.min() >= low
    assert found.max() <= high


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "flops"),
    [
        ("Add", [(3, 4), (4,)], {}, 12),
        ("Max", [(3, 4), (4,), (4,)], {}, 24),
        ("Mean", [(3, 4), (4,), (4,)], {}, 36),
        ("Gelu", [(10,)], {}, 50),
        ("Gelu", [(10,)], {"approximate": "tanh"}, 90),
        ("Swish", [(10,)], {}, 20),
        ("HardSwish", [(10,)], {}, 20),
        ("Identity", [(10,)], {}, 0),
        ("Clip", [(10,), (), ()], {}, 10),
        ("ReduceSum", [(2, 3, 4)], {"axes": (2,)}, 18),
        ("ReduceMean", [(2, 3, 4)], {"axes": (2,)}, 24),
        ("ReduceL2", [(2, 3, 4)], {"axes": (2,)}, 48),
        ("ReduceMax", [(2, 3, 4)], {}, 23),
        ("ArgMax", [(2, 3, 4)], {"axis": 1}, 16),
        ("CumSum", [(2, 3, 4)], {"axis": 1}, 16),
        ("MatMul", [(5, 3, 4), (4, 2)], {}, 240),
        ("MatMul", [(4,), (4,)], {}, 8),
        ("Gemm", [(3, 4), (4, 5), (5,)], {}, 135),
        ("Gemm", [(3, 4), (4, 5), (5,)], {"alpha": 0.5, "beta": 2.0}, 155),
        ("Conv", [(1, 4, 5, 5), (6, 4, 3, 3), (6,)], {}, 54 * 72 + 54),
        ("Conv", [(1, 4, 5, 5), (4, 1, 3, 3)], {"group": 4}, 36 * 18),
        ("ConvTranspose", [(1, 4, 5, 5), (4, 2, 3, 3)], {}, 2 * 100 * 18),
        ("Einsum", [(3, 4), (4, 5)], {"equation": "ij,jk->ik"}, 120),
        ("Einsum", [(3, 4), (3, 4)], {"equation": "ij,ij->ij"}, 12),
        ("MaxPool", [(1, 1, 4, 4)], {"kernel_shape": (2, 2), "strides": (2, 2)}, 12),
        ("AveragePool", [(1, 1, 4, 4)], {"kernel_shape": (2, 2), "strides": (2, 2)}, 16),
        ("GlobalAveragePool", [(1, 2, 3, 3)], {}, 18),
        ("Softmax", [(2, 8)], {}, 14 + 16 + 16 + 14 + 16),
        ("LayerNormalization", [(2, 8), (8,), (8,)], {}, 16 + 16 + 16 + 16 + 2 + 2 + 16 + 32),
        ("Transpose", [(3, 4)], {}, 0),
        ("Gather", [(3, 4), (3, 4)], {}, 0),
    ],
)
def test_flops(
    name: str, shapes: list[tuple[int, ...]], attrs: dict[str, AttrValue], flops: int
) -> None:
    operator = OPERATORS[name]
    types: list[TensorType] = [TensorType(DType.FLOAT32, s) for s in shapes]
    if name == "Gather":
        types[1] = TensorType(DType.INT64, shapes[1])
    filled = normalized(operator, types, attrs)
    assert operator.flops(types, operator.infer(types, filled), filled) == flops


TABLE_2 = {
    MappingType.ONE_TO_ONE: (
        "Add Asin BatchNormalization Cast Ceil Clip Concat Cos Erf Exp Greater LeakyRelu Log Not "
        "PRelu Reciprocal Relu Round Sigmoid Sin Slice Split Sqrt Tanh Where"
    ),
    MappingType.ONE_TO_MANY: "Expand Gather Resize",
    MappingType.MANY_TO_MANY: (
        "AveragePool Conv ConvTranspose CumSum Einsum Gemm InstanceNormalization MaxPool "
        "ReduceProd ReduceMean Softmax"
    ),
    MappingType.REORGANIZE: "Flatten Reshape Squeeze Unsqueeze",
    MappingType.SHUFFLE: "DepthToSpace SpaceToDepth Transpose",
}


@pytest.mark.parametrize(
    ("mapping", "name"), [(m, n) for m, names in TABLE_2.items() for n in names.split()]
)
def test_mapping_types_are_those_of_the_paper(mapping: MappingType, name: str) -> None:
    sample = next(s for s in SAMPLES if s.op == name)
    operator, attrs = applied(sample)
    ins = types_of(sample.operands)
    constant = [i > 0 for i in range(len(ins))]
    assert operator.mapping(ins, operator.infer(ins, attrs), constant, attrs) is mapping


def test_a_broadcast_activation_makes_one_to_many() -> None:
    ins = (TensorType(DType.FLOAT32, (2, 3)), TensorType(DType.FLOAT32, (3,)))
    outs = (TensorType(DType.FLOAT32, (2, 3)),)
    add = OPERATORS["Add"]
    assert add.mapping(ins, outs, (False, False), {}) is MappingType.ONE_TO_MANY
    assert add.mapping(ins, outs, (False, True), {}) is MappingType.ONE_TO_ONE


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("Add", [(3, 4), (5,)], {}, "broadcast"),
        ("MatMul", [(3, 4), (5, 2)], {}, "inner dimensions"),
        ("MatMul", [(2, 3, 4), (3, 4, 2)], {}, "batch"),
        ("Gemm", [(3, 4, 1), (4, 2)], {}, "matrices"),
        ("Conv", [(1, 4, 5, 5), (6, 3, 3, 3)], {}, "channels"),
        ("Conv", [(1, 4, 2, 2), (6, 4, 3, 3)], {}, "does not fit"),
        ("Reshape", [(3, 4)], {"shape": (5, -1)}, "multiple"),
        ("Reshape", [(3, 4)], {"shape": (13,)}, "element counts"),
        ("Transpose", [(3, 4)], {"perm": (0, 2)}, "permute"),
        ("Squeeze", [(3, 1)], {"axes": (0,)}, "size 1"),
        ("Concat", [(3, 4), (3, 5)], {"axis": 0}, "sizes"),
        ("Split", [(3, 4)], {"axis": 1, "split": (1, 1)}, "add up"),
        ("Softmax", [(3, 4)], {"axis": 2}, "rank 2"),
        ("ReduceSum", [(3, 4)], {"axes": (0, -2)}, "twice"),
        ("Relu", [(3,)], {"alpha": 1.0}, "no attribute"),
        ("Expand", [(3,)], {"shape": (2,)}, "broadcast"),
        ("Pad", [(3,)], {"pads": (1,)}, "pads"),
        ("Cast", [(3,)], {"to": "string"}, "no element type"),
        ("BatchNormalization", [(2, 3), *[(3,)] * 4], {"training_mode": 1}, "training"),
        ("Einsum", [(3, 4)], {"equation": "ijk->i"}, "fit"),
    ],
)
def test_clashes_are_refused_with_a_reason(
    name: str, shapes: list[tuple[int, ...]], attrs: dict[str, AttrValue], message: str
) -> None:
    operator = OPERATORS[name]
    types = [TensorType(DType.FLOAT32, s) for s in shapes]
    with pytest.raises(TypeRuleError, match=message):
        operator.infer(types, normalized(operator, types, attrs))


def test_mixed_dtypes_are_refused() -> None:
    types = [TensorType(DType.FLOAT32, (3,)), TensorType(DType.FLOAT16, (3,))]
    with pytest.raises(TypeRuleError, match="share one dtype"):
        OPERATORS["Add"].infer(types, {})


@pytest.mark.parametrize("name", [n for n in BINARY if Law.IDEMPOTENT in OPERATORS[n].laws])
def test_an_operand_with_itself_is_that_operand(name: str) -> None:
    a, _, _ = _two(name)
    np.testing.assert_array_equal(_apply(name, a, a), a)


REDUCTIONS = [n for n, o in OPERATORS.items() if o.kind is Kind.REDUCTION and o.reduction]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction_laws_hold(name: str) -> None:
    laws, x = OPERATORS[name].laws, np.linspace(-2, 3, 24).reshape(2, 3, 4)
    if Law.ODD in laws:
        np.testing.assert_allclose(_apply(name, -x), -_apply(name, x))
    if Law.EVEN in laws:
        np.testing.assert_allclose(_apply(name, -x), _apply(name, x))
    if Law.ZERO_PRESERVING in laws:
        assert not _apply(name, np.zeros_like(x)).any()


def _batch_norm_flops(constant: list[bool]) -> Dim:
    ins = [TensorType(DType.FLOAT32, (2, 3, 5, 5)), *[TensorType(DType.FLOAT32, (3,))] * 4]
    operator = OPERATORS["BatchNormalization"]
    attrs = normalized(operator, ins, {})
    return node_flops(operator, ins, operator.infer(ins, attrs), attrs, constant)


def test_work_on_constant_operands_is_free() -> None:
    assert _batch_norm_flops([False, True, True, True, True]) == 3 * 150
    assert _batch_norm_flops([False] * 5) == 3 * 150 + 3 * 3
    assert _batch_norm_flops([True] * 5) == 0


@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [
        ("Add", [(N, 4), (4,)], {}),
        ("MatMul", [(N, 7, 4), (4, 5)], {}),
        ("Softmax", [(N, 8)], {}),
        ("LayerNormalization", [(N, 8), (8,), (8,)], {}),
        ("ReduceMean", [(N, 3)], {"axes": (1,)}),
        ("Conv", [(N, 2, 5, 5), (3, 2, 3, 3)], {}),
        ("MaxPool", [(N, 2, 5, 5)], {"kernel_shape": (2, 2)}),
    ],
)
def test_symbolic_flops_hold_for_numbers(
    name: str, shapes: list[Shape], attrs: dict[str, AttrValue]
) -> None:
    def count(n: Dim) -> Dim:
        ins = [TensorType(DType.FLOAT32, tuple(substitute(d, {"n": n}) for d in s)) for s in shapes]
        operator = OPERATORS[name]
        filled = normalized(operator, ins, attrs)
        return operator.flops(ins, operator.infer(ins, filled), filled)

    assert substitute(count(N), {"n": 6}) == count(6)
