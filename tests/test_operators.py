"""Every declared operator: its meanings, types, costs and laws agree with one another and with ONNX."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.reference
import pytest
from numpy.typing import NDArray
from operator_samples import SAMPLES, Sample

from egraph_fusion.ir.dims import Dim, substitute, symbol
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS, Kind, Law, MappingType, Operator
from egraph_fusion.ir.ops.operator import (
    Piece,
    TypeRuleError,
    first,
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
            got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance * scale
        )
    else:
        np.testing.assert_array_equal(got, wanted)


def test_at_least_a_hundred_operators_are_declared() -> None:
    assert len(OPERATORS) >= 100


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_has_a_sample(name: str) -> None:
    assert any(s.op == name for s in SAMPLES)


@by_sample
def test_evaluation_agrees_with_onnx_reference(sample: Sample) -> None:
    for got, wanted in zip(evaluated(sample), reference(sample), strict=False):
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
