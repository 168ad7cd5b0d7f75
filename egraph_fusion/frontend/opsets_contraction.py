"""Readers of contractions, pooling and resampling."""

from __future__ import annotations

from egraph_fusion.frontend.forms import CannotReadError, Form, Reading, reads


@reads("Conv", "ConvTranspose", "ConvInteger")
def _convolution(form: Form) -> Reading:
    """The kernel's shape is that of the weights."""
    return Reading(form.op, form.inputs, form.plain("kernel_shape"))


@reads("MaxPool")
def _max_pool(form: Form) -> Reading:
    if form.attr_int("storage_order", 0) and any(form.used[1:]):
        raise CannotReadError("its indices are in column-major order")
    return Reading(form.op, form.inputs, form.plain("storage_order"))
