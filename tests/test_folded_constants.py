"""Constants that are computed at compile time: step by step at level exact, else rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

import egraph_fusion as ef
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.tensors import DType, TensorType

Values = NDArray[Any]
STEPS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}
DTYPES = (np.float16, np.float32)


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[Values], list[str]]:
    """Vectors of one dtype, and an operator for each but the first."""
    dtype = draw(st.sampled_from(DTYPES))
    elements = st.floats(0.0625, 100, width=16).filter(lambda v: abs(v - 1) > 0.01)
    vectors = arrays.arrays(dtype, 3, elements=elements)
    constants = draw(st.lists(vectors, min_size=3, max_size=5))
    return constants, draw(st.lists(st.sampled_from(list(STEPS)), min_size=4, max_size=4))


def _folded(constants: list[Values], steps: list[str], numerics: str) -> Values:
    """Return what is computed of constants beside an input that keeps it from the outputs."""
    b = GraphBuilder("chain")
    x = b.add_input("x", TensorType(DType.of(constants[0].dtype), constants[0].shape))
    total, *others = (b.const(c) for c in constants)
    for step, other in zip(steps, others, strict=False):
        total = b.op(step, total, other)
    b.output(b.op("Max", x, total))
    done = ef.optimize(b.build(), numerics=numerics).graph
    (node,) = done.nodes
    (found,) = (done.constants[v].array for v in node.inputs if v in done.constants)
    return found


def _steps(constants: list[Values], steps: list[str]) -> Values:
    total, *others = constants
    for step, other in zip(steps, others, strict=False):
        total = STEPS[step](total, other)
    return total


@settings(max_examples=40, deadline=None)
@given(chains())
def test_at_level_exact_every_step_is_rounded_as_at_run_time(
    chain: tuple[list[Values], list[str]],
) -> None:
    constants, steps = chain
    with np.errstate(over="ignore"):
        wanted = _steps(constants, steps)
    if np.isfinite(wanted).all():
        np.testing.assert_array_equal(_folded(constants, steps, "exact"), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_at_level_finite_the_result_is_rounded_once(dtype: Any) -> None:
    constants = [np.linspace(0.1, 3, 99).astype(dtype) / dtype(k) for k in (3, 7, 11, 13)]
    steps = ["Mul", "Add", "Mul"]
    once = _steps([c.astype(np.float64) for c in constants], steps).astype(dtype)
    np.testing.assert_array_equal(_folded(constants, steps, "finite"), once)
    assert (once != _steps(constants, steps)).any()


@pytest.mark.parametrize(("numerics", "operators"), [("exact", 1), ("finite", 0)])
def test_numbers_that_are_one_when_rounded_once_are_neutral_only_below_level_exact(
    numerics: str, operators: int
) -> None:
    seventh, seven, less = np.float32(1) / np.float32(7), np.float32(7), np.float32(1 - 2**-24)
    assert seventh * seven * less != 1
    assert np.float32(float(seventh) * float(seven) * float(less)) == 1
    b = GraphBuilder("neutral")
    x = b.add_input("x", TensorType(DType.FLOAT32, (3,)))
    scale = b.op("Mul", b.const(np.array(seventh)), b.const(np.array(seven)))
    scale = b.op("Mul", scale, b.const(np.array(less)))
    b.output(b.op("Relu", b.op("Mul", x, scale)))
    nodes = ef.optimize(b.build(), numerics=numerics).graph.nodes
    assert [n.op for n in nodes] == ["Mul"] * operators + ["Relu"]


def _vector(*values: float) -> Values:
    return np.array(values, np.float32).reshape(-1, 1, 1)


@pytest.mark.parametrize("numerics", ["exact", "finite"])
@pytest.mark.parametrize(
    ("step", "function", "operands"),
    [
        ("Mul", "Exp", [_vector(0, 0, 0)]),
        ("Mul", "Mul", [_vector(1, 2, 4), _vector(1, 0.5, 0.25)]),
        ("Sub", "Sub", [_vector(1, 2, 4), _vector(1, 2, 4)]),
        ("Div", "Sqrt", [_vector(1, 1, 1)]),
    ],
)
def test_arrays_that_become_one_neutral_number_vanish(
    step: str, function: str, operands: list[Values], numerics: str
) -> None:
    b = GraphBuilder("neutral")
    x = b.add_input("x", TensorType(DType.FLOAT32, (2, 3, 4, 4)))
    b.output(b.op("Relu", b.op(step, x, b.op(function, *map(b.const, operands)))))
    assert [n.op for n in ef.optimize(b.build(), numerics=numerics).graph.nodes] == ["Relu"]


@pytest.mark.parametrize(("numerics", "operators"), [("exact", 1), ("finite", 0)])
def test_a_negative_zero_is_not_added_away_at_level_exact(numerics: str, operators: int) -> None:
    b = GraphBuilder("signed")
    x = b.add_input("x", TensorType(DType.FLOAT32, (3,)))
    zero = b.op("Mul", b.const(np.zeros(3, np.float32)), b.const(np.array([1, 2, 3], np.float32)))
    b.output(b.op("Sqrt", b.op("Add", x, zero)))  # -0 + 0 is 0
    nodes = ef.optimize(b.build(), numerics=numerics).graph.nodes
    assert [n.op for n in nodes] == ["Add"] * operators + ["Sqrt"]
