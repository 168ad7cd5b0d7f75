"""The page of the 149 rules: what each says, when it holds, what it saves and how sure it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from rule_costs import flops

from egraph_fusion import rulesets
from egraph_fusion.rulesets.guards import GUARDS, Form
from egraph_fusion.rulesets.prove import prove
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.schemas import OPERATOR_CLASSES, OPERATOR_PAIRS

USES = Path(__file__).parent / "rule_uses.json"
SHAPES = 3
"""Shapes in which the page's proofs are made, for every operator of a schema."""

HEAD = """# The 149 rules

Generated from `rulesets.ALL` by `make docs`; `egraph-fusion rules list` and `rules show NAME` print
the same rules. Identities (inverses that cancel among them), no-ops, changes of layout and the
joining of operators that share an operand are further rules in `rulesets/structural.py`, and laws
read from right to left (sums taken apart) in `rulesets/expansions.py`; neither are counted here.
Constant folding is done by the engine.

- **formula**: `a => b` rewrites left to right, `a <=> b` both ways. In a schema, `?f:class` stands
  for every operator of a class, `?f:class.0` and `?f:class.1` for the two of a pair that change
  places; the classes are listed below.
- **guards**: what has to hold of the operands; analysis proves it, or the rule does not fire.
  `constant`, `varying`, `one_consumer` and those *for gain* say where a rule pays.
- **dtypes**: what the claim is made for; *numeric* is floats and integers.
- **level**: *exact*: bit for bit. *finite*: equal over the reals, and in floating point to rounding
  error where every intermediate is finite (a maximum of nothing, minus infinity in ONNX, is not).
- **FLOPs**: left and right side where the verifier tries the rule on the most work (its shapes are
  small), equal terms counted once, what is computed of constants not at all, of a schema the first
  operator. Where they are equal, a rule saves by what it makes possible, bytes or operators.
- **shown**: *proven*: both sides are one rational function of the elements, in any shape. *proven
  in shapes*: that in the shapes tried. *tested*: by random operands against exact arithmetic.
  All are tested too: `egraph-fusion rules verify`.
- **uses**: in how many of the {models} models of the last count (nets of the zoos, collected
  models, faults of other optimisers, ONNX's light models and PyTorch tests) the result owes the
  rule something: it made a node of the result, or it belongs to a smallest set of rules that
  reaches a result as good (without one of them, FLOPs, bytes or operators are more). In brackets:
  in how many of the {small} models for which such a set was looked for it holds the rule. A dash
  says that no use was found, mostly since the left side occurs in none of these models, which
  exporters left lean; then the witness speaks for the rule.
  {found}
- **rule**: the name leads to the rule's witness, a small graph as networks hold it that the whole
  pipeline leaves dearer without the rule. `python tests/rule_witness.py NAME` prints both costs and
  results; `tests/test_witnesses.py` holds it for every rule.

No rule but the ten printed in the paper follows from the other 148 and the structural ones within
three iterations: `python tests/rule_derivation.py` says so rule by rule and
`tests/test_rule_counts.py` holds it. Of those ten, `abs-around-product`, `sum-shared-product` and
`square-less-multiple` do follow. `python benchmarks/rule_uses.py docs/rule_uses.json MODELS` counts
the uses; the file names the models.

Of the 120 equalities published with TENSAT (after TASO), all hold, four of them only where joined
groups have equally many filters, which typing does not ask for; our verifier accepts each with its
shape conditions. 67 differ by more than names and the order and grouping of sums and products.
The right sides of 67 of those (100 %) are reached by our rules and the structural ones from the
left side alone, within the default limits; the left sides of 56 (84 %) from the right side alone.
`python tests/taso_derivation.py` prints both figures and what does not follow;
`tests/test_taso_rules.py` holds them.

[growth.md](growth.md) has what the rules cost and gain on the models (`python
benchmarks/growth.py`), [verification.md](verification.md) how many wrong rules the verifier
refutes (`python -m egraph_fusion.rulesets.mutation`).
"""


def shown(rule: Rule) -> str:
    """Say how the rule is known to be right."""
    proof = prove(rule, shapes=SHAPES)
    if proof is None:
        return "tested"
    return "proven" if proof.every_shape and proof.domain else "proven in shapes"


@dataclass(frozen=True, slots=True)
class Tally:
    """In how many models a rule has a use, and in how many a smallest set of rules holds it."""

    models: int
    needed: int

    def __str__(self) -> str:
        """Print as a cell."""
        return f"{self.models} ({self.needed})" if self.models else "-"


def tallies(counted: dict[str, dict[str, Any]]) -> dict[str, Tally]:
    """Return the tally of every rule of the 149 from what was counted, model by model."""
    return {
        r.name: Tally(
            sum(r.name in m["made"] or r.name in (m["needed"] or ()) for m in counted.values()),
            sum(r.name in (m["needed"] or ()) for m in counted.values()),
        )
        for r in rulesets.ALL
    }


def found(uses: dict[str, Tally]) -> str:
    """Say how many rules have uses."""
    models = sum(t.models > 0 for t in uses.values())
    needed = sum(t.needed > 0 for t in uses.values())
    return f"{models} of the 149 rules have uses, {needed} of them in a smallest set."


def row(rule: Rule, uses: dict[str, Tally]) -> str:
    """One row of a family's table."""
    arrow = "<=>" if rule.both else "=>"
    guards = ", ".join(f"`{g}`" for g in rule.guards)
    before, after = flops(rule)
    cells = (
        f"[`{rule.name}`](../rulesets/witnesses/{rule.name}.txt)",
        rule.schema,
        f"`{rule.lhs} {arrow} {rule.rhs}`",
        guards,
        rule.dtypes,
        rule.level,
        f"{before} → {after}",
        shown(rule),
        str(uses[rule.name]),
        rule.source,
    )
    return f"| {' | '.join(cells)} |"


def family_table(family: str, uses: dict[str, Tally]) -> Iterator[str]:
    """Lines of one family's section."""
    rules = [r for r in rulesets.ALL if r.family == family]
    heads = ("rule", "schema", "formula", "guards", "dtypes", "level", "FLOPs", "shown", "uses")
    yield f"\n## {family.capitalize()} ({len(rules)})\n"
    yield f"| {' | '.join((*heads, 'source'))} |\n|{'---|' * (len(heads) + 1)}"
    yield from (row(r, uses) for r in rules)


def class_lines() -> Iterator[str]:
    """Lines of the section on operator classes."""
    yield "\n## Classes of operators\n"
    text = "\n".join(str(r) for r in rulesets.ALL)
    pairs = {n: tuple(map(" with ".join, p)) for n, p in OPERATOR_PAIRS.items()}
    for name, members in (OPERATOR_CLASSES | pairs).items():
        if f":{name}" in text:
            yield f"- `{name}`: {', '.join(members)}"


FORMS = {
    Form.VALUE: "elements",
    Form.TYPE: "shapes and attributes",
    Form.DTYPE: "element types",
    Form.GRAPH: "the graph",
}
GUARDS_HEAD = """
## Guards

What is known of *elements* goes with every class of equal terms: bounds, by interval arithmetic,
and whether they are integers, by the laws of [operators.md](operators.md), from what constants hold
and what is claimed of inputs. It is found of one term of a class, and the others are equal to that
one over the reals, in floating point to rounding; in a run at level *exact*, bit for bit.

| guard | looks at | holds where |
|---|---|---|"""


def guard_lines() -> Iterator[str]:
    """Lines of the section on guards."""
    yield GUARDS_HEAD
    for name, kind in sorted(GUARDS.items()):
        meaning = " ".join((kind.test.__doc__ or "").split("\n\n")[0].split())
        operands = ", ".join(p.lstrip("_") for p in signature(kind.test).parameters)
        yield f"| `{name}({operands})` | {FORMS[kind.form]} | {meaning} |"


def rules_page() -> str:
    """The page of the 149 rules."""
    counted = json.loads(USES.read_text())
    uses = tallies(counted)
    families = dict.fromkeys(r.family for r in rulesets.ALL)
    small = sum(m["needed"] is not None for m in counted.values())
    head = HEAD.format(models=len(counted), small=small, found=found(uses))
    tables = [line for f in families for line in family_table(f, uses)]
    return "\n".join([head, *tables, *class_lines(), *guard_lines()]) + "\n"
