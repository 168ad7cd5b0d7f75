"""The public names: all there, cheap to import, each with a signature that the design fixes."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path

import pytest
from small_models import ROOT, cli, dense, fresh, saved

import egraph_fusion as ef

SIGNATURES = {
    "load": ("source",),
    "optimize": (
        "graph", "rules", "without", "numerics", "extractor", "cost", "time_limit", "node_limit",
        "iter_limit",
    ),
    "plan": ("graph", "planner", "profile"),
    "save": ("graph", "path", "functions"),
    "compile": ("source", "target", "threads", "numerics", "optimize", "shapes"),
    "load_compiled": ("path",),
    "emit_c": ("source", "folder"),
    "bench": ("model", "against"),
    "batch": ("sources", "out", "jobs", "cluster", "resume", "check"),
    "tensor": ("name", "shape", "dtype", "lo", "hi"),
    "constant": ("name", "value", "dtype"),
    "explore": ("what", "rules"),
    "compare_rulesets": ("rulesets", "models"),
}  # fmt: skip
REPORT = (
    "flops_before", "flops_after", "contraction_flops_before", "contraction_flops_after",
    "other_flops_before", "other_flops_after", "ops_before", "ops_after", "bytes_before",
    "bytes_after", "iterations", "eclasses", "enodes", "saturated", "stop_reason", "rule_hits",
    "rule_uses", "extraction_gap", "assumptions", "seconds",
)  # fmt: skip


@pytest.mark.parametrize("name", ef.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(ef, name) is not None
    assert name in dir(ef)


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_come_in_the_fixed_order(name: str) -> None:
    parameters = tuple(inspect.signature(getattr(ef, name)).parameters)
    assert parameters[: len(SIGNATURES[name])] == SIGNATURES[name]


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_function_says_what_it_does(name: str) -> None:
    assert len(inspect.getdoc(getattr(ef, name)) or "") > 40


def test_every_error_has_the_one_base() -> None:
    errors = [getattr(ef, n) for n in ef.__all__ if n.endswith("Error")]
    assert len(errors) > 4
    assert all(issubclass(e, ef.EgraphFusionError) for e in errors)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        ef.nonsense  # noqa: B018


def test_a_report_holds_what_the_design_names() -> None:
    report = ef.optimize(ef.load(dense())).report
    assert [n for n in REPORT if not hasattr(report, n)] == []
    assert json.loads(json.dumps(report.to_dict()))["flops_before"] == report.flops_before


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(fresh([sys.executable, "-c", code]).stdout.split())


def test_importing_the_package_loads_neither_numpy_nor_onnx() -> None:
    assert not modules_after("import egraph_fusion") & {"numpy", "onnx", "egglog", "rich", "typer"}


def test_help_of_the_command_line_loads_no_library_of_numbers() -> None:
    assert not modules_after("import egraph_fusion.cli") & {"numpy", "onnx", "egglog"}


def test_importing_the_package_loads_few_modules() -> None:
    # What its time depends on, and no clock beside other work could say.
    plain = modules_after("pass")
    assert len(modules_after("import egraph_fusion") - plain) < 40


def test_the_version_is_that_of_the_project() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{ef.__version__}"' in text


def test_commands_keep_standard_output_for_results(tmp_path: Path) -> None:
    done = cli("plan", saved(dense(), tmp_path / "m.onnx"), "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["planner"] == "extended"
