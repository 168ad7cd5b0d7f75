"""Every declared operator: its meanings and types agree with one another and with ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.shape_inference
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from operator_oracles import applied, close, evaluated, expected, onnx_model, onnx_type
from operator_samples import SAMPLES, Sample, floats

from egraph_fusion.ir.dims import Dim, substitute, symbol
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.ir.ops.operator import Piece, normalized
from egraph_fusion.ir.ops.reading import TypeRuleError, types_of
from egraph_fusion.ir.ops.tracing import evaluate_body, node_flops
from egraph_fusion.ir.tensors import DType, TensorType

Array = NDArray[Any]
by_sample = pytest.mark.parametrize("sample", SAMPLES, ids=str)


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
def test_what_is_typed_can_be_priced_whatever_the_dtypes(sample: Sample) -> None:
    operator, attrs = applied(sample)
    types = types_of(sample.operands)
    for place, kind in enumerate(types):
        for dtype in set(DType) - {DType.OTHER} if kind else ():
            changed = [*types[:place], TensorType(dtype, kind.shape if kind else None)]
            changed += types[place + 1 :]
            try:
                results = operator.infer(changed, attrs)
            except TypeRuleError:
                continue
            assert node_flops(operator, changed, results, attrs, [False] * len(changed)) is not None


def test_what_is_resized_off_the_axis_has_the_value_for_it() -> None:
    x, operator = floats(4, 5), OPERATORS["Resize"]
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[4, 5] x) => (float[4, 5] y)
        <float[4] roi = {-2.0, 0.5, 1.0, 3.0}, int64[2] sizes = {4, 5}>
        { y = Resize <mode="cubic", coordinate_transformation_mode="tf_crop_and_resize",
                      exclude_outside=1, extrapolation_value=-7.0> (x, roi, , sizes) }""")
    attrs: dict[str, AttrValue] = {"mode": "cubic", "exclude_outside": 1, "sizes": (4, 5)}
    attrs |= {"roi": (-2.0, 0.5, 1.0, 3.0), "extrapolation_value": -7.0}
    attrs["coordinate_transformation_mode"] = "tf_crop_and_resize"
    attrs = normalized(operator, types_of([x]), attrs)
    run: Any = ReferenceEvaluator(model).run(None, {"x": x})
    close(operator.evaluate([x], attrs)[0], run[0])
    close(evaluate_body("Resize", types_of([x]), [x], attrs)[0], run[0])
    unsigned = [TensorType(DType.UINT64, x.shape)]
    assert node_flops(operator, unsigned, unsigned, attrs, [False])


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
        """Return a < b."""
        return a < b

    def ge(self, a: int, b: int) -> bool:
        """Return a >= b."""
        return a >= b

    def both(self, a: bool, b: bool) -> bool:
        """Return whether both hold."""
        return a and b

    def clamp(self, a: int, low: int, high: int) -> int:
        """Return a moved into low .. high."""
        return min(max(a, low), high)

    def load(self, operand: int, index: Sequence[int]) -> int:
        """Return the integer at an index of an operand."""
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
