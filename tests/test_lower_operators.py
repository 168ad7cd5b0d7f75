"""Every declared operator alone: its kernel agrees with its numpy meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from kernel_runner import CProgram
from lowered import Lowered, lowered, program_of, wide, worst
from operator_samples import SAMPLES, Array, Sample

from egraph_fusion.codegen.expand import LoweringError
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.ops.operator import OPERATORS, normalized
from egraph_fusion.ir.ops.reading import types_of
from egraph_fusion.ir.tensors import DType, TensorType

REFUSED: Mapping[str, str] = {}
"""Operators without a kernel, and why."""


def graph_of(sample: Sample) -> Graph:
    """Return the sample's operator as a graph whose operands are all inputs."""
    builder = GraphBuilder(sample.op)
    names = [
        "" if v is None else builder.add_input(f"x{i}", TensorType(DType.of(v.dtype), v.shape))
        for i, v in enumerate(sample.operands)
    ]
    attrs: dict[str, Any] = dict(sample.attrs)
    for value in builder.node(sample.op, names, sample.outputs, **attrs):
        builder.output(value)
    return builder.build()


def inputs_of(sample: Sample) -> dict[str, Array]:
    """Return the sample's operands by name."""
    return {f"x{i}": v for i, v in enumerate(sample.operands) if v is not None}


@pytest.fixture(scope="module")
def cases() -> dict[str, Lowered]:
    """Each sample's kernel; those of refused operators are left out."""
    return {str(s): lowered(graph_of(s)) for s in SAMPLES if s.op not in REFUSED}


@pytest.fixture(scope="module")
def program(cases: dict[str, Lowered]) -> CProgram:
    """All of them in one library."""
    return program_of(cases.values())


def expected(sample: Sample) -> list[Array]:
    """Evaluate the sample with its floats in float64, as far as its results have the same dtype."""
    attrs = normalized(OPERATORS[sample.op], types_of(sample.operands), sample.attrs)
    precise = [None if v is None else wide(v) for v in sample.operands]
    narrow = OPERATORS[sample.op].evaluate(sample.operands, attrs)
    if sample.op in ("Cast", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"):
        return list(narrow)
    return list(OPERATORS[sample.op].evaluate(precise, attrs))


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_operator_alone(sample: Sample, cases: dict[str, Lowered], program: CProgram) -> None:
    if sample.op in REFUSED:
        with pytest.raises(LoweringError, match=REFUSED[sample.op]):
            lowered(graph_of(sample))
        return
    case = cases[str(sample)]
    results = case.run(program, inputs_of(sample))
    half = any(v is not None and v.dtype.itemsize == 2 for v in sample.operands)
    for value, wanted in zip(case.graph.outputs, expected(sample), strict=False):
        got = results[value]
        assert got.dtype == case.graph.types[value].dtype.numpy
        assert worst(got, wanted) < (4e-3 if half and got.dtype.kind != "i" else 2e-6)


def test_refusals_are_of_declared_operators() -> None:
    assert set(REFUSED) <= set(OPERATORS)
    assert np.all([bool(reason) for reason in REFUSED.values()])
