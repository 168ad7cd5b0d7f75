"""Operators that give integers, or integers of integers: in every float dtype, rounded or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from operator_oracles import applied
from operator_samples import SAMPLES, Sample

from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.ir.ops import OPERATORS, Law

Array = NDArray[Any]
BITS = {np.float16: 11, ml_dtypes.bfloat16: 8, np.float32: 24, np.float64: 53}
"""Float dtypes and the bits of their significands."""
BY_WAY_OF_FRACTIONS = {"Conv", "ConvTranspose"}
"""Integers of integers over the reals; fast algorithms reach them by way of fractions."""
OF_ZERO_ALONE = {"Atanh"}
"""Finite at a single integer."""


def _has_fraction(a: Array) -> bool:
    wide = a.astype(np.float64)
    return bool(np.modf(wide[np.isfinite(wide)])[0].any())


def _whole(shape: tuple[int, ...], bits: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield integers that are small, at the end of what a dtype holds exactly, and far beyond."""
    yield rng.integers(-9, 10, shape).astype(np.float64)
    yield rng.choice([-1.0, 1.0], shape) * (2.0**bits + rng.integers(-9, 10, shape))
    yield rng.integers(-(2**bits), 2**bits, shape) * 2.0 ** rng.integers(0, bits, shape)


def _results(sample: Sample, dtype: Any, seed: int = 0) -> Iterator[tuple[bool, list[Array]]]:
    """Yield what an operator makes of integers in a float dtype, and whether they are small."""
    operator, attrs = applied(sample)
    draws = [
        None
        if v is None or v.dtype.kind != "f"
        else list(_whole(v.shape, BITS[dtype], np.random.default_rng([seed, i])))
        for i, v in enumerate(sample.operands)
    ]
    for n in range(3):
        try:
            with np.errstate(all="ignore"):
                operands = [
                    v if d is None else d[n].astype(dtype)
                    for v, d in zip(sample.operands, draws, strict=True)
                ]
                found = operator.evaluate(operands, attrs)
        except (EgraphFusionError, TypeError):  # not computed on in this dtype
            return
        yield n == 0, [r for r in found if r.dtype.kind not in "biu"]


def _claimed(sample: Sample) -> bool:
    operator, attrs = applied(sample)
    whole = all(float(str(attrs[name])) % 1 == 0 for name in operator.factors)
    return Law.INTEGER in operator.laws or (operator.preserves_integers and whole)


CLAIMED = [s for s in SAMPLES if _claimed(s)]


@pytest.mark.parametrize("dtype", BITS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("sample", CLAIMED, ids=str)
def test_integers_give_integers(sample: Sample, dtype: Any) -> None:
    for seed in range(3):
        for _, results in _results(sample, dtype, seed):
            assert not any(map(_has_fraction, results))


@pytest.mark.parametrize("name", [n for n, o in OPERATORS.items() if Law.INTEGER in o.laws])
def test_any_number_gives_an_integer(name: str) -> None:
    samples = [s for s in SAMPLES if s.op == name]
    assert samples
    for s in samples:
        operator, attrs = applied(s)
        given = s.operands[0]
        assert given is not None
        for n in range(20):
            scale = 2.0 ** np.random.default_rng(n).integers(-30, 30)
            x = (np.random.default_rng(n).normal(size=given.shape) * scale).astype(np.float32)
            assert not any(map(_has_fraction, operator.evaluate((x, *s.operands[1:]), attrs)))


def _undeclared() -> list[str]:
    claimed = {s.op for s in SAMPLES if OPERATORS[s.op].preserves_integers}
    claimed |= {s.op for s in CLAIMED}
    made = {s.op for s in SAMPLES for _, rs in _results(s, np.float32) if rs}
    return sorted(made - claimed - BY_WAY_OF_FRACTIONS - OF_ZERO_ALONE)


@pytest.mark.parametrize("name", _undeclared())
def test_operators_without_the_law_give_fractions(name: str) -> None:
    small = (
        r
        for s in SAMPLES
        if s.op == name
        for few, results in _results(s, np.float32)
        if few
        for r in results
    )
    assert any(map(_has_fraction, small))


def test_the_law_is_claimed_of_the_operators_that_need_it() -> None:
    claimed = {s.op for s in CLAIMED}
    assert {"Add", "Mul", "Cast", "Where", "MatMul", "Gemm", "Concat", "Pad", "Gather"} <= claimed
    assert not claimed & {"Div", "Mean", "ReduceMean", "AveragePool", "Reciprocal", "Exp"}
