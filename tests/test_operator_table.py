"""The committed table of operators is the registry's."""

from pathlib import Path

from egraph_fusion.ir.ops.table import operators_table


def test_operator_table_is_current() -> None:
    committed = Path(__file__).parent.parent / "docs" / "operators.md"
    assert committed.read_text(encoding="utf-8") == operators_table()
