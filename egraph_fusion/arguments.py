"""What a user hands to a public function, held against the function's own annotations."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from egraph_fusion.errors import EgraphFusionError

P = ParamSpec("P")
R = TypeVar("R")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_LISTS = (Collection, Iterable, Sequence, list, tuple)
LONGEST = 1e6
"""Seconds: no clock waits for ever."""


def bounded(time_limit: float) -> float:
    """Return a number of seconds that a clock can be held to, however large the one given is."""
    return min(time_limit, LONGEST)


def checked(
    error: type[EgraphFusionError],
    *,
    least: Mapping[str, float] | None = None,
    others: Mapping[str, type[EgraphFusionError]] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function raise `error`, naming the parameter, for an argument of another type.

    `least` are bounds of numbers, `others` are errors of another kind, by parameter.
    """
    bounds = least or {}
    kinds = others or {}

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            hints = _hints(function)
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if name in hints and not fits(value, hints[name]):
                    kind = kinds.get(name, error)
                    raise kind(_complaint(function.__name__, name, value, hints[name]))
                # A NaN is no more than anything.
                if name in bounds and value is not None and not value >= bounds[name]:
                    raise error(
                        f"{function.__name__}: {name} is {value}; expected {bounds[name]} or more"
                    )
            return function(*args, **kwargs)

        return call

    return decorate


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(function)


def fits(value: Any, hint: Any) -> bool:
    """Whether `value` is of the type that `hint` says, as far as can be seen without using it.

    A bool is no number and a str no sequence of names: either would be a slip.
    """
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind is Any:
        return True
    if kind in (Union, UnionType):
        return any(fits(value, h) for h in inner)
    if kind in (int, float):
        return type(value) is not bool and isinstance(value, Integral if kind is int else Real)
    if kind in _LISTS and inner:
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_list and all(fits(v, inner[0]) for v in cast(Sequence[Any], value))
    if kind is Mapping and inner:
        return isinstance(value, Mapping) and all(
            fits(k, inner[0]) and fits(v, inner[1])
            for k, v in cast(Iterable[tuple[Any, Any]], value.items())
        )
    return isinstance(value, kind) if isinstance(kind, type) else True


def _complaint(function: str, name: str, value: Any, hint: Any) -> str:
    shown = " ".join(_SHORT.repr(value).split())
    kind = type(value).__name__
    inner = getattr(value, "graph", None)
    meant = "; did you mean its .graph?" if inner is not None and fits(inner, hint) else ""
    return f"{function}: {name} is {shown} ({kind}); expected {described(hint)}{meant}"


def described(hint: Any) -> str:
    """Return a type in words."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        *most, last = (described(h) for h in inner)
        return f"{', '.join(most)} or {last}"
    if kind is NoneType:
        return "None"
    if kind in _LISTS and inner:
        return f"a list of {described(inner[0])}"
    if kind is Mapping and inner:
        return f"a dict of {described(inner[0])} to {described(inner[1])}"
    return "a function" if kind is Callable else str(kind.__name__)
