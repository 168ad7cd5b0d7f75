"""What operators and numbers mean, at a hundred digits: against mpmath's own formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from typing import Any

import pytest

from egraph_fusion import rulesets
from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.exact_constants import Root, meant
from egraph_fusion.rulesets.exact_functions import RealFunctions
from egraph_fusion.rulesets.exact_groups import objects
from egraph_fusion.rulesets.exact_numbers import Interval
from egraph_fusion.rulesets.exact_operators import apply_exactly
from egraph_fusion.rulesets.prove import prove
from egraph_fusion.rulesets.rule import Rule, rule
from egraph_fusion.rulesets.verification import verify

mp: Any = import_module("mpmath").mp.clone()
mp.dps = 250
Formula = Callable[[Any], Any]


def decimal(text: str) -> Any:
    """Return a decimal fraction."""
    return mp.mpf(text)


def _hard_sigmoid(x: Any) -> Any:
    return max(mp.zero, min(mp.one, x / 5 + decimal("0.5")))


def _selu(x: Any) -> Any:
    alpha, gamma = decimal("1.6732631921768188"), decimal("1.0507010221481323")
    return gamma * (x if x > 0 else alpha * mp.expm1(x))


def _tanh_gelu(x: Any) -> Any:
    inner = mp.sqrt(2 / mp.pi) * (x + decimal("0.044715") * x**3)
    return x * (1 + mp.tanh(inner)) / 2


MEANINGS: dict[str, Formula] = {
    "Neg": lambda x: -x,
    "Abs": abs,
    "Sign": mp.sign,
    "Reciprocal": lambda x: 1 / x,
    "Floor": mp.floor,
    "Ceil": mp.ceil,
    "Round": mp.nint,
    "Sqrt": mp.sqrt,
    "Exp": mp.exp,
    "Log": mp.log,
    "Erf": mp.erf,
    "Sin": mp.sin,
    "Cos": mp.cos,
    "Tan": mp.tan,
    "Asin": mp.asin,
    "Acos": mp.acos,
    "Atan": mp.atan,
    "Sinh": mp.sinh,
    "Cosh": mp.cosh,
    "Tanh": mp.tanh,
    "Asinh": mp.asinh,
    "Acosh": mp.acosh,
    "Atanh": mp.atanh,
    "Identity": lambda x: x,
    "Relu": lambda x: max(x, mp.zero),
    "Sigmoid": lambda x: mp.exp(x) / (1 + mp.exp(x)),
    "Softplus": lambda x: mp.log(1 + mp.exp(x)),
    "Softsign": lambda x: x / (1 + abs(x)),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda x: x * max(mp.zero, min(mp.mpf(6), x + 3)) / 6,
    "LeakyRelu": lambda x: x if x > 0 else x / 100,
    "Elu": lambda x: x if x > 0 else mp.expm1(x),
    "Celu": lambda x: x if x > 0 else mp.expm1(x),
    "Selu": _selu,
    "ThresholdedRelu": lambda x: x if x > 1 else mp.zero,
    "Shrink": lambda x: mp.zero if abs(x) <= decimal("0.5") else x,
    "Mish": lambda x: x * mp.tanh(mp.log1p(mp.exp(x))),
    "Gelu": lambda x: x * (1 + mp.erf(x / mp.sqrt(2))) / 2,
    "Swish": lambda x: x / (1 + mp.exp(-x)),
}
OF_OTHERS = ("Not", "BitwiseNot", "IsNaN", "IsInf", "Cast")
"""Operators of one operand that compute no number from a number."""
POINTS = (*map(Fraction, ("-2.5", "-0.75", "0.1", "0.3", "1.5", "2.25", "7")), Fraction(-1, 3))
INSIDE = {
    "Sqrt": (0, None),
    "Log": (0, None),
    "Acosh": (1, None),
    "Asin": (-1, 1),
    "Acos": (-1, 1),
    "Atanh": (-1, 1),
}


def exactly(op: str, x: Fraction, **attrs: Any) -> Any:
    """Return the value that the verifier takes an operator of one operand to have."""
    filled = normalized(OPERATORS[op], (TensorType(DType.FLOAT64, ()),), attrs)
    return apply_exactly(RealFunctions(), op, [objects([x], ())], filled)[0].item()


def close(found: Any, wanted: Any) -> bool:
    """Whether a value is enclosed, to a hundred digits."""
    if isinstance(found, Fraction):
        return bool(abs(mp.mpf(found.numerator) / found.denominator - wanted) < mp.mpf("1e-200"))
    assert isinstance(found, Interval)
    slack = abs(wanted) * mp.mpf("1e-100")
    return bool(found.lo <= wanted <= found.hi and found.hi - found.lo <= slack)


def test_all_operators_of_one_number_have_a_formula() -> None:
    unary = {n for n, o in OPERATORS.items() if o.kind is Kind.ELEMENTWISE and o.arity == (1, 1)}
    assert unary - {*OF_OTHERS} == {*MEANINGS}


@pytest.mark.parametrize("name", MEANINGS)
def test_operators_are_exact_to_a_hundred_digits(name: str) -> None:
    low, high = INSIDE.get(name, (None, None))
    inside = [x for x in POINTS if (low is None or x > low) and (high is None or x < high)]
    assert len(inside) > 2
    for x in inside:
        wanted = MEANINGS[name](mp.mpf(x.numerator) / x.denominator)
        assert close(exactly(name, x), wanted), (name, x)


@pytest.mark.parametrize("x", POINTS)
def test_other_forms_are_exact(x: Fraction) -> None:
    near = mp.mpf(x.numerator) / x.denominator
    assert close(exactly("Gelu", x, approximate="tanh"), _tanh_gelu(near))
    assert close(exactly("HardSigmoid", x, alpha=1 / 6), max(0, min(1, near / 6 + mp.mpf("0.5"))))
    assert close(exactly("Swish", x, alpha=math.sqrt(2)), near / (1 + mp.exp(-mp.sqrt(2) * near)))


@pytest.mark.parametrize("size", [3, 5, 7, 11])
def test_constants_of_bodies_are_exact(size: int) -> None:
    kind = TensorType(DType.FLOAT64, (1, 1))
    attrs = normalized(OPERATORS["LRN"], (kind,), {"size": size, "beta": 1.0})
    (found,) = apply_exactly(RealFunctions(), "LRN", [objects([Fraction(3)], (1, 1))], attrs)
    assert found.item() == 3 / (1 + Fraction(1, 10_000) * 9 / size)


@pytest.mark.parametrize("p", [3, 5])
def test_roots_of_sums_are_exact(p: int) -> None:
    kind = TensorType(DType.FLOAT64, (1, 1, 2))
    attrs = normalized(OPERATORS["GlobalLpPool"], (kind,), {"p": p})
    operand = objects([Fraction(2), Fraction(-3)], (1, 1, 2))
    (found,) = apply_exactly(RealFunctions(), "GlobalLpPool", [operand], attrs)
    assert close(found.item(), mp.root(mp.mpf(2**p + 3**p), p))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("sizes", [(3, 7), (2, 9), (7, 3)])
def test_weights_of_resized_elements_are_exact(mode: str, sizes: tuple[int, int]) -> None:
    old, new = sizes
    kind = TensorType(DType.FLOAT64, (old,))
    attrs = normalized(OPERATORS["Resize"], (kind,), {"mode": mode, "sizes": (new,)})
    (found,) = apply_exactly(
        RealFunctions(), "Resize", [objects([Fraction(1)] * old, (old,))], attrs
    )
    assert [*found] == [Fraction(1)] * new  # what is constant stays so


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0.1, Fraction(1, 10)),
        (-0.0, Fraction(0)),
        (1e-7, Fraction(1, 10**7)),
        (3e300, Fraction(3 * 10**300)),
        (1 / 3, Fraction(1, 3)),
        (-1 / 6, Fraction(-1, 6)),
        (100 / 7, Fraction(100, 7)),
        (1e-4 / 3, Fraction(1, 30_000)),
        (0.333333333333, Fraction(333333333333, 10**12)),
        (0.1 + 0.2, Fraction("0.30000000000000004")),
        (math.pi, Fraction("3.141592653589793")),
        (math.sqrt(2), Root(1, Fraction(2), over_pi=False)),
        (-math.sqrt(0.5), Root(-1, Fraction(1, 2), over_pi=False)),
        (1 / math.sqrt(768), Root(1, Fraction(1, 768), over_pi=False)),
        (math.sqrt(2 / math.pi), Root(1, Fraction(2), over_pi=True)),
        (math.nextafter(1 / 3, 1), Fraction("0.33333333333333337")),
    ],
)
def test_what_numbers_mean(value: float, number: Fraction | Root) -> None:
    assert meant(value) == number


a, b = rulesets.tensors("a b")
RIGHT = {
    "hard swish": rule("r", ops.hard_swish(a), a * ops.clip(a + 3.0, 0.0, 6.0) / 6.0),
    "hard swish by its definition": rule(
        "r", ops.hard_swish(a), a * ops.hard_sigmoid(a, alpha=1 / 6, beta=0.5)
    ),
    "gelu": rule("r", ops.gelu(a), a * 0.5 * (ops.erf(a / ops.sqrt(a * 0.0 + 2.0)) + 1.0)),
    "gelu by a number": rule("r", ops.gelu(a), a * 0.5 * (ops.erf(a / math.sqrt(2.0)) + 1.0)),
    "gelu by another": rule("r", ops.gelu(a), 0.5 * a * (1.0 + ops.erf(a * math.sqrt(0.5)))),
    "tanh gelu": rule(
        "r",
        ops.gelu(a, approximate="tanh"),
        a * 0.5 * (ops.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a * a * a)) + 1.0),
    ),
    "a third": rule("r", a * (1 / 3), a / 3.0),
    "roots": rule("r", a * math.sqrt(2.0) * math.sqrt(2.0), a * 2.0),
}
WRONG = {
    "nearly a third": rule("r", a * 0.333333333333, a / 3.0),
    "nearly a root": rule("r", a * 1.41421356237 * 1.41421356237, a * 2.0),
    "nearly gelu": rule("r", ops.gelu(a), a * 0.5 * (ops.erf(a * 0.70710678118) + 1.0)),
    "nearly hard swish": rule("r", ops.hard_swish(a), a * ops.hard_sigmoid(a, alpha=0.1666667)),
    "the other gelu": rule("r", ops.gelu(a), ops.gelu(a, approximate="tanh")),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", range(2))
def test_right_rules_about_constants_stand(name: str, seed: int) -> None:
    found = verify(RIGHT[name], max_examples=60, seed=seed, check_guards=False)
    assert found.ok, str(found)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("seed", range(3))
def test_wrong_rules_about_constants_fall(name: str, seed: int) -> None:
    found = verify(WRONG[name], max_examples=60, seed=seed, shrink=False, check_guards=False)
    assert found.counterexample is not None, str(found)


@pytest.mark.parametrize(
    ("r", "proven"),
    [
        (rule("r", a * (1 / 3) + a * (1 / 6), a * 0.5), True),
        (rule("r", a * math.sqrt(2) + b * math.sqrt(2), (a + b) * math.sqrt(2)), True),
        (rule("r", a * math.sqrt(2) + a * math.sqrt(3), a * math.sqrt(5)), False),
    ],
)
def test_proofs_take_fractions_and_leave_roots_open(r: Rule, proven: bool) -> None:
    assert (prove(r) is not None) is proven
