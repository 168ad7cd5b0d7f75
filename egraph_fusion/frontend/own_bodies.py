"""Bodies of operators in forms that have neither a declaration nor a function in ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import AttributeProto, helper, parser

from egraph_fusion.frontend.types import ELEMENT_CODES, ELEMENT_TYPES
from egraph_fusion.ir.tensors import DType, TensorType

Types = Sequence[TensorType | None]
Body = Callable[[onnx.NodeProto, Types], str | None]

OPSET = 18
"""The opset in which these bodies are written."""
_HEAD = '<domain: "egraph_fusion.bodies", opset_import: ["" : {opset}]> body ({ins}) => ({outs})'
_BITS = {DType.INT8: 8, DType.UINT8: 8, DType.INT16: 16, DType.UINT16: 16}


def own_body(proto: onnx.NodeProto, types: Types) -> onnx.FunctionProto | None:
    """Return a function that computes what `proto` does on operands of `types`, or None."""
    make = _BODIES.get(proto.op_type) if not proto.domain else None
    text = make(proto, types) if make is not None else None
    return None if text is None else parser.parse_function(text)


def _attrs(proto: onnx.NodeProto) -> Mapping[str, float | int]:
    numbers = (AttributeProto.INT, AttributeProto.FLOAT)
    return {a.name: helper.get_attribute_value(a) for a in proto.attribute if a.type in numbers}


def _function(ins: str, outs: str, *lines: str) -> str:
    head = _HEAD.format(opset=OPSET, ins=ins, outs=outs)
    return f"{head} {{ {' '.join(lines)} }}"


def _shape(kind: TensorType | None) -> tuple[int, ...]:
    return () if kind is None else kind.static_shape or ()


def _channels_first(rank: int) -> str:
    """Return the shape that lays a vector along axis 1 of a tensor of `rank`."""
    return f"{{{', '.join(['-1', *['1'] * (rank - 2)])}}}"


def _training(proto: onnx.NodeProto, types: Types) -> str | None:
    """Batch normalisation by the batch's own statistics, and the running ones (opset 14)."""
    attrs, rank = _attrs(proto), len(_shape(types[0]))
    if not attrs.get("training_mode") or rank < 2 or len(proto.input) != 5:
        return None
    keep = float(attrs.get("momentum", 0.9))
    axes = ", ".join(str(a) for a in range(rank) if a != 1)
    return _function(
        "x, scale, bias, mean, var",
        ", ".join(["y", "new_mean", "new_var"][: len(proto.output)]),
        f"axes = Constant <value = int64[{rank - 1}] {{{axes}}}> ()",
        f"lie = Constant <value = int64[{rank - 1}] {_channels_first(rank)}> ()",
        "flat = Constant <value = int64[1] {-1}> ()",
        f"eps32 = Constant <value = float {{{float(attrs.get('epsilon', 1e-5))!r}}}> ()",
        f"keep32 = Constant <value = float {{{keep!r}}}> ()",
        f"rest32 = Constant <value = float {{{1 - keep!r}}}> ()",
        "eps = CastLike (eps32, x) keep = CastLike (keep32, mean) rest = CastLike (rest32, mean)",
        "m = ReduceMean (x, axes) d = Sub (x, m) dd = Mul (d, d) v = ReduceMean (dd, axes)",
        "ve = Add (v, eps) deviation = Sqrt (ve) normal = Div (d, deviation)",
        "s = Reshape (scale, lie) b = Reshape (bias, lie) scaled = Mul (normal, s)",
        "y = Add (scaled, b)",
        "m1 = Reshape (m, flat) mc = CastLike (m1, mean) old_mean = Mul (mean, keep)",
        "add_mean = Mul (mc, rest) new_mean = Add (old_mean, add_mean)",
        "v1 = Reshape (v, flat) vc = CastLike (v1, var) old_var = Mul (var, keep)",
        "add_var = Mul (vc, rest) new_var = Add (old_var, add_var)",
    )


def _slope_along_channels(_proto: onnx.NodeProto, types: Types) -> str | None:
    """PRelu before opset 7, whose slope lies along axis 1."""
    rank = len(_shape(types[0]))
    if rank < 2 or len(types) != 2 or len(_shape(types[1])) != 1:
        return None
    lie = f"lie = Constant <value = int64[{rank - 1}] {_channels_first(rank)}> ()"
    return _function("x, slope", "y", lie, "s = Reshape (slope, lie) y = PRelu (x, s)")


def _spread(proto: onnx.NodeProto, types: Types) -> str | None:
    """Return lines that repeat blocked scales along their axis."""
    attrs, shape = _attrs(proto), _shape(types[0])
    size, axis = int(attrs.get("block_size", 0)), int(attrs.get("axis", 1))
    if size <= 0 or not -len(shape) <= axis < len(shape) or len(_shape(types[1])) != len(shape):
        return None
    blocks = ", ".join(str(i // size) for i in range(shape[axis]))
    return (
        f"blocks = Constant <value = int64[{shape[axis]}] {{{blocks}}}> ()"
        f" s = Gather <axis = {axis}> (scale, blocks)"
        + (f" z0 = Gather <axis = {axis}> (zero, blocks)" if _zero(types) is not None else "")
    )


def _zero(types: Types) -> TensorType | None:
    """Return the type of the zero point, None if there is none."""
    return types[2] if len(types) > 2 else None


def _dequantize(proto: onnx.NodeProto, types: Types) -> str | None:
    spread = _spread(proto, types)
    if spread is None:
        return None
    if _zero(types) is None:
        return _function("x, scale", "y", spread, "xf = CastLike (x, s) y = Mul (xf, s)")
    shift = "xf = CastLike (x, s) zf = CastLike (z0, s) d = Sub (xf, zf) y = Mul (d, s)"
    return _function("x, scale, zero", "y", spread, shift)


def _quantize(proto: onnx.NodeProto, types: Types) -> str | None:
    spread, zero = _spread(proto, types), _zero(types)
    default = ELEMENT_TYPES.get(int(_attrs(proto).get("output_dtype", 0)), DType.UINT8)
    dtype = default if zero is None else zero.dtype
    if spread is None or dtype not in _BITS:
        return None
    low, high = _range(dtype)
    shift = "q = Identity (r)" if zero is None else "zf = CastLike (z0, r) q = Add (r, zf)"
    return _function(
        "x, scale" if zero is None else "x, scale, zero",
        "y",
        spread,
        f"low32 = Constant <value = float {{{low}.0}}> () low = CastLike (low32, x)",
        f"high32 = Constant <value = float {{{high}.0}}> () high = CastLike (high32, x)",
        f"xs = Div (x, s) r = Round (xs) {shift}",
        f"c = Clip (q, low, high) y = Cast <to = {ELEMENT_CODES[dtype]}> (c)",
    )


def _range(dtype: DType) -> tuple[int, int]:
    bits = _BITS[dtype]
    signed = dtype.value.startswith("int")
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


_BODIES: Mapping[str, Body] = {
    "BatchNormalization": _training,
    "DequantizeLinear": _dequantize,
    "PRelu": _slope_along_channels,
    "QuantizeLinear": _quantize,
}
