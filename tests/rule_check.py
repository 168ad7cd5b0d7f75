"""A quick independent check of rules on random environments (the thorough one is `verify`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from rule_meaning import Environment, evaluate
from rule_sampling import Sampler, guarded

from egraph_fusion.errors import EgraphFusionError, RuleError
from egraph_fusion.ir.graph import Array
from egraph_fusion.rulesets.rule import Rule

SPECIAL = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 3e38], np.float32)
RELATIVE, ABSOLUTE = 1e-8, 1e-10


@dataclass(frozen=True)
class Counterexample:
    """An environment in which the two sides differ, or the right side has no value."""

    rule: str
    environment: Environment
    left: Array
    right: Array | None
    reason: str

    def __str__(self) -> str:
        """Print the environment and both results."""
        lines = [f"# {self.rule}: {self.reason}"]
        lines += [f"{n} = np.{v!r}" for n, v in self.environment.tensors.items()]
        lines += [f"{n} = {v!r}" for n, v in self.environment.attrs.items()]
        lines += [f"{n} = {dict(v)!r}" for n, v in self.environment.rests.items()]
        return "\n".join([*lines, f"left = {self.left!r}", f"right = {self.right!r}"])


@dataclass(frozen=True)
class Checked:
    """Whether a rule survived, the example that refutes it, and on how many it was tried."""

    ok: bool
    counterexample: Counterexample | None
    checked: int


def check(r: Rule, max_examples: int = 40, seed: int = 0) -> Checked:
    """Test every direction and instance of `r` on about `max_examples` environments in all.

    Not a proof: `ok` with `checked` 0 says that no environment was found.
    """
    rng = np.random.default_rng(seed)
    instances = [i for d in r.directions() for i in d.instances()]
    checked = 0
    for n in range(max(max_examples, len(instances))):
        instance = instances[n % len(instances)]
        env = Sampler(rng).environment(instance)
        if env is None:
            continue
        checked += 1
        found = _refuted(instance, env) or _refuted_exactly(rng, instance)
        if found is not None:
            return Checked(False, found, checked)
    return Checked(True, None, checked)


def _refuted(r: Rule, env: Environment) -> Counterexample | None:
    left = evaluate(r.lhs, env)
    try:
        right = evaluate(r.rhs, env)
    except RuleError:  # an attribute's function is undefined here, so the rule would not fire
        return None
    except (EgraphFusionError, IndexError, ValueError, TypeError) as e:
        return Counterexample(r.name, env, left, None, f"the right side has no value: {e}")
    if left.shape != right.shape or left.dtype != right.dtype:
        return Counterexample(r.name, env, left, right, "shapes or dtypes differ")
    if left.dtype.kind != "f":
        same = bool((left == right).all())
        return None if same else Counterexample(r.name, env, left, right, "values differ")
    defined = np.isfinite(left) == np.isfinite(right)
    scale = max([1.0, *(float(np.abs(v).max()) for v in env.tensors.values() if _usable(v))])
    with np.errstate(invalid="ignore"):
        near = np.abs(left - right) <= ABSOLUTE * scale**2 + RELATIVE * np.abs(left)
    if not defined.all():
        return Counterexample(r.name, env, left, right, "only one side is defined")
    if not (near | ~np.isfinite(left)).all():
        return Counterexample(r.name, env, left, right, "values differ")
    return None


def _refuted_exactly(rng: np.random.Generator, r: Rule) -> Counterexample | None:
    """Compare both sides of an exact rule bit by bit on float32 with special values."""
    if r.level != "exact" or r.dtypes not in ("float", "numeric", "any"):
        return None
    env = Sampler(rng, np.dtype(np.float32)).environment(r)
    if env is None:
        return None
    tensors = {
        n: guarded(r, n, rng.choice(SPECIAL, v.shape)) if v.dtype == np.float32 else v
        for n, v in env.tensors.items()
    }
    env = replace(env, tensors=tensors)
    try:
        left, right = evaluate(r.lhs, env), evaluate(r.rhs, env)
    except RuleError:
        return None
    if _bits(left) == _bits(right):
        return None
    return Counterexample(r.name, env, left, right, "bits differ")


def _bits(a: Array) -> bytes:
    return (
        np.where(np.isnan(a), np.float32(np.nan), a).tobytes()
        if a.dtype.kind == "f"
        else a.tobytes()
    )


def _usable(v: Array) -> bool:
    return v.size > 0 and v.dtype.kind == "f"
