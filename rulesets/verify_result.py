"""What a verification says: the verdict, what was tried, and a counterexample as a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from egraph_fusion.ir.graph import Array
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.strategies import Environment
from egraph_fusion.rulesets.verify_snippet import snippet


@dataclass(frozen=True)
class Counterexample:
    """Operands for which a rule's claim is wrong; prints as a Python snippet that shows it."""

    rule: Rule
    environment: Environment
    reason: str

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The operands by name."""
        return self.environment.tensors

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The operands' shapes by name."""
        return {name: v.shape for name, v in self.arrays.items()}

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Values of the attribute variables."""
        return self.environment.setting.attributes

    def __str__(self) -> str:
        """Print as a snippet that evaluates both sides."""
        return snippet(self.environment, self.reason)


SHARE = 0.2
"""The part of all examples that must decide something."""


@dataclass(frozen=True)
class Checked:
    """What was tried: examples by outcome, settings (shapes and attributes), operators, dtypes.

    "reals": equal over the reals; "floats": that, and equal in floating point to propagated
    rounding error; "bits": bit-identical; "undecided": not told apart at 650 digits, or dependent
    on a comparison of equal irrational numbers.  `unreached` are sizes that the rule names, but
    that nothing had.  `cut` says that the time limit came before each setting had its turn.
    """

    outcomes: Mapping[str, int]
    instances: int
    settings: int
    seconds: float
    timed_out: bool = False
    unreached: tuple[int, ...] = ()
    cut: bool = False

    @property
    def examples(self) -> int:
        """Examples that decided something."""
        return sum(n for how, n in self.outcomes.items() if how in ("reals", "floats", "bits"))

    @property
    def doubt(self) -> str:
        """Why this is no verdict, since too little was decided or tried; empty if it is one."""
        if self.unreached:
            return f"sizes of {', '.join(map(str, self.unreached))} were not tried"
        if self.cut:
            return "the time limit came before each setting was tried"
        decided, left_open = self.examples, self.outcomes.get("undecided", 0)
        tried = sum(self.outcomes.values())
        few = left_open > decided or decided < SHARE * tried
        return f"only {decided} of {tried} examples decided anything" if few and tried else ""

    def __str__(self) -> str:
        """Print as one line."""
        parts = ", ".join(f"{n} {how}" for how, n in sorted(self.outcomes.items()))
        late = ", stopped at the time limit" if self.timed_out else ""
        return f"{self.instances} instances in {self.settings} settings: {parts or 'nothing'}{late}"


@dataclass(frozen=True)
class Verification:
    """Whether a rule's claim stood, or what refutes it, and the guards it does not need.

    A rule that no operands satisfy is not ok and has no counterexample, nor has one of which too
    few examples decided anything: `note` says so.
    """

    rule: Rule
    ok: bool
    counterexample: Counterexample | None
    checked: Checked
    unneeded_guards: tuple[str, ...] = ()
    note: str = ""

    @property
    def status(self) -> str:
        """The verdict: "ok", "wrong", "undecided" (too little was decided or tried) or "void"."""
        if self.ok or self.counterexample is not None:
            return "ok" if self.ok else "wrong"
        c = self.checked
        return "undecided" if c.outcomes.get("undecided") or c.unreached or c.cut else "void"

    def __str__(self) -> str:
        """Print the verdict, and the counterexample if there is one."""
        if self.counterexample is not None:
            return f"{self.rule.name}: wrong\n{self.counterexample}"
        extra = "".join(f"; holds without {g}" for g in self.unneeded_guards)
        verdict = self.note if self.status == "void" else self.status
        verdict += f", {self.note}" if self.status == "undecided" else ""
        return f"{self.rule.name}: {verdict} ({self.checked}){extra}"
