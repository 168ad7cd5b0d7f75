"""Every declared operator: its meanings, types, costs and laws agree with one another and with ONNX."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.reference
import onnxruntime
import pytest
from numpy.typing import NDArray
from operator_samples import SAMPLES, Sample

from egraph_fusion.ir.dims import Dim, substitute, symbol
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS, Kind, Law, MappingType, Operator
from egraph_fusion.ir.ops.operator import (
    Piece,
    TypeRuleError,
    normalized,
    types_of,
)
from egraph_fusion.ir.ops.tracing import evaluate_body
from egraph_fusion.ir.tensors import DType, TensorType

Array = NDArray[Any]
OPSET = onnx.defs.onnx_opset_version()
DTYPE_ATTRS = {"to", "dtype", "output_dtype"}
by_sample = pytest.mark.parametrize("sample", SAMPLES, ids=str)


def onnx_type(dtype: np.dtype[Any]) -> int:
    return onnx.helper.np_dtype_to_tensor_dtype(dtype)


def onnx_model(sample: Sample) -> onnx.ModelProto:
    """Return a model of one node; attributes that ONNX has as operands become initializers."""
    schema = onnx.defs.get_schema(sample.op, OPSET)
    names = [f"in{i}" for i in range(len(sample.operands))]
    attrs: dict[str, Any] = {}
    constants: dict[int, onnx.TensorProto] = {}
    formals = [i.name for i in schema.inputs]
    for key, value in sample.attrs.items():
        if key in schema.attributes:
            attrs[key] = onnx_type(DType(value).numpy) if key in DTYPE_ATTRS and value else value
        else:
            dtype = np.float32 if key == "scales" else np.int64
            constants[formals.index(key)] = onnx.numpy_helper.from_array(
                np.asarray(value, dtype), f"attr_{key}"
            )
    given = iter(zip(names, sample.operands, strict=True))
    inputs: list[str] = []
    for position in range(len(sample.operands) + max([0, *(p + 1 for p in constants)])):
        if position in constants:
            inputs.append(constants[position].name)
            continue
        name, operand = next(given, ("", None))
        inputs.append(name if operand is not None else "")
    while inputs and not inputs[-1]:
        inputs.pop()
    outputs = [f"out{i}" for i in range(sample.outputs)]
    node = onnx.helper.make_node(sample.op, inputs, outputs, **attrs)
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [
            onnx.helper.make_tensor_value_info(n, onnx_type(o.dtype), o.shape)
            for n, o in zip(names, sample.operands, strict=True)
            if o is not None
        ],
        [onnx.helper.make_empty_tensor_value_info(o) for o in outputs],
        list(constants.values()),
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)])


def reference(sample: Sample) -> list[Array]:
    session = onnx.reference.ReferenceEvaluator(onnx_model(sample))
    feeds = {f"in{i}": o for i, o in enumerate(sample.operands) if o is not None}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [np.asarray(r) for r in session.run(None, feeds)]


def by_onnxruntime(sample: Sample) -> list[Array]:
    model = onnx_model(sample)
    model.ir_version = 10
    model.opset_import[0].version = 21
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = {f"in{i}": o for i, o in enumerate(sample.operands) if o is not None}
    return [np.asarray(r) for r in session.run(None, feeds)]


def by_definition(sample: Sample) -> list[Array]:
    """Follow the sums of ONNX's text where neither implementation does."""
    x = np.asarray(sample.operands[0], np.float64)
    if sample.op == "GlobalLpPool":
        p = float(dict(sample.attrs).get("p", 2))  # type: ignore[arg-type]
        out = (np.abs(x) ** p).sum(axis=(2, 3), keepdims=True) ** (1 / p)
        return [out.astype(np.float32)]
    attrs = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0, **sample.attrs}
    alpha, beta, bias, size = (float(attrs[k]) for k in ("alpha", "beta", "bias", "size"))  # type: ignore[arg-type]
    out = np.empty_like(x)
    for c in range(x.shape[1]):
        low, high = c - math.floor((size - 1) / 2), c + math.ceil((size - 1) / 2)
        square = (x[:, max(0, low) : high + 1] ** 2).sum(axis=1)
        out[:, c] = x[:, c] / (bias + alpha / size * square) ** beta
    return [out.astype(np.float32)]


def expected(sample: Sample) -> list[Array]:
    """Return what ONNX says; onnx.reference is wrong or silent on a few forms."""
    if sample.op in ("GlobalLpPool", "LRN"):
        return by_definition(sample)
    attrs = sample.attrs
    wrong = (
        (sample.op == "Pad" and min(attrs["pads"]) < 0)  # type: ignore[arg-type,type-var]
        or (sample.op == "ConvTranspose" and attrs.get("group", 1) != 1)
        or (sample.op == "LpPool" and attrs.get("ceil_mode", 0))
        or (sample.op == "LpNormalization" and attrs.get("p", 2) == 1)
    )
    return by_onnxruntime(sample) if wrong else reference(sample)


def applied(sample: Sample) -> tuple[Operator, dict[str, AttrValue]]:
    operator = OPERATORS[sample.op]
    return operator, normalized(operator, types_of(sample.operands), sample.attrs)


def evaluated(sample: Sample) -> tuple[Array, ...]:
    operator, attrs = applied(sample)
    return operator.evaluate(sample.operands, attrs)


def close(got: Array, wanted: Array, tolerance: float = 2e-5) -> None:
    assert got.shape == wanted.shape
    if got.dtype.kind == "f":
        scale = float(np.max(np.abs(wanted), initial=1.0, where=np.isfinite(wanted)))
        np.testing.assert_allclose(
            got.astype(np.float64),
            wanted.astype(np.float64),
            rtol=tolerance,
            atol=tolerance * scale,
        )
    else:
        np.testing.assert_array_equal(got, wanted)


def test_at_least_a_hundred_operators_are_declared() -> None:
    assert len(OPERATORS) >= 100


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_has_a_sample(name: str) -> None:
    assert any(s.op == name for s in SAMPLES)


@by_sample
def test_evaluation_agrees_with_onnx(sample: Sample) -> None:
    for got, wanted in zip(evaluated(sample), expected(sample), strict=False):
        assert got.dtype == wanted.dtype
        close(got, wanted)


@by_sample
def test_types_agree_with_evaluation(sample: Sample) -> None:
    operator, attrs = applied(sample)
    types = operator.infer(types_of(sample.operands), attrs)
    found = [TensorType(DType.of(v.dtype), v.shape) for v in evaluated(sample)]
    assert list(types) == found


@by_sample
def test_types_agree_with_onnx_shape_inference(sample: Sample) -> None:
    inferred = onnx.shape_inference.infer_shapes(onnx_model(sample), data_prop=True)
    operator, attrs = applied(sample)
    types = operator.infer(types_of(sample.operands), attrs)
    for kind, value in zip(types, inferred.graph.output, strict=False):
        claim = value.type.tensor_type
        if claim.elem_type:
            assert onnx_type(kind.dtype.numpy) == claim.elem_type
        if claim.HasField("shape") and kind.shape is not None:
            dims = [d.dim_value if d.HasField("dim_value") else None for d in claim.shape.dim]
            assert len(dims) == len(kind.shape)
            assert all(d is None or d == k for d, k in zip(dims, kind.shape, strict=True))


def _with_symbols(
    types: Sequence[TensorType | None],
) -> tuple[list[TensorType | None], dict[str, Dim]]:
    """Replace the extents above 1 of all operands by symbols, equal ones by the same symbol."""
    values: dict[str, Dim] = {}
    out: list[TensorType | None] = []
    for kind in types:
        if kind is None or kind.shape is None or not kind.dtype.is_float:
            out.append(kind)
            continue
        dims: list[Dim] = []
        for d in kind.shape:
            assert isinstance(d, int)
            dims.append(symbol(f"n{d}") if d > 1 else d)
            values[f"n{d}"] = d
        out.append(TensorType(kind.dtype, tuple(dims)))
    return out, values


@by_sample
def test_symbolic_types_hold_for_the_sample(sample: Sample) -> None:
    operator, _ = applied(sample)
    types, values = _with_symbols(types_of(sample.operands))
    try:
        attrs = normalized(operator, types, sample.attrs)
        results = operator.infer(types, attrs)
    except TypeRuleError:
        return
    for kind, found in zip(results, evaluated(sample), strict=False):
        if kind.shape is not None:
            assert tuple(substitute(d, values) for d in kind.shape) == found.shape


@pytest.mark.parametrize("name", [n for n in OPERATORS if OPERATORS[n].kind is Kind.ELEMENTWISE])
def test_unknown_rank_gives_unknown_rank(name: str) -> None:
    sample = next(s for s in SAMPLES if s.op == name)
    operator, attrs = applied(sample)
    types = [None if t is None else TensorType(t.dtype, None) for t in types_of(sample.operands)]
    assert operator.infer(types, attrs)[0].shape is None


@by_sample
def test_unknown_rank_is_typed_or_refused(sample: Sample) -> None:
    operator, attrs = applied(sample)
    types = [None if t is None else TensorType(t.dtype, None) for t in types_of(sample.operands)]
    try:
        results = operator.infer(types, attrs)
    except TypeRuleError:
        return
    for kind, found in zip(results, evaluated(sample), strict=False):
        assert kind.shape is None or kind.shape == found.shape


@by_sample
def test_declared_outputs_are_those_inferred(sample: Sample) -> None:
    operator, attrs = applied(sample)
    results = operator.infer(types_of(sample.operands), attrs)
    assert len(results) == (sample.outputs if operator.outputs is None else operator.outputs)


@by_sample
def test_normalizing_twice_changes_nothing(sample: Sample) -> None:
    operator, attrs = applied(sample)
    assert normalized(operator, types_of(sample.operands), attrs) == attrs


class PythonIndices:
    """Index expressions that are Python integers."""

    def __init__(self, operands: Sequence[Array | None]) -> None:
        self.operands = operands

    def lt(self, a: int, b: int) -> bool:
        return a < b

    def ge(self, a: int, b: int) -> bool:
        return a >= b

    def both(self, a: bool, b: bool) -> bool:
        return a and b

    def clamp(self, a: int, low: int, high: int) -> int:
        return min(max(a, low), high)

    def load(self, operand: int, index: Sequence[int]) -> int:
        found = self.operands[operand]
        assert found is not None
        return int(found[tuple(index)])


def _element(pieces: Sequence[Piece], operands: Sequence[Array | None]) -> Any:
    piece = next(p for p in pieces if p.when is None or p.when)
    if piece.operand is None:
        return piece.value
    operand = operands[piece.operand]
    assert operand is not None
    assert len(piece.index) == operand.ndim
    assert all(0 <= i < d for i, d in zip(piece.index, operand.shape, strict=True))
    return operand[piece.index]


PULLED = [s for s in SAMPLES if OPERATORS[s.op].pull is not None]


@pytest.mark.parametrize("sample", PULLED, ids=str)
def test_index_map_agrees_with_evaluation(sample: Sample) -> None:
    operator, attrs = applied(sample)
    assert operator.pull is not None
    ins = types_of(sample.operands)
    outs = operator.infer(ins, attrs)
    indices = PythonIndices(sample.operands)
    for number, wanted in enumerate(evaluated(sample)):
        got = np.empty_like(wanted)
        for index in np.ndindex(*wanted.shape):
            pieces = operator.pull(indices, number, index, ins, outs, attrs)
            got[index] = _element(pieces, sample.operands)
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", [n for n, o in OPERATORS.items() if o.kind is Kind.MOVEMENT])
def test_movement_has_an_index_map_and_costs_nothing(name: str) -> None:
    sample = next(s for s in SAMPLES if s.op == name)
    operator, attrs = applied(sample)
    types = types_of(sample.operands)
    assert operator.pull is not None
    assert operator.flops(types, operator.infer(types, attrs), attrs) == 0


COMPOSITES = [s for s in SAMPLES if OPERATORS[s.op].body is not None]


@pytest.mark.parametrize("sample", COMPOSITES, ids=str)
def test_body_agrees_with_evaluation(sample: Sample) -> None:
    _, attrs = applied(sample)
    found = evaluate_body(sample.op, types_of(sample.operands), sample.operands, attrs)
    for got, wanted in zip(found, evaluated(sample), strict=True):
        assert got.dtype == wanted.dtype
        close(got, wanted)


@by_sample
def test_half_precision_computes_in_single_and_rounds_once(sample: Sample) -> None:
    if any(o is not None and o.dtype != np.float32 for o in sample.operands) or sample.label:
        return
    narrow = [None if o is None else o.astype(np.float16) for o in sample.operands]
    operator, attrs = applied(sample)
    try:
        got = operator.evaluate(narrow, attrs)
    except TypeRuleError:
        return
    wide = operator.evaluate([None if o is None else o.astype(np.float32) for o in narrow], attrs)
    for half, single in zip(got, wide, strict=True):
        if half.dtype == np.float16:
            close(half.astype(np.float32), single.astype(np.float32), 3e-3)


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
