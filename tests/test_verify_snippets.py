"""Counterexamples as programs: the left side has a value, and the difference shows."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

from egraph_fusion import rulesets
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.rule import rule
from egraph_fusion.rulesets.verification import verify
from egraph_fusion.rulesets.verify_reals import FINEST, shown_apart

a, b = rulesets.tensors("a b")
(p,) = rulesets.attrs("p")
cast = ops.cast
FINE = {
    "bounds": rule("r", ops.max(a, 7.0), ops.max(a, 7.0000001)),
    "a third": rule("r", a * 0.333333333333, a / 3.0),
    "twelve digits of a root": rule("r", ops.sqrt(a * a * 2.0), ops.abs(a * 1.41421356237)),
    "gelu": rule("r", ops.gelu(a), a * 0.5 * (ops.erf(a * 0.7071067811865) + 1.0)),
    "indices": rule("r", ops.gather(a * 0.333333333333, b), ops.gather(a / 3.0, b)),
    "conversions": rule(
        "r",
        cast(cast(a, to="float16") * 0.3333333333, to="float32"),
        cast(cast(a, to="float16") * 0.3333333334, to="float32"),
    ),
    "truth values": rule(
        "r",
        ops.where(ops.less(a, b), a * 1.0000000001, b),
        ops.where(ops.less(a, b), a, b),
    ),
    "vanishing": rule("r", a * 1e-30 * 1e-30, a * 2e-60),
    "exactly": rule("r", ops.relu(a), ops.max(a, -0.0), level="exact"),
    "digits of float64": rule("r", a + 1.0, a + 1.000000000001),
}


def printed(text: str) -> list[str]:
    """Run a program and return what it prints, line by line."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), np.errstate(all="ignore"):
        exec(text, {})
    return out.getvalue().splitlines()


@pytest.mark.parametrize("name", FINE)
@pytest.mark.parametrize("seed", range(3))
def test_the_difference_shows(name: str, seed: int) -> None:
    found = verify(FINE[name], max_examples=60, seed=seed, check_guards=False)
    assert found.counterexample is not None, str(found)
    lines = printed(str(found.counterexample))
    half = len(lines) // 2
    alike = "over the reals they differ" in str(found.counterexample)
    left, right = lines[-2:] if alike else ("".join(lines[:half]), "".join(lines[half:]))
    assert left != right
    assert ("over the reals" in found.counterexample.reason) or not alike


def test_values_are_shown_to_as_many_digits_as_tell_them_apart() -> None:
    one = FINEST.const(1.0)
    near = FINEST.add(one, FINEST.const(1e-60))
    assert shown_apart(one, near) == ("1", f"1.{'0' * 59}1")
    assert shown_apart(one, one) == ("1", "1")
    assert shown_apart(FINEST.div(one, FINEST.const(3.0)), one) == ("1/3", "1")
    root = FINEST.sqrt(FINEST.const(2.0))
    assert shown_apart(root, one)[0].startswith("1.4142135623730950488016887242")


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap", "constant"])
@pytest.mark.parametrize("seed", range(3))
def test_the_left_side_has_a_value(mode: str, seed: int) -> None:
    once = ops.pad(a, mode=mode, pads=p)
    r = rule("r", ops.pad(once, mode=mode, pads=p), once, dtypes="any")
    found = verify(r, max_examples=60, seed=seed, check_guards=False).counterexample
    assert found is not None
    assert not any("the left side fails" in line for line in printed(str(found)))
