"""Rules as egglog text: a question rule that asks Python, and the rewrite that uses the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from egraph_fusion.egraph.demand import Demand, function_demand, guard_demand
from egraph_fusion.egraph.interning import Interner
from egraph_fusion.egraph.language import Constructor
from egraph_fusion.errors import RuleError
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.tensors import DType
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

GROUPS_OF = {"numeric": 4, "any": None, "float": 0, "int": 1, "uint": 2, "bool": 3}
INDEX_POSITIONS = {
    ("Where", 0),
    ("Gather", 1),
    ("GatherElements", 1),
    ("GatherND", 1),
    ("CumSum", 1),
    ("OneHot", 0),
}
"""Operands whose dtype is not the one a rule's `dtypes` speaks of."""

VALUE_ATOMS = {
    "nonneg": "(= {v}_lo (lo {v})) (>= {v}_lo 0.0)",
    "positive": "(= {v}_lo (lo {v})) (> {v}_lo 0.0)",
    "nonzero": "(nonzero {v})",
    "finite": "(= {v}_lo (lo {v})) (= {v}_hi (hi {v})) (> {v}_lo -inf) (< {v}_hi inf)",
    "uniform": "(= {v}_splat (splat {v}))",
    "constant": "(constant {v})",
    "varying": "(varies {v})",
    "one_consumer": "(open {v})",
}


@dataclass(frozen=True, slots=True)
class RuleText:
    """One direction of one rule as commands.  `ruleset` holds the rewrite, `asks` the questions."""

    rule: Rule
    ruleset: str
    commands: tuple[str, ...]
    demands: tuple[Demand, ...]


@dataclass
class _Match:
    """What a left side has bound so far."""

    interner: Interner
    outputs: Mapping[str, int]
    atoms: list[str] = field(default_factory=list)
    bound: dict[Pattern, str] = field(default_factory=dict)
    index_operands: set[str] = field(default_factory=set)
    questions: dict[str, str] = field(default_factory=dict)  # want atom → answer atom
    demands: dict[str, Demand] = field(default_factory=dict)
    dtype: str = ""

    def fresh(self, stem: str) -> str:
        return f"{stem}{len(self.bound)}"


def rule_text(
    r: Rule, number: int, outputs: Mapping[str, int], interner: Interner, tame: bool
) -> RuleText:
    """Return one direction of `r` as egglog text.

    `number` identifies the rule in provenance tables; `outputs` gives the number of outputs of
    operators that stand under an index.  With `tame`, the rule fires only where no operand
    depends on constants so large that a new intermediate might overflow.
    """
    m = _Match(interner, outputs)
    root = _match(m, r.lhs)
    if r.dtypes != "any":  # constants are folded: only movement needs a normal form in them
        m.atoms.append(f"(varies {root})")
    m.atoms += _distinct(m, r)
    _guard_types(m, r)
    if tame and r.level != "exact":
        m.atoms += [f"(tame {v})" for p, v in m.bound.items() if isinstance(p, Tensor)]
    for g in r.when:
        _guard(m, g)
    actions = _Actions(m, r, number)
    result = actions.build(r.rhs)
    actions.lines.append(f"(pending {root} {result})")
    if not isinstance(r.rhs, Apply | Output):
        actions.lines.append(f"(joined {root} {number})")
    body = " ".join(m.atoms)
    answers = " ".join(m.questions.values())
    ruleset = f"rule-{number}"
    commands = [f"(ruleset {ruleset})"]
    if m.questions:
        wants = " ".join(m.questions)
        commands.append(f'(rule ({body}) ({wants}) :ruleset asks :name "asks {r.name}")')
    act = " ".join(actions.lines)
    commands.append(f'(rule ({body} {answers}) ({act}) :ruleset {ruleset} :name "{r.name}")')
    return RuleText(r, ruleset, tuple(commands), tuple(m.demands.values()))


def _distinct(m: _Match, r: Rule) -> list[str]:
    """Keep a rule that regroups from feeding on a term that equals one of its own operands.

    Where x = x + 0, rules would make 0 + 0, (0 + 0) + 0 ... without end.  Factoring alone uses
    such terms: x + c x = (1 + c) x.
    """
    if r.family == "distributive" or not isinstance(r.rhs, Apply):
        return []
    terms = [p for p in walk(r.lhs) if isinstance(p, Apply) and p in m.bound]
    return [
        f"(!= {m.bound[p]} {m.bound[q]})"
        for p in dict.fromkeys(terms)
        for q in dict.fromkeys(walk(p))
        if q != p and q in m.bound
    ]


def constructors_of(p: Pattern, outputs: Mapping[str, int]) -> frozenset[Constructor]:
    """Return the constructors that a term uses; `outputs` as for `rule_text`."""
    found: set[Constructor] = set()
    _collect(p, outputs, found)
    return frozenset(found)


def indexed_operators(p: Pattern) -> frozenset[str]:
    """Return the operators that stand under an index."""
    if isinstance(p, Output) and isinstance(p.of, Apply):
        return indexed_operators(p.of) | {p.of.op}
    if isinstance(p, Apply):
        return frozenset[str]().union(*(indexed_operators(a) for a in p.args))
    return frozenset()


def _collect(p: Pattern, outputs: Mapping[str, int], found: set[Constructor]) -> None:
    if isinstance(p, Output):
        _collect_apply(p.of, outputs, found, indexed=True)
    else:
        _collect_apply(p, outputs, found, indexed=False)


def _collect_apply(
    p: Pattern, outputs: Mapping[str, int], found: set[Constructor], indexed: bool
) -> None:
    if not isinstance(p, Apply):
        return
    found.add(Constructor(p.op, len(p.args), outputs[p.op] if indexed else 0))
    for a in p.args:
        _collect(a, outputs, found)


def _match(m: _Match, p: Pattern) -> str:
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


def _match_apply(m: _Match, p: Apply, outputs: int) -> str:
    operands = [_match(m, a) for a in p.args]
    for i, operand in enumerate(operands):
        if (p.op, i) in INDEX_POSITIONS:
            m.index_operands.add(operand)
    c = Constructor(p.op, len(p.args), outputs)
    given = dict(p.attrs)
    columns = [_match_column(m, p, name, given) for name in c.columns]
    name = m.fresh("e")
    m.atoms.append(f"(= {name} {c.term(operands, columns)})")
    return name


def _match_column(m: _Match, p: Apply, name: str, given: Mapping[str, AttrTerm]) -> str:
    if name not in given:
        return _rest_column(m, p, name)
    term = given[name]
    if isinstance(term, Attribute):
        return f"A_{term.name}"
    if isinstance(term, Computed):
        raise RuleError(f"the left side cannot compute an attribute: {term}")
    if _counts_from_back(p.op, name, term):
        return _function(m, Computed("counted", (p.args[0], term)))
    return str(m.interner.attr(_typed(p.op, name, term)))


def _rest_column(m: _Match, p: Apply, name: str) -> str:
    if p.rest is not None:
        return f"R_{p.rest.name}_{name}"
    return str(m.interner.attr(OPERATORS[p.op].attr(name).default))


def _counts_from_back(op: str, name: str, value: AttrValue) -> bool:
    if not OPERATORS[op].attr(name).axis_of:
        return False
    values = value if isinstance(value, tuple) else (value,)
    return any(isinstance(v, int) and v < 0 for v in values)


def _typed(op: str, name: str, value: AttrValue) -> AttrValue:
    """Return a literal in the kind that the registry declares."""
    kind = OPERATORS[op].attr(name).kind
    return float(value) if kind == "float" and isinstance(value, int) else value


def _shape(m: _Match, p: Pattern) -> str:
    variable = m.bound[p]
    _need_type(m, variable)
    atom = f"(= {variable}_s (ty-shape {variable}_t))"
    if atom not in m.atoms:
        m.atoms.append(atom)
    return f"{variable}_s"


def _dtype(m: _Match, p: Pattern) -> str:
    variable = m.bound[p]
    _need_type(m, variable)
    atom = f"(= {variable}_d (ty-dtype {variable}_t))"
    if atom not in m.atoms:
        m.atoms.append(atom)
    return f"{variable}_d"


def _need_type(m: _Match, variable: str) -> None:
    atom = f"(= {variable}_t (ty {variable}))"
    if atom not in m.atoms:
        m.atoms.append(atom)


def _guard_types(m: _Match, r: Rule) -> None:
    group = GROUPS_OF[r.dtypes]
    tensors = [v for p, v in m.bound.items() if isinstance(p, Tensor)]
    checked = [v for v in tensors if v not in m.index_operands]
    if not checked:
        checked = [v for p, v in m.bound.items() if isinstance(p, Apply)][:1]
    for v in checked:
        _need_type(m, v)
        m.atoms.append(f"(= {v}_d (ty-dtype {v}_t))")
        if group is not None:
            m.atoms.append(f"(dtype-in {group} {v}_d)")
    m.dtype = f"{checked[0]}_d"


def _guard(m: _Match, g: Guard) -> None:
    if g.kind.form is Form.DTYPE:
        left, right = (_dtype(m, p) for p in g.patterns)
        m.atoms.append(f"(= {left} {right})")
        return
    if g.kind.form is not Form.TYPE:
        assert isinstance(g.args[0], Pattern)
        m.atoms.append(VALUE_ATOMS[g.name].format(v=m.bound[g.args[0]]))
        return
    args = " ".join(_argument(m, a) for a in g.args)
    if g.name == "same_shape":
        left, right = args.split()
        m.atoms.append(f"(= {left} {right})")
        return
    demand = guard_demand(m.interner, g.name, len(g.args))
    m.demands[demand.key] = demand
    m.questions[f"({demand.want} {args})"] = f"(yes-{g.name} {args})"


def _argument(m: _Match, a: Pattern | AttrTerm) -> str:
    if isinstance(a, Pattern):
        return _shape(m, a)
    if isinstance(a, Attribute):
        return f"A_{a.name}"
    if isinstance(a, Computed):
        return _function(m, a)
    return str(m.interner.attr(a))


def _function(m: _Match, f: Computed) -> str:
    """Return the variable that holds what a function computes; asks for it."""
    args = " ".join(_argument(m, a) for a in f.args)
    demand = function_demand(m.interner, f.function, len(f.args))
    m.demands[demand.key] = demand
    variable = f"f_{f.function}_{'_'.join(args.split())}"
    want = f"({demand.want} {args})"
    m.questions[want] = f"(= {variable} (fn-{f.function}-{len(f.args)} {args}))"
    return variable


@dataclass
class _Actions:
    """The right side of a rule, one `let` per node."""

    m: _Match
    rule: Rule
    number: int
    lines: list[str] = field(default_factory=list)
    built: dict[Pattern, str] = field(default_factory=dict)

    def build(self, p: Pattern) -> str:
        """Add the commands that make `p`; return what names it."""
        if isinstance(p, Tensor):
            return self.m.bound[p]
        if p not in self.built:
            self.built[p] = self._make(p)
        return self.built[p]

    def _make(self, p: Pattern) -> str:
        dtype = self.m.dtype
        match p:
            case Number(value):
                return f"(Num {self.m.interner.number(value)} {dtype})"
            case Scalar(value):
                return f"(Num A_{value.name} {dtype})"
            case Apply():
                return self._apply(p, 0)
            case Output(of, index) if isinstance(of, Apply):
                return f"(Out {self._apply(of, self.m.outputs[of.op])} {index})"
            case _:
                raise RuleError(f"{p} cannot be built")

    def _apply(self, p: Apply, outputs: int) -> str:
        operands = [self.build(a) for a in p.args]
        c = Constructor(p.op, len(p.args), outputs)
        given = dict(p.attrs)
        columns = [self._column(p, name, given) for name in c.columns]
        name = f"n{len(self.lines)}"
        self.lines.append(f"(let {name} {c.term(operands, columns)})")
        self.lines.append(f"(set (by-{c.term(operands, columns)[1:]} {self.number})")
        if any(g.name == "one_consumer" for g in self.rule.when):
            self.lines.append(f"(open {name})")
        return name

    def _column(self, p: Apply, name: str, given: Mapping[str, AttrTerm]) -> str:
        if name not in given:
            return _rest_column(self.m, p, name)
        term = given[name]
        if isinstance(term, Attribute):
            return f"A_{term.name}"
        if isinstance(term, Computed):
            return _function(self.m, term)
        if _counts_from_back(p.op, name, term):
            return _function(self.m, Computed("counted", (p.args[0], term)))
        return str(self.m.interner.attr(_typed(p.op, name, term)))


def groups(interner: Interner) -> Iterable[str]:
    """Return the facts that say which dtypes the groups of `dtypes` hold."""
    for d in DType:
        key = interner.dtype(d)
        if d.is_float:
            yield f"(dtype-in 0 {key})"
        if d.is_integer:
            yield f"(dtype-in {2 if d.value.startswith('u') else 1} {key})"
        if d is DType.BOOL:
            yield f"(dtype-in 3 {key})"
        if d.is_float or d.is_integer:
            yield f"(dtype-in 4 {key})"
