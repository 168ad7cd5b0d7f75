"""Rules as egglog text: a question rule that asks Python, and the rewrite that uses the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import product

from egraph_fusion.egraph.demand import Demand, number_text
from egraph_fusion.egraph.gathering import exchanges, gathers
from egraph_fusion.egraph.interning import Interner
from egraph_fusion.egraph.language import Constructor
from egraph_fusion.egraph.range_check import ASKED, Values, accumulates, range_demand, range_of
from egraph_fusion.egraph.rule_match import (
    Match,
    add_guard,
    ask_function,
    check_dtypes,
    counted_axes,
    in_declared_kind,
    match_term,
    number_dtype,
    rest_column,
)
from egraph_fusion.errors import RuleError
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.guards import GUARDS, Form, GuardKind
from egraph_fusion.rulesets.guards_operands import range_of_integers
from egraph_fusion.rulesets.number_sizes import unsaid
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
from egraph_fusion.rulesets.term_dtypes import Source, number_source, source


@dataclass(frozen=True, slots=True)
class RuleText:
    """One direction of one rule as commands.

    `ruleset` holds the rewrite, `asks` the questions.  Matches are counted by `label`: a rule has
    several texts where its operators have several numbers of outputs.
    """

    rule: Rule
    ruleset: str
    label: str
    commands: tuple[str, ...]
    demands: tuple[Demand, ...]


class Checks(Enum):
    """How it is seen to that what a rule makes stays within the range of its dtype."""

    NONE = "none"
    CALM = "calm"
    ASKED = "asked"

    @property
    def mark(self) -> str:
        """What tells the rule's second text from its first: the end of its name."""
        return ASKED if self is Checks.ASKED else ""


def checks_of(r: Rule, values: Values | None) -> tuple[Checks, ...]:
    """Return the ways in which a rule fires: on calm operands at once, on others after asking.

    No value of a graph that is all calm needs asking, save what rules multiply along axes; in
    float16 few products stay calm.  None checks nothing.
    """
    if values is None or r.level == "exact":
        return (Checks.NONE,)
    if accumulates(r, values.half):
        return (Checks.ASKED,)
    return (Checks.CALM, Checks.ASKED) if values.wild or values.half else (Checks.CALM,)


def rule_text(
    r: Rule, number: int, outputs: Mapping[str, int], interner: Interner, checks: Checks
) -> RuleText:
    """Return one direction of `r` as egglog text.

    `number` identifies the rule in provenance tables; `outputs` gives the number of outputs of
    operators that stand under an index.  With `checks`, the rule fires only where no operand
    depends on constants so large that a new intermediate might overflow.
    """
    r = replace(r, name=r.name + checks.mark) if checks.mark else r
    m = Match(interner, outputs)
    root = match_term(m, r.lhs)
    matched = m.atoms[-1].removeprefix(f"(= {root} ").removesuffix(")")
    if r.dtypes != "any" and not exchanges(r):
        # Constants are folded: only movement, and sides of an operator, need one form in them.
        m.atoms.append(f"(varies {root})")
    m.atoms += _distinct(m, r)
    check_dtypes(m, r)
    _check_ranges(m, r, number, checks)
    for g in (*r.when, *unsaid(r.lhs)):
        add_guard(m, g)
    if isinstance(r.rhs, Tensor):  # a broadcast operand, say, may make the left side larger
        m.atoms += [f"(= {root}_t (ty {root}))", f"(= {root}_t (ty {m.bound[r.rhs]}))"]
    actions = _Actions(m, r, number)
    result = actions.build(r.rhs, source(r.lhs, m.bound))
    actions.lines.append(f"(pending {number} {root} {result})")
    if not isinstance(r.rhs, Apply | Output):
        actions.lines.append(f"(joined {root} {number})")
    if gathers(r):
        actions.lines.append(f"(subsume {matched})")
    body = " ".join(m.atoms)
    answers = " ".join(m.questions.values())
    ruleset = f"rule-{number}"
    commands = [f"(ruleset {ruleset})"]
    if m.questions:
        wants = " ".join(m.questions)
        commands.append(f'(rule ({body}) ({wants}) :ruleset asks :name "asks {r.name} {number}")')
    act = " ".join(actions.lines)
    label = f"{r.name} {number}"
    commands.append(f'(rule ({body} {answers}) ({act}) :ruleset {ruleset} :name "{label}")')
    return RuleText(r, ruleset, label, tuple(commands), tuple(m.demands.values()))


def _check_ranges(m: Match, r: Rule, number: int, checks: Checks) -> None:
    if checks is Checks.NONE:
        return
    operands = {p.name: v for p, v in m.bound.items() if isinstance(p, Tensor)}
    if checks is Checks.CALM:
        m.atoms += [f"(steady {v})" for v in operands.values()]
        return
    m.atoms += [f"(tame {v})" for v in operands.values()]
    demand = range_demand(m.interner, r, number, list(operands))
    m.demands[demand.key] = demand
    for v in operands.values():
        m.atoms += [f"(= {v}_lo (lo {v}))", f"(= {v}_hi (hi {v}))", f"(= {v}_t (ty {v}))"]
    row = " ".join(f"{v}_lo {v}_hi {v}_t" for v in operands.values())
    m.questions[f"({demand.want} {row})"] = f"(yes-range-{number} {row})"


def _distinct(m: Match, r: Rule) -> list[str]:
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


@dataclass
class _Actions:
    """The right side of a rule, one `let` per node."""

    m: Match
    rule: Rule
    number: int
    lines: list[str] = field(default_factory=list[str])
    built: dict[Pattern, str] = field(default_factory=dict[Pattern, str])

    def build(self, p: Pattern, above: Source) -> str:
        """Add the commands that make `p`; return what names it.

        `above` is what gives `p` its dtype if it is a number.
        """
        match p:
            case Tensor():
                return self.m.bound[p]
            case Number(value):
                number = self.m.interner.number(value)
                return f"(Num {number} {number_dtype(self.m, above)})"
            case Scalar(value):
                return f"(Num A_{value.name} {number_dtype(self.m, above)})"
            case _:
                if p not in self.built:
                    self.built[p] = self._make(p, above)
                return self.built[p]

    def _make(self, p: Pattern, above: Source) -> str:
        match p:
            case Apply():
                return self._apply(p, 0, above)
            case Output(of, index) if isinstance(of, Apply):
                return f"(Out {self._apply(of, self.m.outputs[of.op], above)} {index})"
            case _:
                raise RuleError(f"{p} cannot be built")

    def _apply(self, p: Apply, outputs: int, above: Source) -> str:
        bound = self.m.bound
        operands = [self.build(a, number_source(p, i, above, bound)) for i, a in enumerate(p.args)]
        c = Constructor(p.op, len(p.args), outputs)
        given = dict(p.attrs)
        columns = [self._column(p, name, given) for name in c.columns]
        name = f"n{len(self.lines)}"
        self.lines.append(f"(let {name} {c.term(operands, columns)})")
        self.lines.append(f"(set (by-{c.term(operands, columns)[1:]} {self.number})")
        regroups = any(g.name == "one_consumer" for g in self.rule.when)
        if p is not self.rule.rhs and (regroups or self.rule.expanding):
            self.lines.append(f"(open {name})")  # the root may have as many consumers as it had
        return name

    def _column(self, p: Apply, name: str, given: Mapping[str, AttrTerm]) -> str:
        if name not in given:
            return rest_column(self.m, p, name)
        term = given[name]
        if isinstance(term, Attribute):
            return f"A_{term.name}"
        if isinstance(term, Computed):
            return ask_function(self.m, term)
        front = counted_axes(p, name, term, self.m.bound)
        if front is not None:
            return ask_function(self.m, front)
        return str(self.m.interner.attr(in_declared_kind(p.op, name, term)))


def groups(interner: Interner) -> Iterable[str]:
    """Return the facts that say which dtypes the groups of `dtypes` hold."""
    for d in DType:
        key = interner.dtype(d)
        if d.is_float:
            yield f"(dtype-in 0 {key})"
            yield f"(set (calm-largest {key}) {number_text(range_of(d).calm.largest)})"
            yield f"(set (calm-smallest {key}) {number_text(range_of(d).calm.smallest)})"
        if d.is_integer:
            yield f"(dtype-in {2 if d.value.startswith('u') else 1} {key})"
        if d is DType.BOOL:
            yield f"(dtype-in 3 {key})"
        if d.is_float or d.is_integer:
            yield f"(dtype-in 4 {key})"
        integers = range_of_integers(d)
        if integers is not None:
            yield f"(dtype-in 5 {key})"
            yield f"(set (first-integer {key}) {number_text(integers[0])})"
            yield f"(set (end-of-integers {key}) {number_text(integers[1])})"


def dtype_guards(texts: Sequence[RuleText]) -> Sequence[GuardKind]:
    """Return the guards on two element types that rules use."""
    names = {g.name for t in texts for g in t.rule.when if g.kind.form is Form.DTYPE}
    return [GUARDS[n] for n in sorted(names - {"same_dtype"})]


def dtype_pairs(interner: Interner, guard: GuardKind) -> Iterable[str]:
    """Return the facts that say for which element types a guard holds."""
    for left, right in product(DType, DType):
        if guard.test(left, right):
            pair = f"{interner.dtype(left)} {interner.dtype(right)}"
            yield f"(dtypes-{guard.name} {pair})"
