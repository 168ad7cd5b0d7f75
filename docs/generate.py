"""Write the pages of docs/ that come from tables; with --check, only say if they are current."""

import sys
from collections.abc import Iterator
from pathlib import Path

from egraph_fusion.ir.ops import OPERATORS, Kind, Law, Operator

FOLDER = Path(__file__).parent
HEAD = """# Operators

Generated from the registry by `make docs`. Any other operator is carried through unchanged and
executed by the ONNX reference implementation.
"""


def operands(operator: Operator) -> str:
    """Say how many tensor operands an operator takes."""
    low, high = operator.arity
    if high is None:
        return f"{low} or more"
    return str(low) if low == high else f"{low} to {high}"


def laws(operator: Operator) -> str:
    """Name an operator's laws."""
    names = (law.name or "" for law in Law if law in operator.laws and law is not Law.NONE)
    return ", ".join(name.lower().replace("_", " ") for name in names)


def table(kind: Kind) -> Iterator[str]:
    """Lines of one family's section."""
    family = sorted((o for o in OPERATORS.values() if o.kind is kind), key=lambda o: o.name)
    yield f"\n## {kind.value.capitalize()} ({len(family)})\n"
    yield "| operator | operands | attributes | laws |\n|---|---|---|---|"
    for o in family:
        attributes = ", ".join(f"`{a.name}`" for a in o.attrs)
        yield f"| {o.name} | {operands(o)} | {attributes} | {laws(o)} |"


def operators_page() -> str:
    """The page of all declared operators."""
    used = {o.kind for o in OPERATORS.values()}
    lines = [HEAD, f"{len(OPERATORS)} are declared."]
    return "\n".join([*lines, *(line for k in Kind if k in used for line in table(k))]) + "\n"


PAGES = {"operators.md": operators_page}


def main(arguments: list[str]) -> int:
    """Write or check every page; 1 if one is not current."""
    stale = [
        n
        for n, page in PAGES.items()
        if not (FOLDER / n).exists() or (FOLDER / n).read_text() != page()
    ]
    if arguments == ["--check"]:
        for name in stale:
            print(f"docs/{name} is not current: run make docs")
        return bool(stale)
    for name in stale:
        (FOLDER / name).write_text(PAGES[name]())
        print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
