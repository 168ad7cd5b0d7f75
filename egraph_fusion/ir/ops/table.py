"""The registry as a table for readers: docs/operators.md."""

from __future__ import annotations

from egraph_fusion.ir.ops import OPERATORS, Kind, Law, Operator
from egraph_fusion.ir.ops.operator import Attr

_HEADER = """# Operators

Generated from the registry by `make docs`;
{count} operators are declared. Any other operator is *opaque*: carried unchanged and run
by the fallback.

*Meaning* says from what kernels are generated: a scalar function, an index map, a combined scalar
operator, a body of other operators, or a kernel of its own. Attributes are those after import;
what older or newer opsets have as an operand is an attribute here. *Integer*: every finite result
is an integer, *integer preserving*: it is one of integers, attributes among them; movement and
lookup are that, too.
"""


_COLUMNS = "| operator | operands | attributes | meaning | laws |\n|---|---|---|---|---|"


def operators_table() -> str:
    """Return the registry as Markdown, one table per family."""
    parts = [_HEADER.format(count=len(OPERATORS))]
    for kind in Kind:
        rows = [_row(o) for _, o in sorted(OPERATORS.items()) if o.kind is kind]
        if rows:
            parts.append(f"## {kind.value.capitalize()}\n")
            parts.append(
                "| operator | operands | attributes | meaning | laws |\n|---|---|---|---|---|"
            )
            parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(operator: Operator) -> str:
    attrs = ", ".join(_attribute(a) for a in operator.attrs)
    laws = ", ".join(_law(law) for law in Law if law in operator.laws)
    return f"| {operator.name} | {_arity(operator)} | {attrs} | {_meaning(operator)} | {laws} |"


def _arity(operator: Operator) -> str:
    least, most = operator.arity
    if most is None:
        return f"{least} or more"
    return str(least) if least == most else f"{least} to {most}"


def _attribute(attr: Attr) -> str:
    return f"`{attr.name}`" if attr.default is None else f"`{attr.name}={attr.default!r}`"


def _law(law: Law) -> str:
    return str(law.name).lower().replace("_", " ")


def _meaning(operator: Operator) -> str:
    if operator.body is not None:
        return "body"
    if operator.scalar is not None:
        return "scalar"
    if operator.pull is not None:
        return "index map"
    return "combined" if operator.reduction is not None else "own kernel"
