"""The page on one model says what optimising, planning and running it say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from browser import needs_browser, render, screenshot
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

import egraph_fusion as ef
from egraph_fusion.cli import app
from egraph_fusion.convert.model_report import ModelReport, examine, unfused
from egraph_fusion.convert.peaks import measure_peaks
from egraph_fusion.convert.report_page import page

NAME = "<img src=x onerror='document.title=1'>"


def model(rows: int | str = 64) -> bytes:
    """Two products that share an operand, x @ a + x @ b, a hostile name, and a softmax."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((32, 16)).astype(np.float32), n) for n in "ab"
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["p"], name=NAME),
        helper.make_node("MatMul", ["x", "b"], ["q"]),
        helper.make_node("Add", ["p", "q"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"], axis=-1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 32])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 16])
    graph = helper.make_graph(nodes, "two products", [x], [y], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(made.SerializeToString())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model as a file."""
    found = tmp_path_factory.mktemp("model") / "two & products.onnx"
    found.write_bytes(model())
    return found


@pytest.fixture(scope="module")
def found(path: Path) -> ModelReport:
    """What is known of it."""
    return examine(path, threads=2)


def test_the_page_agrees_with_optimize_plan_and_profile(path: Path, found: ModelReport) -> None:
    direct = ef.optimize(ef.load(path))
    assert found.optimized.report.flops_after == direct.report.flops_after
    assert found.optimized.report.growth == direct.report.growth
    assert len(found.after.blocks) == len(ef.plan(direct.graph).blocks)
    assert found.measured is not None
    launches = ef.compile(path, threads=2).profile()
    assert [s.nodes for s in found.measured.after] == [s.nodes for s in launches]
    assert [len(s.nodes) for s in found.measured.before] != []


def test_two_products_become_one_and_the_page_says_by_which_rule(found: ModelReport) -> None:
    before, after = found.operators
    assert (before["MatMul"], after["MatMul"]) == (2, 1)
    report = found.optimized.report
    product = 2 * 64 * 32 * 16
    assert report.contraction_flops_before == 2 * product
    assert report.contraction_flops_after == product
    # The sum; a softmax subtracts, exponentiates, divides, and reduces rows of 16 twice.
    rest = (64 * 16, 3 * 64 * 16 + 2 * 64 * 15)
    assert (report.flops_before, report.flops_after) == (2 * product + sum(rest), product + rest[1])
    text = page(found)
    for rule in report.rule_uses:
        assert rule in text
    assert "FLOPs</dt><dd>137.1k → 70.53k (-48.6%)" in text


def test_the_unfused_plan_has_a_launch_for_each_node(path: Path) -> None:
    graph = ef.load(path)
    plan = unfused(graph)
    plan.check()
    assert [len(b.nodes) for b in plan.blocks] == [1] * len(graph.nodes)


def test_symbolic_shapes_are_described_but_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "symbolic.onnx"
    path.write_bytes(model("rows"))
    unmeasured = examine(path)
    assert unmeasured.measured is None
    assert unmeasured.why_unmeasured == "the shape of input 'x' is not fixed"
    assert "Not measured: the shape of input" in page(unmeasured)
    assert examine(path, shapes={"x": (4, 32)}).measured is not None


def test_names_of_a_model_stay_text(found: ModelReport) -> None:
    text = page(found)
    assert "<img" not in text
    assert "&lt;img" in text


def test_nothing_is_written_where_a_page_cannot_be(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ef.ModelError, match="is a directory"):
        ef.report(path, tmp_path)
    with pytest.raises(ef.ModelError, match="there is no folder"):
        ef.report(path, tmp_path / "absent" / "page.html")
    assert not list(tmp_path.iterdir())


def test_command(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    command = ["report", str(path), "-o", str(out), "--no-measure", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    assert data["blocks_after"] == len(ef.plan(ef.optimize(ef.load(path)).graph).blocks)
    assert data["output"] == str(out)
    assert "Not measured: it was not asked for" in out.read_text(encoding="utf-8")


def test_peaks_are_those_of_a_machine_of_today() -> None:
    found = measure_peaks(1)
    assert 1e8 < found.flops < 1e13
    assert 1e8 < found.bandwidth < 1e13
    assert found.threads == 1


@needs_browser
@pytest.mark.browser
def test_a_browser_shows_the_page_without_errors(found: ModelReport, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(found), encoding="utf-8")
    shown = render(file, tmp_path)
    assert shown.messages == ()
    assert "<title>two &amp; products.onnx</title>" in shown.dom
    assert len(re.findall(r'<rect[^>]*class="box', shown.dom)) >= 4
    screenshot(file, tmp_path / "page.png")


@needs_browser
@pytest.mark.browser
def test_tables_sort_and_filter_in_a_browser(found: ModelReport, tmp_path: Path) -> None:
    script = """
    <script>
    const boxes = [...document.querySelectorAll(".filterable")];
    const operators = boxes.find((b) => b.textContent.includes("Softmax"));
    operators.querySelectorAll("th")[1].click();
    const first = operators.querySelector("tbody tr").cells[1].textContent;
    operators.querySelectorAll("th")[1].click();
    const last = operators.querySelector("tbody tr").cells[1].textContent;
    const input = operators.querySelector("input");
    input.value = "soft";
    input.dispatchEvent(new Event("input"));
    const left = [...operators.querySelectorAll("tbody tr")].filter((r) => !r.hidden);
    document.title = [first, last, left.length, left[0].cells[0].textContent].join(" ");
    </script></body>"""
    file = tmp_path / "page.html"
    file.write_text(page(found).replace("</body>", script), encoding="utf-8")
    before, _ = found.operators
    counts = [*before.values(), *(0 for _ in found.operators[1] - before)]
    shown = render(file, tmp_path)
    assert f"<title>{min(counts)} {max(counts)} 1 Softmax</title>" in shown.dom
