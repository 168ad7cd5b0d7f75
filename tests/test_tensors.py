"""Element types, tensor types and broadcasting."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from egraph_fusion.ir.dims import Shape, symbol
from egraph_fusion.ir.tensors import DType, TensorType, broadcast

N = symbol("n")
CARRIED = (DType.STRING, DType.OTHER)


@pytest.mark.parametrize("dtype", [d for d in DType if d not in CARRIED])
def test_dtype_survives_numpy(dtype: DType) -> None:
    assert DType.of(dtype.numpy) is dtype


@pytest.mark.parametrize("dtype", [d for d in DType if d not in CARRIED])
def test_itemsize_is_numpys(dtype: DType) -> None:
    assert dtype.itemsize == dtype.numpy.itemsize


def test_narrow_types_are_only_carried() -> None:
    assert DType.of(ml_dtypes.float8_e4m3fn) is DType.OTHER


@pytest.mark.parametrize("dtype", ["object", "U3", "S3"])
def test_strings(dtype: str) -> None:
    assert DType.of(dtype) is DType.STRING


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TensorType(DType.FLOAT32, (1, 3, 224, 224)), "float32[1,3,224,224]"),
        (TensorType(DType.INT64, ()), "int64[]"),
        (TensorType(DType.BOOL, None), "bool[*]"),
        (TensorType(DType.BFLOAT16, (N, 2 * N)), "bfloat16[n,2*n]"),
    ],
)
def test_printed_form(kind: TensorType, text: str) -> None:
    assert str(kind) == text


def test_bytes_of_a_known_size() -> None:
    assert TensorType(DType.FLOAT16, (3, 4)).nbytes == 24


def test_bytes_of_an_unknown_size() -> None:
    assert TensorType(DType.FLOAT16, (3, N)).nbytes is None
    assert TensorType(DType.FLOAT16, None).nbytes is None


@given(st.data())
def test_broadcast_agrees_with_numpy(data: st.DataObject) -> None:
    shapes = data.draw(mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_dims=4))
    assert broadcast(*shapes.input_shapes) == np.broadcast_shapes(*shapes.input_shapes)


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ((N, 1), (1, 4), (N, 4)),
        ((N,), (2, N), (2, N)),
        ((N,), (symbol("m"),), None),
        ((3,), (4,), None),
        ((), (N,), (N,)),
    ],
)
def test_broadcast_of_symbols(a: Shape, b: Shape, wanted: Shape | None) -> None:
    assert broadcast(a, b) == wanted
