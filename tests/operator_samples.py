"""Sample operands and attributes for every declared operator, for tests of meaning and code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS, Kind

Array = NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """One application of an operator, attributes as ONNX has them (constant operands as well)."""

    op: str
    operands: tuple[Array | None, ...]
    attrs: Mapping[str, AttrValue] = field(default_factory=dict[str, AttrValue])
    outputs: int = 1
    label: str = ""

    def __str__(self) -> str:
        """Name the sample in test reports."""
        shapes = "x".join("-" if o is None else f"{o.dtype}{list(o.shape)}" for o in self.operands)
        attrs = ",".join(f"{k}={v!r}" for k, v in self.attrs.items())
        return f"{self.op}({shapes};{attrs}){self.label}"


def floats(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Array:
    """Return seeded float32 values in an interval."""
    rng = np.random.default_rng([seed, *shape])
    return rng.uniform(low, high, shape).astype(np.float32)


def ints(*shape: int, seed: int = 0, low: int = -9, high: int = 9, dtype: Any = np.int32) -> Array:
    """Return seeded integers in low .. high."""
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def bools(*shape: int, seed: int = 0) -> Array:
    """Return seeded truth values."""
    return np.random.default_rng([seed, *shape]).integers(0, 2, shape).astype(np.bool_)


def _unary() -> list[Sample]:
    domain = {
        "Sqrt": (0.0, 4.0),
        "Log": (0.1, 4.0),
        "Asin": (-1.0, 1.0),
        "Acos": (-1.0, 1.0),
        "Acosh": (1.0, 4.0),
        "Atanh": (-0.9, 0.9),
        "Reciprocal": (0.5, 3.0),
    }
    named = (
        "Sqrt Log Exp Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Reciprocal "
        "Neg Abs Sign Floor Ceil Round Relu Sigmoid Softplus Softsign HardSigmoid HardSwish "
        "LeakyRelu Elu Celu Selu ThresholdedRelu Shrink Mish Gelu Swish Identity IsNaN IsInf"
    )
    samples: list[Sample] = []
    for op in named.split():
        low, high = domain.get(op, (-3.0, 3.0))
        samples.append(Sample(op, (floats(3, 4, 5, low=low, high=high),)))
    edges = np.array([0.0, -0.0, 1.5, -1.5, 2.5, 0.5, -0.5, np.inf, -np.inf, np.nan], np.float32)
    for op in [
        "Neg",
        "Abs",
        "Floor",
        "Ceil",
        "Round",
        "Relu",
        "Sigmoid",
        "Tanh",
        "Exp",
        "IsNaN",
        "Softplus",
        "Erf",
    ]:
        samples.append(Sample(op, (edges,), label="edges"))
    samples += [
        Sample("Neg", (ints(3, 4),)),
        Sample("Abs", (ints(3, 4, dtype=np.int64),)),
        Sample("Sign", (ints(3, 4, dtype=np.int64),)),
        Sample("Relu", (ints(3, 4),)),
        Sample("HardSigmoid", (floats(4, 5),), {"alpha": 0.3, "beta": 0.4}),
        Sample("LeakyRelu", (floats(4, 5),), {"alpha": 0.25}),
        Sample("LeakyRelu", (floats(4, 5),), {"alpha": -2.0}),
        Sample("Elu", (floats(4, 5),), {"alpha": 1.5}),
        Sample("Celu", (floats(4, 5),), {"alpha": 2.0}),
        Sample("Selu", (floats(4, 5),), {"alpha": 1.5, "gamma": 2.0}),
        Sample("ThresholdedRelu", (floats(4, 5),), {"alpha": 0.5}),
        Sample("Shrink", (floats(4, 5),), {"lambd": 1.0, "bias": 0.25}),
        Sample("Gelu", (floats(4, 5),), {"approximate": "tanh"}),
        Sample("Swish", (floats(4, 5),), {"alpha": 0.5}),
        Sample("IsInf", (edges,), {"detect_negative": 0}),
        Sample("IsInf", (edges,), {"detect_positive": 0}),
        Sample("IsInf", (edges,), {"detect_positive": 0, "detect_negative": 0}),
        Sample("Not", (bools(3, 4),)),
        Sample("BitwiseNot", (ints(3, 4),)),
    ]
    for to in ("float16", "float64", "int32", "int64", "uint8", "bool"):
        samples.append(Sample("Cast", (floats(3, 4, low=0, high=9),), {"to": to}))
    samples.append(Sample("Cast", (ints(3, 4),), {"to": "float32"}))
    samples.append(Sample("Cast", (bools(3, 4),), {"to": "int64"}))
    return samples


def _binary() -> list[Sample]:
    samples: list[Sample] = []
    for op in ["Add", "Sub", "Mul", "Div", "Max", "Min"]:
        samples.append(Sample(op, (floats(3, 4), floats(3, 4, seed=1, low=0.5))))
        samples.append(Sample(op, (floats(2, 3, 1), floats(4, seed=1, low=0.5))))
        samples.append(Sample(op, (ints(3, 4), ints(3, 4, seed=1, low=1))))
    samples.append(Sample("Div", (ints(40, low=-20, high=20), ints(40, seed=2, low=-5, high=-1))))
    for op in ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]:
        samples.append(Sample(op, (ints(3, 4, low=0, high=3), ints(4, seed=1, low=0, high=3))))
        samples.append(Sample(op, (floats(3, 4), floats(3, 1, seed=1))))
    for op in ["And", "Or", "Xor"]:
        samples.append(Sample(op, (bools(3, 4), bools(4, seed=1))))
    for op in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]:
        samples.append(Sample(op, (ints(3, 4), ints(3, 4, seed=1))))
    for op in ["Max", "Min", "Sum", "Mean"]:
        samples.append(Sample(op, (floats(3, 4), floats(4, seed=1), floats(3, 1, seed=2))))
        samples.append(Sample(op, (floats(3, 4),)))
    unsigned = (ints(9, low=0, high=200, dtype=np.uint8), ints(9, low=0, high=8, dtype=np.uint8))
    return [
        *samples,
        Sample("Pow", (floats(3, 4, low=0.1), floats(3, 4, seed=1))),
        Sample("Pow", (floats(3, 4), np.array(2.0, np.float32))),
        Sample("Pow", (ints(3, 4), np.array(3, np.int32))),
        Sample("Pow", (np.array([3, 7, -3], np.int64), np.array([39, 22, 39], np.int64))),
        Sample("Pow", (np.array([3, 7, -3], np.int32), np.array([39, 22, 39], np.int64))),
        Sample("Pow", (np.array([3, 7, 10], np.int64), np.array([39, 22, 18], np.uint8))),
        Sample("Mod", (ints(30), ints(30, seed=1, low=1))),
        Sample("Mod", (ints(30), ints(30, seed=1, low=-9, high=-1))),
        Sample("Mod", (floats(30), floats(30, seed=1, low=0.5)), {"fmod": 1}),
        Sample("Mod", (ints(30), ints(30, seed=1, low=1)), {"fmod": 1}),
        Sample("PRelu", (floats(2, 3, 4), floats(3, 1, seed=1))),
        Sample("BitShift", unsigned, {"direction": "LEFT"}),
        Sample("BitShift", unsigned, {"direction": "RIGHT"}),
        Sample("Where", (bools(3, 4), floats(3, 4), floats(4, seed=1))),
        Sample("Where", (bools(3, 1), ints(3, 4), ints(1, 4, seed=1))),
        Sample("Clip", (floats(3, 4), np.array(-1, np.float32), np.array(1, np.float32))),
        Sample("Clip", (floats(3, 4), None, np.array(0.5, np.float32))),
        Sample("Clip", (floats(3, 4),)),
        Sample("Clip", (ints(3, 4), np.array(-2, np.int32), np.array(3, np.int32))),
    ]


def _reductions() -> list[Sample]:
    samples: list[Sample] = []
    for op, declared in OPERATORS.items():
        if declared.kind is not Kind.REDUCTION or op.startswith("Arg"):
            continue
        low = 0.5 if "Log" in op else -1.5
        x = floats(2, 3, 4, low=low, high=1.5)
        samples.append(Sample(op, (x,), {"axes": (1,), "keepdims": 0}))
        samples.append(Sample(op, (x,), {"axes": (-1, 0), "keepdims": 1}))
        samples.append(Sample(op, (x,), {"keepdims": 1}))
        if op in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"):
            samples.append(Sample(op, (ints(2, 3, 4, low=-3, high=4),), {"axes": (0, 2)}))
        if op == "ReduceSum":
            samples.append(Sample(op, (floats(2, 0, 3),), {"axes": (1,)}))
    for op in ("ArgMax", "ArgMin"):
        ties = ints(3, 4, 5, low=0, high=3).astype(np.float32)
        for last in (0, 1):
            samples.append(Sample(op, (ties,), {"axis": 1, "select_last_index": last}))
        samples.append(Sample(op, (floats(3, 4, 5),), {"axis": -1, "keepdims": 0}))
    for exclusive in (0, 1):
        for reverse in (0, 1):
            attrs = {"axis": 1, "exclusive": exclusive, "reverse": reverse}
            samples.append(Sample("CumSum", (floats(3, 4, 5),), attrs))
    return samples


def _movement() -> list[Sample]:
    x = floats(2, 3, 4)
    image = floats(2, 8, 3, 4)
    samples = [
        Sample("Reshape", (x,), {"shape": (4, -1)}),
        Sample("Reshape", (x,), {"shape": (0, 2, 6)}),
        Sample("Reshape", (x,), {"shape": (24,)}),
        Sample("Reshape", (floats(1, 1),), {"shape": ()}),
        Sample("Reshape", (floats(0, 3),), {"shape": (3, 0), "allowzero": 1}),
        Sample("Flatten", (x,), {"axis": 2}),
        Sample("Flatten", (x,), {"axis": 0}),
        Sample("Flatten", (x,), {"axis": -1}),
        Sample("Squeeze", (floats(1, 3, 1, 4),), {"axes": (0, -2)}),
        Sample("Squeeze", (floats(1, 3, 1, 4),)),
        Sample("Unsqueeze", (x,), {"axes": (0, -1)}),
        Sample("Unsqueeze", (x,), {"axes": (2,)}),
        Sample("Transpose", (x,), {"perm": (2, 0, 1)}),
        Sample("Transpose", (x,)),
        Sample("Expand", (floats(3, 1),), {"shape": (2, 1, 4)}),
        Sample("Expand", (floats(3, 4),), {"shape": (1, 1)}),
        Sample("Tile", (floats(2, 3),), {"repeats": (2, 3)}),
        Sample("Concat", (floats(2, 3), floats(2, 1, seed=1), floats(2, 2, seed=2)), {"axis": 1}),
        Sample("Concat", (floats(2, 3), floats(1, 3, seed=1)), {"axis": -2}),
        Sample("Concat", (ints(2, 3),), {"axis": 0}),
        Sample("Split", (floats(2, 6),), {"axis": 1, "split": (1, 3, 2)}, outputs=3),
        Sample("Split", (floats(4, 3),), {"axis": -2, "split": (2, 2)}, outputs=2),
        Sample("DepthToSpace", (image,), {"blocksize": 2}),
        Sample("DepthToSpace", (image,), {"blocksize": 2, "mode": "CRD"}),
        Sample("SpaceToDepth", (floats(2, 3, 4, 6),), {"blocksize": 2}),
        Sample("Trilu", (floats(2, 3, 4),), {"upper": 1}),
        Sample("Trilu", (floats(2, 3, 4),), {"upper": 0, "k": 1}),
        Sample("Trilu", (ints(4, 3),), {"upper": 1, "k": -1}),
        Sample("EyeLike", (floats(3, 4),), {"k": 1}),
        Sample("EyeLike", (floats(3, 4),), {"k": -1, "dtype": "int32"}),
        Sample("Shape", (x,)),
        Sample("Shape", (x,), {"start": 1, "end": -1}),
        Sample("Size", (x,)),
    ]
    long = floats(5, 7)
    for starts, ends, axes, steps in (
        ((1,), (4,), (0,), (1,)),
        ((-3,), (2**40,), (1,), (2,)),
        ((6, 0), (1, 5), (1, 0), (-2, 3)),
        ((-1,), (-(2**40),), (1,), (-1,)),
        ((3,), (3,), (0,), (1,)),
        ((9,), (20,), (0,), (1,)),
    ):
        attrs = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
        samples.append(Sample("Slice", (long,), attrs))
    for mode in ("constant", "edge", "reflect", "wrap"):
        samples.append(Sample("Pad", (floats(3, 4),), {"mode": mode, "pads": (1, 0, 2, 3)}))
    samples.append(Sample("Pad", (floats(3, 4), np.array(1.5, np.float32)), {"pads": (1, 1, 0, 2)}))
    samples.append(Sample("Pad", (floats(3, 6),), {"pads": (0, -1, 2, -2)}))
    return samples


def _lookups() -> list[Sample]:
    x = floats(4, 3, 5)
    at = np.array([[0, -1], [3, 2]], np.int64)
    elements = ints(2, 3, 5, low=-4, high=4, dtype=np.int64)
    nd = np.array([[[0, 1], [-1, 2]]], np.int64)
    batched = ints(4, 2, 1, low=0, high=3, dtype=np.int64)
    hot = (ints(2, 3, low=-4, high=6, dtype=np.int64), np.array([0.5, 2.0], np.float32))
    return [
        Sample("Gather", (x, at), {"axis": 0}),
        Sample("Gather", (x, np.array([1, -2], np.int32)), {"axis": -1}),
        Sample("Gather", (x, np.array(2, np.int64)), {"axis": 1}),
        Sample("GatherElements", (x, elements), {"axis": 0}),
        Sample("GatherND", (x, nd)),
        Sample("GatherND", (x, batched), {"batch_dims": 1}),
        Sample("OneHot", hot, {"axis": -1, "depth": 4}),
        Sample("OneHot", hot, {"axis": 1, "depth": 3}),
    ]


def _thin_convolutions() -> list[Sample]:
    """Kernels that are 1 wide along some axes, on one channel and on several."""
    kernels = [(1, 3), (3, 1), (1, 1), (2, 2)]
    images = [(channels, kernel) for channels in (1, 2) for kernel in kernels]
    return [
        Sample("Conv", (floats(1, c, 4, 7), floats(5, c, *kernel, seed=1)), {"strides": (1, 2)})
        for c, kernel in images
    ]


def _contractions() -> list[Sample]:
    a, b = floats(3, 4), floats(4, 5, seed=1)
    x, w = floats(2, 4, 7, 6), floats(6, 4, 3, 3, seed=1)
    up = floats(4, 3, 3, 2, seed=1)
    bytes_ = ints(3, 4, low=0, high=250, dtype=np.uint8), ints(4, 5, dtype=np.int8)
    zeros = np.array(3, np.uint8), np.array(-2, np.int8)
    pixels = ints(1, 2, 5, 5, low=0, high=250, dtype=np.uint8)
    taps = ints(3, 2, 3, 3, dtype=np.int8)
    return [
        Sample("MatMul", (a, b)),
        Sample("MatMul", (floats(2, 1, 3, 4), floats(5, 4, 2, seed=1))),
        Sample("MatMul", (floats(4), b)),
        Sample("MatMul", (a, floats(4, seed=1))),
        Sample("MatMul", (floats(4), floats(4, seed=1))),
        Sample("MatMul", (ints(3, 4), ints(4, 2, seed=1))),
        Sample("Gemm", (a, b)),
        Sample("Gemm", (a, b, floats(5, seed=2)), {"alpha": 0.5, "beta": 2.0}),
        Sample(
            "Gemm", (floats(4, 3), floats(5, 4, seed=1), floats(3, 1)), {"transA": 1, "transB": 1}
        ),
        Sample("Einsum", (a, b), {"equation": "ij,jk->ik"}),
        Sample("Einsum", (a, floats(3, 4, seed=1)), {"equation": "ij,ij->i"}),
        Sample("Einsum", (a, floats(3, seed=1)), {"equation": "ij,i->ij"}),
        Sample("Einsum", (floats(2, 3, 4), floats(2, 4, 5)), {"equation": "...ij,...jk->...ik"}),
        Sample("Einsum", (floats(4, 4),), {"equation": "ii->i"}),
        Sample("Einsum", (a,), {"equation": "ij->ji"}),
        Sample("Einsum", (a,), {"equation": "ij->"}),
        Sample("Conv", (x, w)),
        Sample("Conv", (x, w, floats(6)), {"pads": (1, 1, 1, 1), "strides": (2, 1)}),
        Sample("Conv", (x, w), {"pads": (2, 0, 1, 2), "dilations": (2, 1)}),
        Sample("Conv", (x, floats(4, 1, 3, 3)), {"group": 4}),
        Sample("Conv", (x, floats(6, 2, 2, 2)), {"group": 2, "kernel_shape": (2, 2)}),
        Sample("Conv", (x, w), {"auto_pad": "SAME_UPPER", "strides": (2, 2)}),
        Sample("Conv", (x, w), {"auto_pad": "SAME_LOWER", "strides": (2, 2)}),
        Sample("Conv", (x, w), {"auto_pad": "VALID"}),
        Sample("Conv", (floats(1, 2, 9), floats(3, 2, 4)), {"strides": (2,)}),
        Sample("Conv", (floats(1, 2, 4, 5, 3), floats(2, 2, 2, 3, 1))),
        *_thin_convolutions(),
        Sample("ConvTranspose", (x, up)),
        Sample("ConvTranspose", (x, up, floats(3)), {"strides": (2, 3), "pads": (1, 0, 0, 1)}),
        Sample("ConvTranspose", (x, up), {"strides": (2, 2), "output_padding": (1, 1)}),
        Sample("ConvTranspose", (x, floats(4, 2, 3, 2)), {"group": 2, "dilations": (2, 1)}),
        Sample("ConvTranspose", (x, up), {"strides": (2, 2), "output_shape": (15, 13)}),
        Sample("ConvTranspose", (x, up), {"strides": (2, 2), "auto_pad": "SAME_UPPER"}),
        Sample("ConvTranspose", (floats(1, 2, 5), floats(2, 3, 3)), {"strides": (2,)}),
        Sample("MatMulInteger", (*bytes_, *zeros)),
        Sample("MatMulInteger", bytes_),
        Sample("ConvInteger", (pixels, taps, zeros[0]), {"pads": (1, 1, 1, 1)}),
    ]


def _pools() -> list[Sample]:
    x = floats(2, 3, 7, 6)
    samples: list[Sample] = []
    for op in ("MaxPool", "AveragePool", "LpPool"):
        samples += [
            Sample(op, (x,), {"kernel_shape": (2, 3)}),
            Sample(op, (x,), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
            Sample(op, (x,), {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1}),
            Sample(op, (x,), {"kernel_shape": (2, 2), "dilations": (2, 3)}),
            Sample(op, (x,), {"kernel_shape": (3, 2), "strides": (2, 2), "auto_pad": "SAME_UPPER"}),
            Sample(op, (floats(1, 2, 9),), {"kernel_shape": (3,), "strides": (3,)}),
        ]
    samples += [
        Sample("LpPool", (x,), {"kernel_shape": (2, 2), "p": 3}),
        Sample(
            "AveragePool",
            (x,),
            {"kernel_shape": (3, 3), "pads": (1, 0, 1, 1), "count_include_pad": 1},
        ),
        Sample("GlobalAveragePool", (x,)),
        Sample("GlobalMaxPool", (x,)),
        Sample("GlobalLpPool", (x,)),
        Sample("GlobalLpPool", (x,), {"p": 1}),
        Sample("GlobalLpPool", (x,), {"p": 3}),
        Sample("GlobalAveragePool", (floats(2, 3, 5),)),
    ]
    return samples


def _normalizations() -> list[Sample]:
    x = floats(2, 6, 4, 3)
    scale, bias = floats(6, seed=1), floats(6, seed=2)
    mean, variance = floats(6, seed=3), floats(6, seed=4, low=0.5)
    samples = [Sample(op, (x,)) for op in ("Softmax", "LogSoftmax", "Hardmax")]
    samples += [Sample(op, (x,), {"axis": 1}) for op in ("Softmax", "LogSoftmax", "Hardmax")]
    return [
        *samples,
        Sample("LayerNormalization", (x, floats(3, seed=1), floats(3, seed=2))),
        Sample("LayerNormalization", (x, floats(4, 3, seed=1)), {"axis": 2, "epsilon": 1e-3}),
        Sample("RMSNormalization", (x, floats(3, seed=1))),
        Sample("RMSNormalization", (x, floats(4, 3, seed=1)), {"axis": -2}),
        Sample("BatchNormalization", (x, scale, bias, mean, variance)),
        Sample(
            "BatchNormalization",
            (x.astype(np.float16), scale, bias, mean, variance),
            label="mixed",
        ),
        Sample(
            "BatchNormalization",
            (*(v.astype(np.float16) for v in (x, scale, bias)), mean, variance),
            label="mixed",
        ),
        Sample("BatchNormalization", (floats(4, 6), scale, bias, mean, variance), {"epsilon": 0.1}),
        Sample("InstanceNormalization", (x, scale, bias)),
        Sample("GroupNormalization", (x, scale, bias), {"num_groups": 3}),
        Sample("MeanVarianceNormalization", (x,)),
        Sample("MeanVarianceNormalization", (x,), {"axes": (1, 2)}),
        Sample("LpNormalization", (x,)),
        Sample("LpNormalization", (x,), {"axis": 1, "p": 1}),
        Sample("LRN", (x,), {"size": 3, "alpha": 0.5, "beta": 0.7, "bias": 1.5}),
        Sample("LRN", (x,), {"size": 4}),
    ]


def _quantizations() -> list[Sample]:
    x = floats(2, 3, 4, low=-30, high=30)
    small = np.array([0.1, 0.2, 0.3], np.float32)
    points = np.array([3, 120, 250], np.uint8)
    steps = ints(2, 3, 4, low=0, high=255, dtype=np.uint8)
    return [
        Sample("QuantizeLinear", (x, np.array(0.25, np.float32), np.array(-5, np.int8))),
        Sample("QuantizeLinear", (x, small, points), {"axis": 1}),
        Sample("QuantizeLinear", (x, np.array(0.2, np.float32))),
        Sample("DequantizeLinear", (steps, np.array(0.25, np.float32), np.array(100, np.uint8))),
        Sample("DequantizeLinear", (steps, small, points), {"axis": -2}),
        Sample("DequantizeLinear", (ints(2, 3), np.array(0.25, np.float32))),
        Sample("DynamicQuantizeLinear", (x,), outputs=3),
    ]


def _resizes() -> list[Sample]:
    x = floats(1, 2, 4, 5)
    samples: list[Sample] = []
    for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        for mode in ("nearest", "linear", "cubic"):
            attrs: dict[str, AttrValue] = {"mode": mode, "sizes": (1, 2, 7, 3)}
            attrs["coordinate_transformation_mode"] = coordinates
            samples.append(Sample("Resize", (x,), attrs))
    for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        attrs = {"nearest_mode": nearest, "scales": (1.0, 1.0, 2.0, 0.75)}
        samples.append(Sample("Resize", (x,), attrs))
    attrs = {"mode": "cubic", "exclude_outside": 1, "scales": (1.0, 1.0, 2.0, 2.0)}
    samples.append(Sample("Resize", (x,), {**attrs, "cubic_coeff_a": -0.5}))
    attrs = {"mode": "linear", "scales": (1.0, 1.0, 0.75, 1.25)}
    attrs["coordinate_transformation_mode"] = "half_pixel_symmetric"
    samples.append(Sample("Resize", (x,), attrs))
    return samples


SAMPLES: list[Sample] = [
    *_unary(),
    *_binary(),
    *_reductions(),
    *_movement(),
    *_lookups(),
    *_contractions(),
    *_pools(),
    *_normalizations(),
    *_quantizations(),
    *_resizes(),
]
