"""Left sides and guards of rules as egglog conditions, and the questions they ask of Python."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from egraph_fusion.egraph.demand import Demand, function_demand, guard_answer, guard_demand
from egraph_fusion.egraph.interning import Interner
from egraph_fusion.egraph.language import Constructor
from egraph_fusion.egraph.value_guards import VALUE_FORMS
from egraph_fusion.errors import RuleError
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    AttrTerm,
    Computed,
    Number,
    Output,
    Pattern,
    Scalar,
    Tensor,
    walk,
)
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.term_dtypes import Source, foreign_parts

GROUPS_OF = {"numeric": 4, "any": None, "float": 0, "int": 1, "uint": 2, "bool": 3}


@dataclass
class Match:
    """What a left side has bound so far."""

    interner: Interner
    outputs: Mapping[str, int]
    atoms: list[str] = field(default_factory=list[str])
    bound: dict[Pattern, str] = field(default_factory=dict[Pattern, str])
    questions: dict[str, str] = field(default_factory=dict[str, str])  # want atom → answer atom
    demands: dict[str, Demand] = field(default_factory=dict[str, Demand])
    dtype: str = ""

    def fresh(self, stem: str) -> str:
        """Return a variable name that is not taken."""
        return f"{stem}{len(self.bound)}"


def match_term(m: Match, p: Pattern) -> str:
    """Add the conditions under which `p` matches; return the variable of its class."""
    if p in m.bound:
        return m.bound[p]
    match p:
        case Tensor(name):
            m.bound[p] = f"t_{name}"
        case Number(value):
            m.bound[p] = m.fresh("c")
            m.atoms.append(f"(= {m.interner.number(value)} (splat {m.bound[p]}))")
        case Apply():
            m.bound[p] = _match_apply(m, p, 0)
        case Output(of, index) if isinstance(of, Apply):
            bundle = _match_apply(m, of, m.outputs[of.op])
            m.bound[p] = m.fresh("o")
            m.atoms.append(f"(= {m.bound[p]} (Out {bundle} {index}))")
        case _:
            raise RuleError(f"{p} cannot be matched")
    return m.bound[p]


def _match_apply(m: Match, p: Apply, outputs: int) -> str:
    operands = [match_term(m, a) for a in p.args]
    c = Constructor(p.op, len(p.args), outputs)
    given = dict(p.attrs)
    columns = [_match_column(m, p, name, given) for name in c.columns]
    name = m.fresh("e")
    m.atoms.append(f"(= {name} {c.term(operands, columns)})")
    return name


def _match_column(m: Match, p: Apply, name: str, given: Mapping[str, AttrTerm]) -> str:
    if name not in given:
        return rest_column(m, p, name)
    term = given[name]
    if isinstance(term, Attribute):
        return f"A_{term.name}"
    if isinstance(term, Computed):
        raise RuleError(f"the left side cannot compute an attribute: {term}")
    front = counted_axes(p, name, term, m.bound)
    if front is not None:
        return ask_function(m, front)
    return str(m.interner.attr(in_declared_kind(p.op, name, term)))


def rest_column(m: Match, p: Apply, name: str) -> str:
    """Return the column of an attribute that a term does not mention."""
    if p.rest is not None:
        return f"R_{p.rest.name}_{name}"
    return str(m.interner.attr(OPERATORS[p.op].attr(name).default))


def counted_axes(
    p: Apply, name: str, value: AttrValue, bound: Container[Pattern]
) -> Computed | None:
    """Return what an axis literal that counts from the back is: the rank of `bound` terms decides.

    Raises RuleError if they do not say the rank of the operand.
    """
    axis_of = OPERATORS[p.op].attr(name).axis_of
    values = value if isinstance(value, tuple) else (value,)
    if not axis_of or not any(isinstance(v, int) and v < 0 for v in values):
        return None
    added = len(values) if axis_of == "result" else 0
    return Computed("counted", (value, added, *dict.fromkeys(_ranked_by(p.args[0], bound))))


def _ranked_by(p: Pattern, bound: Container[Pattern]) -> Iterator[Pattern]:
    """Yield the bound terms the highest of whose ranks is the rank of `p`."""
    if isinstance(p, Number | Scalar):
        return
    if p in bound:
        yield p
        return
    if not isinstance(p, Apply):
        raise RuleError(f"the rank of {p} is not known: count its axes from the front")
    operator = OPERATORS[p.op]
    broadcasts = operator.kind is Kind.ELEMENTWISE
    kept = operator.keeps_rank or (
        operator.kind is Kind.REDUCTION and p.rest is None and dict(p.attrs).get("keepdims", 1) == 1
    )
    if not broadcasts and not kept:
        raise RuleError(f"the rank of {p} is not known: count its axes from the front")
    for a in p.args if broadcasts else p.args[:1]:
        yield from _ranked_by(a, bound)


def in_declared_kind(op: str, name: str, value: AttrValue) -> AttrValue:
    """Return a literal in the kind that the registry declares."""
    kind = OPERATORS[op].attr(name).kind
    return float(value) if kind == "float" and isinstance(value, int) else value


def _shape(m: Match, p: Pattern) -> str:
    variable = m.bound[p]
    _need_type(m, variable)
    atom = f"(= {variable}_s (ty-shape {variable}_t))"
    if atom not in m.atoms:
        m.atoms.append(atom)
    return f"{variable}_s"


def dtype_of(m: Match, p: Pattern) -> str:
    """Return the variable of the element type of a bound term."""
    variable = m.bound[p]
    _need_type(m, variable)
    atom = f"(= {variable}_d (ty-dtype {variable}_t))"
    if atom not in m.atoms:
        m.atoms.append(atom)
    return f"{variable}_d"


def _need_type(m: Match, variable: str) -> None:
    atom = f"(= {variable}_t (ty {variable}))"
    if atom not in m.atoms:
        m.atoms.append(atom)


def checked_operands(r: Rule) -> tuple[Pattern, ...]:
    """Return the operands whose dtypes a rule speaks of, else an operator that it matches."""
    foreign = {p for p, _ in foreign_parts(r.lhs)}
    parts = list(dict.fromkeys(walk(r.lhs)))
    tensors = [q for q in parts if isinstance(q, Tensor) and q not in foreign]
    indexed = [q.of for q in parts if isinstance(q, Output)]
    return tuple(tensors or [q for q in parts if isinstance(q, Apply) and q not in indexed][:1])


def number_dtype(m: Match, found: Source) -> str:
    """Return what stands for the dtype of a number that a rule makes."""
    if isinstance(found, Pattern):
        return dtype_of(m, found)
    return m.dtype if found is None else str(m.interner.dtype(found))


def check_dtypes(m: Match, r: Rule) -> None:
    """Add the condition that operands have the dtypes that the rule claims."""
    group = GROUPS_OF[r.dtypes]
    checked = [m.bound[p] for p in checked_operands(r) if p in m.bound]
    for v in checked:
        _need_type(m, v)
        m.atoms.append(f"(= {v}_d (ty-dtype {v}_t))")
        if group is not None:
            m.atoms.append(f"(dtype-in {group} {v}_d)")
    m.dtype = f"{checked[0]}_d"


def add_guard(m: Match, g: Guard) -> None:
    """Add a guard: as a condition, or as a question and its answer."""
    if g.kind.form is Form.DTYPE:
        left, right = (dtype_of(m, p) for p in g.patterns)
        test = "=" if g.name == "same_dtype" else f"dtypes-{g.name}"
        m.atoms.append(f"({test} {left} {right})")
        return
    if g.kind.form is not Form.TYPE:
        m.atoms.append(VALUE_FORMS[g.name].atoms.format(*(m.bound[p] for p in g.patterns)))
        return
    args = " ".join(_argument(m, a) for a in g.args)
    if g.name in ("same_shape", "unenlarged") and len(g.args) == 2:
        left, right = args.split()
        m.atoms.append(f"(= {left} {right})")
        return
    demand = guard_demand(m.interner, g.name, len(g.args))
    m.demands[demand.key] = demand
    m.questions[f"({demand.want} {args})"] = f"({guard_answer(g.name, len(g.args))} {args})"


def _argument(m: Match, a: Pattern | AttrTerm) -> str:
    if isinstance(a, Pattern):
        return _shape(m, a)
    if isinstance(a, Attribute):
        return f"A_{a.name}"
    if isinstance(a, Computed):
        return ask_function(m, a)
    return str(m.interner.attr(a))


def ask_function(m: Match, f: Computed) -> str:
    """Return the variable that holds what a function computes; asks for it."""
    args = " ".join(_argument(m, a) for a in f.args)
    demand = function_demand(m.interner, f.function, len(f.args))
    m.demands[demand.key] = demand
    variable = f"f_{f.function}_{'_'.join(args.split())}"
    want = f"({demand.want} {args})"
    m.questions[want] = f"(= {variable} (fn-{f.function}-{len(f.args)} {args}))"
    return variable
