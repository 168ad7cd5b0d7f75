"""Readers of quantisation and generation operators, whose attributes name element types."""

from __future__ import annotations

from egraph_fusion.frontend.forms import CannotReadError, Form, Reading, operands, reads
from egraph_fusion.frontend.types import ELEMENT_TYPES
from egraph_fusion.ir.tensors import DType


def element_name(code: int) -> str:
    """Return the registry's name of an ONNX element type, "" for none given."""
    if code == 0:
        return ""
    dtype = ELEMENT_TYPES.get(code)
    if dtype is None or dtype is DType.STRING:
        raise CannotReadError(f"it converts to ONNX element type {code}")
    return str(dtype.value)


@reads("QuantizeLinear", "DequantizeLinear", since=10)
def _quantization(form: Form) -> Reading:
    if form.attr_int("precision", 0):
        raise CannotReadError("it asks for the precision of its division")
    attrs = form.plain("output_dtype", "precision")
    wanted = element_name(form.attr_int("output_dtype", 0))
    return Reading(form.op, operands(form, 0, 1, 2), {**attrs, "output_dtype": wanted})


@reads("EyeLike", since=9)
def _eye_like(form: Form) -> Reading:
    attrs = {**form.plain("dtype"), "dtype": element_name(form.attr_int("dtype", 0))}
    return Reading("EyeLike", form.inputs, attrs)
