"""`compare_rulesets` and the commands `rules compare` and `explore`."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from small_models import dense, saved
from typer.testing import CliRunner

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.cli import app
from egraph_fusion.experiment.comparison import COLUMNS
from egraph_fusion.experiment.expressions import graph_of
from egraph_fusion.rulesets.catalogue import NAMED_SETS

A = ef.tensor("a", (4, 6))
B = ef.tensor("b", (4, 6))
C = ef.tensor("c", (4, 6))
SUM = graph_of([A * C + B * C], "sum").graph
MINE = """
from egraph_fusion import rulesets
a, b, c = rulesets.tensors("a b c")
factor = rulesets.rule("factor", a * c + b * c, (a + b) * c)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    (models / "deep").mkdir(parents=True)
    saved(dense(), models / "deep" / "dense.onnx")
    ef.save(SUM, models / "sum.onnx")
    (models / "broken.onnx").write_bytes(b"not a model")
    (models / "notes.txt").write_text("no model")
    return models


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, result.output


def test_every_model_meets_every_rule_set(folder: Path) -> None:
    found = ef.compare_rulesets({"none": [], "factor": ["mul-over-add", "mul-order"]}, folder)
    assert [(r.model, r.rules) for r in found.rows] == [
        (m, s) for m in ("broken.onnx", "deep/dense.onnx", "sum.onnx") for s in ("none", "factor")
    ]
    rows = {(r.model, r.rules): r for r in found.rows}
    none, factored = rows["sum.onnx", "none"], rows["sum.onnx", "factor"]
    assert (none.flops_before, none.flops) == (3 * 24, 3 * 24)
    assert (factored.flops_before, factored.flops) == (3 * 24, 2 * 24)
    assert (factored.nodes_before, factored.nodes) == (3, 2)
    assert factored.blocks == factored.blocks_before == 1
    assert none.enodes is not None
    assert factored.enodes is not None
    assert factored.enodes > none.enodes
    assert factored.seconds is not None
    assert factored.seconds > 0


def test_a_model_that_fails_is_a_row_with_its_reason(folder: Path) -> None:
    found = ef.compare_rulesets({"none": []}, folder)
    broken = found.rows[0]
    assert broken.model == "broken.onnx"
    assert "broken.onnx" in broken.error
    assert broken.flops is None
    assert "broken.onnx" in str(found).splitlines()[1]


def test_models_come_as_graphs_paths_protos_and_mappings(folder: Path) -> None:
    sets: dict[str, list[str]] = {"none": []}
    one = ef.compare_rulesets(sets, SUM).rows[0]
    assert one.model == "sum"
    several = ef.compare_rulesets(
        sets, [SUM, folder / "sum.onnx", str(folder / "sum.onnx"), dense()]
    )
    assert [r.flops for r in several.rows[:3]] == [72, 72, 72]
    named = ef.compare_rulesets(sets, {"mine": SUM})
    assert named.rows[0].model == "mine"


def test_the_table_prints_and_exports(folder: Path) -> None:
    found = ef.compare_rulesets(
        {"none": [], "a|b": ["mul-over-add", "mul-order"]}, folder / "sum.onnx"
    )
    lines = str(found).splitlines()
    assert lines[0].split()[:3] == ["model", "rules", "FLOPs"]
    assert "48 (-33.3%)" in lines[2]
    assert "3 -> 2" in lines[2]
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert tuple(rows[0]) == COLUMNS
    assert [r["flops"] for r in rows] == ["72", "48"]
    markdown = found.to_markdown().splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in markdown}) == 1
    assert json.loads(json.dumps(found.to_dict()))["rows"][1]["rules"] == "a|b"


def test_unusable_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(ef.RuleError, match="no rule is called 'nonsense'"):
        ef.compare_rulesets({"x": ["nonsense"]}, SUM)
    with pytest.raises(ef.ModelError, match="at least one rule set"):
        ef.compare_rulesets({}, SUM)
    with pytest.raises(ef.ModelError, match=r"no \.onnx file"):
        ef.compare_rulesets({"none": []}, tmp_path)


def test_named_sets_are_what_they_say() -> None:
    assert NAMED_SETS["all"] == rulesets.default_rules()
    assert set(NAMED_SETS["structural"]) == set(rulesets.STRUCTURAL)
    printed = set(NAMED_SETS["paper"]) - set(rulesets.STRUCTURAL)
    assert len(printed) == 10
    families = ("associative", "distributive", "commutative")
    assert [len(NAMED_SETS[f]) - len(rulesets.STRUCTURAL) for f in families] == [45, 38, 66]


def test_rules_compare_prints_named_sets_and_files(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)
    out = tmp_path / "table.csv"
    code, text = run(
        "rules", "compare", folder / "sum.onnx", "--rules", "none", "--rules", mine,
        "--json", "--csv", out, "--markdown", tmp_path / "table.md",
    )  # fmt: skip
    rows = json.loads(text)["rows"]
    assert code == 0
    assert [(r["rules"], r["flops"]) for r in rows] == [("none", 72), (str(mine), 48)]
    assert len(out.read_text().splitlines()) == 3
    assert (tmp_path / "table.md").read_text().startswith("| model |")


def test_rules_compare_fails_where_a_model_does(folder: Path) -> None:
    code, text = run("rules", "compare", folder, "--rules", "none")
    assert code == 1
    assert "broken.onnx" in text
    code, text = run("rules", "compare", folder, "--rules", "nonsense")
    assert code == 2


def test_explore_shows_a_model_and_writes_its_page(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, text = run("explore", folder / "sum.onnx", "--html", page)
    assert code == 0
    assert "mul-over-add" in text
    assert page.read_text().startswith("<!DOCTYPE html>")
    code, text = run("explore", folder / "sum.onnx", "--json", "--rules", "paper")
    data = json.loads(text)
    assert data["stop_reason"] == "saturated"
    assert data["hits"]["mul-over-add"] > 0
    assert any(
        "((a + b) * c)" in c["terms"] or "(c * (a + b))" in c["terms"] for c in data["classes"]
    )


def test_explore_answers_why_and_why_not(folder: Path) -> None:
    same = folder / "same.onnx"
    ef.save(graph_of([A * C + B * C, (A + B) * C], "same").graph, same)
    graph = ef.load(same)
    code, text = run("explore", same, "--why", *graph.outputs)
    assert code == 0
    assert "mul-over-add" in text
    code, text = run("explore", same, "--why-not", "sqrt-product", "--json")
    assert code == 0
    (miss,) = json.loads(text)
    assert (miss["kind"], miss["fired"]) == ("operand", False)
    assert "the rule wants sqrt(a)" in miss["reasons"][0]
    code, text = run("explore", same, "--why", "a", "b")
    assert code == 1
