"""Readers of the forms before opset 7: no numpy broadcasting, `is_test`, `consumed_inputs`."""

from __future__ import annotations

from onnx import TensorProto

from egraph_fusion.frontend.forms import CannotReadError, Form, Reading, as_it_stands, reads
from egraph_fusion.frontend.types import ELEMENT_TYPES
from egraph_fusion.ir.tensors import DType

BROADCASTING_SINCE = 7
_BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater")
_IN_PLACE = (
    "Abs Ceil Elu Exp Floor HardSigmoid LeakyRelu Log Neg Reciprocal Relu Sigmoid Sqrt Tanh Sum "
    "Mean Max Min InstanceNormalization"
)


@reads(*_BINARY, since=1)
def _suffix_broadcast(form: Form) -> Reading:
    """Read `broadcast=1` where it means what numpy does: the second shape is a suffix."""
    left, right = form.shape(0), form.shape(1)
    if left != right:
        axis = form.attr_int("axis", -1)
        tail = len(left) - len(right)
        if not form.attr_int("broadcast", 0) or (axis != -1 and axis != tail) or tail < 0:
            raise CannotReadError("it broadcasts in a way of opsets before 7")
    return Reading(form.op, form.inputs, form.plain("broadcast", "axis", "consumed_inputs"))


reads(*_BINARY, since=BROADCASTING_SINCE)(as_it_stands)


@reads(*_IN_PLACE.split(), since=1)
def _in_place(form: Form) -> Reading:
    return Reading(form.op, form.inputs, form.plain("consumed_inputs"))


@reads("Selu", since=1)
def _selu(form: Form) -> Reading:
    """Fill in the coarser constants that opset 1 had as defaults."""
    rough = {"alpha": 1.6732, "gamma": 1.0507}
    return Reading("Selu", form.inputs, {**rough, **form.plain("consumed_inputs")})


reads("Selu", since=6)(as_it_stands)


@reads("Concat", since=1)
def _concat(form: Form) -> Reading:
    return Reading("Concat", form.inputs, {"axis": 1, **form.plain()})


reads("Concat", since=4)(as_it_stands)


@reads("Cast", since=1)
def _cast(form: Form) -> Reading:
    name = str(form.attrs.get("to", ""))
    codes = dict(TensorProto.DataType.items())
    dtype = ELEMENT_TYPES.get(codes.get(name.upper(), 0))
    if dtype is None or dtype is DType.STRING:
        raise CannotReadError(f"it casts to {name!r}")
    return Reading("Cast", form.inputs, {"to": dtype.value})


@reads("Gemm", since=1)
def _gemm(form: Form) -> Reading:
    return Reading("Gemm", form.inputs, form.plain("broadcast"))


reads("Gemm", since=BROADCASTING_SINCE)(as_it_stands)


@reads("PRelu", since=1)
def _prelu(form: Form) -> Reading:
    """Read a slope for all channels, or one for each where channels are the last axis."""
    x, slope = form.shape(0), form.shape(1)
    if slope not in ((1,), ()) and not (len(x) == 2 and slope == x[1:]):
        raise CannotReadError("its slope lies along the channels (opsets before 7)")
    return Reading("PRelu", form.inputs, form.plain("consumed_inputs"))


reads("PRelu", since=BROADCASTING_SINCE)(as_it_stands)


@reads("Dropout", since=1)
def _dropout(form: Form) -> Reading:
    if not form.attr_int("is_test", 0):
        raise CannotReadError("it drops elements at random (training mode)")
    if any(form.used[1:]):
        raise CannotReadError("its mask is used")
    return Reading("Identity", form.inputs, {}, outputs=form.outputs[:1])


@reads("BatchNormalization", since=1)
def _batch_normalization(form: Form) -> Reading:
    if not form.attr_int("is_test", 0) or sum(map(bool, form.outputs)) > 1:
        raise CannotReadError("it updates running statistics (training mode)")
    if form.attr_int("spatial", 1) != 1:
        raise CannotReadError("it normalises every activation on its own (spatial=0)")
    attrs = form.plain("is_test", "spatial", "momentum", "consumed_inputs")
    return Reading(form.op, form.inputs, attrs)


@reads("Reshape", "Tile", "Pad", "Split", since=1)
def _earlier_form(form: Form) -> Reading:
    raise CannotReadError(f"it has a form of {form.op} that opset {form.opset + 1} or later left")
