"""What ONNX says of an operator sample, by its reference, by onnxruntime or by its text."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.reference
import onnxruntime
from numpy.typing import NDArray
from operator_samples import Sample

from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS, Operator
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.ops.reading import types_of
from egraph_fusion.ir.tensors import DType

Array = NDArray[Any]
OPSET = onnx.defs.onnx_opset_version()
DTYPE_ATTRS = {"to", "dtype", "output_dtype"}


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
        (sample.op == "Pad" and "-" in str(attrs["pads"]))
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
        exact, near = wanted.astype(np.float64), got.astype(np.float64)
        np.testing.assert_allclose(near, exact, rtol=tolerance, atol=tolerance * scale)
    else:
        np.testing.assert_array_equal(got, wanted)
