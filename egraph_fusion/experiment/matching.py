"""Left sides of rules matched against classes of terms, as the e-graph's own engine does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from egraph_fusion.egraph.language import Constructor
from egraph_fusion.egraph.rule_match import (
    checked_operands,
    counted_axes,
    in_declared_kind,
)
from egraph_fusion.egraph.state import OUT, ENode
from egraph_fusion.errors import RuleError
from egraph_fusion.experiment.view import Terms
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.functions import call
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    AttrTerm,
    Computed,
    Number,
    Output,
    Pattern,
    Tensor,
    children,
)
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.term_dtypes import Source


@dataclass(frozen=True)
class Binding:
    """What a left side has bound: classes of its parts, nodes of its operators, attributes.

    `attrs` holds interned values, by variable; for `rest` variables by variable and attribute.
    """

    classes: Mapping[Pattern, int]
    nodes: Mapping[Pattern, ENode]
    attrs: Mapping[str, int]

    def bound(self, p: Pattern, eclass: int) -> Binding:
        """Return the binding with `p` bound to a class."""
        return replace(self, classes={**self.classes, p: eclass})

    def applied(self, p: Pattern, n: ENode, attrs: Mapping[str, int]) -> Binding:
        """Return the binding with an operator's node and attributes."""
        return replace(self, nodes={**self.nodes, p: n}, attrs={**self.attrs, **attrs})


EMPTY = Binding({}, {}, {})


def matches(terms: Terms, p: Pattern, eclass: int, b: Binding = EMPTY) -> Iterator[Binding]:
    """Yield every way in which `p` matches a class."""
    if p in b.classes:
        if b.classes[p] == eclass:
            yield b
        return
    match p:
        case Tensor():
            yield b.bound(p, eclass)
        case Number(value):
            if terms.splat(eclass) == terms.interner.number(value):
                yield b.bound(p, eclass)
        case Apply():
            yield from _applied(terms, p, p, eclass, b, bundle=False)
        case Output(of, index) if isinstance(of, Apply):
            for n in terms.members(eclass):
                if n.constructor == OUT and n.attrs == (index,):
                    chosen = b.applied(p, n, {})
                    yield from _applied(terms, of, p, eclass, chosen, bundle=True, at=n.children[0])
        case _:
            raise RuleError(f"{p} cannot be matched")


def _applied(
    terms: Terms, p: Apply, whole: Pattern, eclass: int, b: Binding, bundle: bool, at: int = -1
) -> Iterator[Binding]:
    """Yield matches of an operator; `whole` is bound to `eclass`, the nodes are those of `at`."""
    for n in terms.members(at if bundle else eclass):
        c = n.constructor
        if not fits(p, c, bundle):
            continue
        for m in _operands(terms, tuple(zip(p.args, n.children, strict=True)), b):
            attrs = attributes_of_match(terms, p, n, m)
            if isinstance(attrs, dict):
                yield m.applied(p, n, attrs).bound(whole, eclass)


def _operands(terms: Terms, pairs: Sequence[tuple[Pattern, int]], b: Binding) -> Iterator[Binding]:
    """Yield every way in which patterns match their classes together, without storing them."""
    if not pairs:
        yield b
        return
    for found in matches(terms, *pairs[0], b):
        yield from _operands(terms, pairs[1:], found)


def fits(p: Apply, c: Constructor | str, bundle: bool) -> bool:
    """Whether a node's constructor is the operator of a pattern, with as many operands."""
    if isinstance(c, str) or c.op != p.op or c.arity != len(p.args):
        return False
    return bool(c.outputs) is bundle


def attributes_of_match(terms: Terms, p: Apply, n: ENode, b: Binding) -> dict[str, int] | str:
    """Return what an operator's attributes bind, or which of them does not fit."""
    assert isinstance(n.constructor, Constructor)
    given = dict(p.attrs)
    found: dict[str, int] = {}
    for name, have in zip(n.constructor.columns, n.attrs, strict=True):
        term = given.get(name)
        variable = attribute_variable(p, name, given)
        if variable is not None:
            known = {**b.attrs, **found}
            if known.get(variable, have) != have:
                value = terms.interner.value
                return f"{name} is {value(have)} of {p.op}, {value(known[variable])} before it"
            found[variable] = have
            continue
        want = literal(terms, p, name, term if name in given else None, b)
        if want != have:
            value = terms.interner.value
            return f"{name} is {value(have)}, the rule wants {value(want)}"
    return found


def attribute_variable(p: Apply, name: str, given: Mapping[str, AttrTerm]) -> str | None:
    """Return the variable that stands for an attribute, if one does."""
    term = given.get(name)
    if isinstance(term, Attribute):
        return term.name
    if name not in given and p.rest is not None:
        return f"{p.rest.name}.{name}"
    return None


def literal(terms: Terms, p: Apply, name: str, term: AttrTerm | None, b: Binding) -> int:
    """Return the id of an attribute that a pattern gives, or of its default for None."""
    assert not isinstance(term, Attribute | Computed)
    if term is None:
        return terms.interner.attr(OPERATORS[p.op].attr(name).default)
    front = counted_axes(p, name, term, b.classes)
    if front is not None:
        return computed(terms, front, b)
    return terms.interner.attr(in_declared_kind(p.op, name, term))


def computed(terms: Terms, f: Computed, b: Binding) -> int:
    """Return the id of what a function computes; raises one of REFUSALS if it cannot."""
    return terms.interner.attr(call(f.function, tuple(argument(terms, a, b) for a in f.args)))


def argument(terms: Terms, a: Pattern | AttrTerm, b: Binding) -> Any:
    """Return what a guard or function sees: a tensor's shape, an attribute's value."""
    if isinstance(a, Pattern):
        kind = terms.type_of(b.classes[a])
        if kind is None or kind.shape is None:
            raise RuleError(f"the shape of {a} is not known")
        return kind.shape
    if isinstance(a, Attribute):
        return terms.interner.value(b.attrs[a.name])
    if isinstance(a, Computed):
        return terms.interner.value(computed(terms, a, b))
    return a


def number_dtype(terms: Terms, r: Rule, b: Binding, found: Source) -> DType | None:
    """Return the dtype of a number that a rule makes; `found` is what gives it."""
    if isinstance(found, DType):
        return found
    kind = terms.type_of(class_of(checked_operands(r)[0] if found is None else found, b))
    return None if kind is None else kind.dtype


def class_of(p: Pattern, b: Binding) -> int:
    """Return the class of a part; that of an operator under an index is its output's."""
    if p in b.classes:
        return b.classes[p]
    return next(c for q, c in b.classes.items() if isinstance(q, Output) and q.of == p)


def levels(p: Pattern) -> int:
    """Return the levels of a term, its leaves included."""
    return 1 + max(map(levels, children(p)), default=0)
