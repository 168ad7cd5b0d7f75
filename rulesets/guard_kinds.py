"""What a guard is: a named predicate that says when a rule may fire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from egraph_fusion.errors import REFUSALS, RuleError
from egraph_fusion.rulesets.pattern import Attribute, AttrTerm, Pattern


class Form(Enum):
    """What a guard looks at."""

    VALUE = "value"  # the elements of one tensor: proven by intervals, tested on arrays
    TYPE = "type"  # shapes and attributes: one Python predicate serves both
    DTYPE = "dtype"  # the element types of tensors
    GRAPH = "graph"  # how a tensor is computed or used: always true of plain arrays


@dataclass(frozen=True, slots=True)
class GuardKind:
    """One named predicate.

    `test` takes an array (VALUE), dtypes (DTYPE) or, for each argument, the shape of a tensor or
    the value of an attribute (TYPE); it is unused for GRAPH.  An `arity` of None is any.
    """

    name: str
    form: Form
    arity: int | None
    test: Callable[..., bool]

    def holds(self, *args: Any) -> bool:
        """Whether the predicate holds; one that speaks of an axis that is not there does not."""
        try:
            return self.test(*args)
        except REFUSALS:
            return False


@dataclass(frozen=True, slots=True)
class Guard:
    """A predicate applied to sub-terms of a rule's left side, attribute variables and literals.

    A guard for `gain` says where the rule pays: without it the rule holds as well, and might grow
    graphs without end.
    """

    name: str
    args: tuple[Pattern | AttrTerm, ...]
    gain: bool = False

    @property
    def kind(self) -> GuardKind:
        """The predicate."""
        return GUARDS[self.name]

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The arguments that are tensors."""
        return tuple(a for a in self.args if isinstance(a, Pattern))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attribute variables among the arguments."""
        return tuple(a.name for a in self.args if isinstance(a, Attribute))

    def __str__(self) -> str:
        """Print as a call."""
        return f"{self.name}({', '.join(map(str, self.args))}){' for gain' if self.gain else ''}"


GUARDS: dict[str, GuardKind] = {}


def for_gain(guard: Guard) -> Guard:
    """Return the guard as one that says where a rule pays."""
    return replace(guard, gain=True)


def declare_guard(
    form: Form, arity: int | None
) -> Callable[[Callable[..., bool]], Callable[..., Guard]]:
    """Return what makes a guard of a predicate, under the predicate's name."""

    def declare(test: Callable[..., bool]) -> Callable[..., Guard]:
        name = test.__name__
        GUARDS[name] = GuardKind(name, form, arity, test)

        def build(*args: Pattern | AttrTerm) -> Guard:
            if arity is not None and len(args) != arity:
                raise RuleError(f"guard {name} takes {arity} arguments, got {len(args)}")
            return Guard(name, args)

        build.__name__, build.__doc__ = name, test.__doc__
        return build

    return declare


def ints(value: Any) -> tuple[int, ...]:
    """Return the integers that an attribute holds, one or several."""
    return (value,) if isinstance(value, int) else tuple(value)
