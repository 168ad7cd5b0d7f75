"""Right sides of rules, made node by node from what the left side bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from egraph_fusion.egraph.language import Constructor
from egraph_fusion.egraph.state import OUT, ENode
from egraph_fusion.errors import RuleError
from egraph_fusion.experiment.matching import (
    Binding,
    argument,
    attribute_variable,
    computed,
    literal,
    number_dtype,
)
from egraph_fusion.experiment.view import Terms
from egraph_fusion.rulesets.pattern import Apply, Computed, Number, Output, Pattern, Scalar, Tensor
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.term_dtypes import Source, number_source, source

Make = Callable[[ENode], int]


def right_side(terms: Terms, r: Rule, b: Binding, make: Make) -> int:
    """Make the right side of a rule, one node at a time, and return the class of it.

    Raises one of REFUSALS if an attribute cannot be computed, or what `make` raises.
    """
    return _Right(terms, r, b, make).made(r.rhs, source(r.lhs, b.classes))


@dataclass
class _Right:
    terms: Terms
    rule: Rule
    binding: Binding
    make: Make

    def made(self, p: Pattern, above: Source) -> int:
        """Return the class of `p`; `above` is what gives it its dtype if it is a number."""
        if isinstance(p, Tensor):
            return self.binding.classes[p]
        dtype = number_dtype(self.terms, self.rule, self.binding, above)
        interner = self.terms.interner
        match p:
            case Number(value) if dtype is not None:
                return self.make(ENode("Num", (), (interner.number(value), interner.dtype(dtype))))
            case Scalar(value) if dtype is not None:
                number = float(argument(self.terms, value, self.binding))
                return self.make(ENode("Num", (), (interner.number(number), interner.dtype(dtype))))
            case Apply():
                return self._applied(p, 0, above)
            case Output(of, index) if isinstance(of, Apply):
                bundle = self._applied(of, self._outputs(of), above)
                return self.make(ENode(OUT, (bundle,), (index,)))
            case _:
                raise RuleError(f"{p} cannot be built")

    def _outputs(self, p: Apply) -> int:
        """Return how many outputs an operator under an index has: as many as on the left side."""
        for q, n in self.binding.nodes.items():
            c = n.constructor
            same = isinstance(q, Apply) and q.op == p.op
            if same and isinstance(c, Constructor) and c.outputs:
                return c.outputs
        raise RuleError(f"{p} has an unknown number of outputs")

    def _applied(self, p: Apply, outputs: int, above: Source) -> int:
        bound = self.binding.classes
        operands = tuple(
            self.made(a, number_source(p, i, above, bound)) for i, a in enumerate(p.args)
        )
        made = dict(zip(p.args, operands, strict=True))
        local = replace(self.binding, classes={**made, **self.binding.classes})
        c = Constructor(p.op, len(p.args), outputs)
        attrs = tuple(self._column(p, name, local) for name in c.columns)
        return self.make(ENode(c, operands, attrs))

    def _column(self, p: Apply, name: str, local: Binding) -> int:
        given = dict(p.attrs)
        variable = attribute_variable(p, name, given)
        if variable is not None:
            return self.binding.attrs[variable]
        term = given.get(name)
        if isinstance(term, Computed):
            return computed(self.terms, term, local)
        return literal(self.terms, p, name, term, local)
