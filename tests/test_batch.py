"""A batch: each model gets its output and its result; what goes wrong with one stays with it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from batch_folders import (
    by_name,
    contents,
    external,
    foreign,
    half,
    impossible,
    manifest,
    quantised,
    rewritable,
    saved_to,
    settled,
)
from onnx_models import info, model_of

import egraph_fusion as ef
from egraph_fusion.convert.batch.ledger import read_results
from egraph_fusion.convert.batch.options import BatchError
from egraph_fusion.convert.batch.results import BatchResult, Progress, Status
from egraph_fusion.frontend.inputs import example_inputs

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Done:
    """A batch that has run: its folders, results and progress, and its sources before it."""

    models: Path
    out: Path
    results: dict[str, BatchResult]
    progress: list[Progress]
    before: dict[str, str]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    """A folder of good, odd, broken, crashing and hanging models, converted with a fallback."""
    models, out = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("results") / "out"
    saved_to(models / "plain.onnx", rewritable())
    saved_to(models / "deep" / "er" / "same.onnx", settled())
    saved_to(models / "half.onnx", half())
    saved_to(models / "quantised.onnx", quantised())
    saved_to(models / "foreign.onnx", foreign())
    saved_to(models / "impossible.onnx", impossible())
    external(models / "ext", "outside.onnx", "data/w.bin")
    whole = rewritable().SerializeToString()
    (models / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (models / "empty.onnx").write_bytes(b"")
    (models / "text.onnx").write_text("no model")
    for name in ("crash", "hang", "bug"):
        saved_to(models / f"{name}.onnx", rewritable(2.0))
    os.mkfifo(models / "pipe.onnx")
    (models / "dangling.onnx").symlink_to(models / "nowhere")
    before = contents(models)
    progress: list[Progress] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("egraph_fusion.convert.batch.run.CONVERT", "batch_tasks:convert_or_crash")
        results = ef.batch(
            models, out, jobs=2, timeout=20.0, fallback="copy", progress=progress.append
        )
        yield Done(models, out, by_name(results), progress, before)


def ran(path: Path | str | None, feeds: Mapping[str, Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(str(path))
    return [np.asarray(a) for a in session.run(None, dict(feeds))]


@pytest.mark.parametrize(
    "name", ["plain.onnx", "same.onnx", "half.onnx", "quantised.onnx", "outside.onnx"]
)
def test_a_good_model_is_converted_and_computes_the_same(name: str, mixed: Done) -> None:
    result = mixed.results[name]
    assert (result.status, result.reason) == (Status.OK, "")
    place = Path(result.source).relative_to(mixed.models)
    assert result.output == str(mixed.out / place)
    onnx.checker.check_model(result.output or "")
    feeds = example_inputs(onnx.load(result.source), seed=5)
    want, got = ran(result.source, feeds), ran(result.output, feeds)
    for a, b in zip(want, got, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=1e-2 if name == "half.onnx" else 1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["same.onnx", "quantised.onnx", "foreign.onnx"])
def test_what_cannot_be_improved_goes_out_byte_for_byte(name: str, mixed: Done) -> None:
    result = mixed.results[name]
    assert result.status is Status.OK
    assert result.report["verbatim"]
    assert Path(result.output or "").read_bytes() == Path(result.source).read_bytes()


def test_a_report_has_the_figures_of_before_and_after(mixed: Done) -> None:
    result = mixed.results["plain.onnx"]
    assert (result.before("flops"), result.after("flops")) == (36, 12)
    assert (result.before("ops"), result.after("ops")) == (3, 1)
    assert (result.before("blocks"), result.after("blocks")) == (1, 1)
    assert result.report["worst_difference"] < 1e-6
    assert result.report["rule_uses"]
    assert result.seconds > 0
    assert result.peak_memory > 0


@pytest.mark.parametrize(
    ("name", "failure", "words"),
    [
        ("impossible.onnx", "refused", "bad_product"),
        ("cut.onnx", "refused", "damaged or cut off"),
        ("empty.onnx", "refused", "is empty"),
        ("text.onnx", "refused", "no ONNX model"),
        ("crash.onnx", "crash", "SIGSEGV"),
        ("hang.onnx", "time", "longer than 20 s"),
        ("bug.onnx", "bug", "KeyError"),
    ],
)
def test_a_bad_model_fails_alone_with_its_reason_and_log(
    name: str, failure: str, words: str, mixed: Done
) -> None:
    result = mixed.results[name]
    assert result.status is Status.COPIED
    assert result.failure == failure
    assert words in result.reason
    assert "\n" not in result.reason
    assert result.output == str(mixed.out / name)
    assert Path(result.output or "").read_bytes() == Path(result.source).read_bytes()
    assert words in Path(result.log or "").read_text()


@pytest.mark.parametrize(
    ("name", "words"), [("pipe.onnx", "no regular file"), ("dangling.onnx", "No such file")]
)
def test_what_is_no_file_fails_and_is_not_copied(name: str, words: str, mixed: Done) -> None:
    result = mixed.results[name]
    assert (result.status, result.output) == (Status.FAILED, None)
    assert words in result.reason
    assert not (mixed.out / name).exists()


def test_the_traceback_of_a_bug_is_in_the_log(mixed: Done) -> None:
    log = Path(mixed.results["bug.onnx"].log or "").read_text()
    assert "Traceback" in log
    assert "convert_or_crash" in log


def test_a_native_crash_leaves_its_stack_in_the_log(mixed: Done) -> None:
    assert "Segmentation fault" in Path(mixed.results["crash.onnx"].log or "").read_text()


def test_originals_are_untouched(mixed: Done) -> None:
    assert contents(mixed.models) == mixed.before


def test_the_output_folder_holds_the_results_and_the_books(mixed: Done) -> None:
    own = {str(Path(r.output).relative_to(mixed.out)) for r in mixed.results.values() if r.output}
    books = {"manifest.jsonl", "index.sqlite", "index.html", ".egraph-fusion.lock"}
    beside = ("logs/", ".egraph-fusion-details/")
    assert {n for n in contents(mixed.out) if not n.startswith(beside)} == own | books


def test_the_manifest_has_a_line_for_each_model(mixed: Done) -> None:
    lines = manifest(mixed.out)
    assert len(lines) == len(mixed.results)
    plain = next(x for x in lines if x["place"] == "plain.onnx")
    assert BatchResult.of(plain) == mixed.results["plain.onnx"]
    assert plain["inputs"][0]["sha256"] == mixed.before["plain.onnx"]
    outside = next(x for x in lines if x["place"] == "ext/outside.onnx")
    assert [Path(s["path"]).name for s in outside["inputs"]] == ["outside.onnx", "w.bin"]


def test_the_index_can_be_asked(mixed: Done) -> None:
    with sqlite3.connect(mixed.out / "index.sqlite") as index:
        rows = index.execute(
            "select place, flops_before, flops_after from results where status = 'ok' "
            "order by flops_before - flops_after desc, place limit 1"
        ).fetchall()
    index.close()
    assert rows[0][1:] == (36, 12)


def test_the_results_can_be_read_back(mixed: Done) -> None:
    assert by_name(read_results(mixed.out)) == mixed.results


def test_progress_counts_and_tells_the_stages(mixed: Done) -> None:
    last = mixed.progress[-1]
    assert last.done == last.total == len(mixed.results)
    assert last.counts == {"ok": 6, "copied": 7, "failed": 2}
    assert not last.working
    stages = {s for p in mixed.progress for s in p.working.values()}
    assert {"read", "load", "optimise", "plan", "write", "check"} <= stages
    assert [p.done for p in mixed.progress] == sorted(p.done for p in mixed.progress)
    assert all(len(p.working) <= 2 for p in mixed.progress)
    assert any(p.eta is not None and p.eta > 0 for p in mixed.progress)
    assert [p.result for p in mixed.progress if p.result] == list(mixed.results.values())


# Options


def test_without_a_fallback_a_failure_leaves_nothing(tmp_path: Path) -> None:
    models, out = tmp_path / "m", tmp_path / "o"
    saved_to(models / "bad.onnx", impossible())
    saved_to(models / "good.onnx", rewritable())
    found = by_name(ef.batch(models, out, jobs=1))
    assert found["bad.onnx"].status is Status.FAILED
    assert "node 'bad_product'" in found["bad.onnx"].reason
    assert str(models / "bad.onnx") in found["bad.onnx"].reason
    assert not (out / "bad.onnx").exists()
    assert found["good.onnx"].ok
    assert not (out / ".egraph-fusion-work").exists()


def test_a_wrong_result_is_found_and_not_written(tmp_path: Path) -> None:
    """A rule that is wrong stands for any fault of ours: the check is what catches it."""
    rules = tmp_path / "wrong.py"
    rules.write_text(
        "from egraph_fusion.rulesets import ops, rule, tensors\n"
        "a, b = tensors('a b')\n"
        "wrong = rule('wrong', ops.max(a, b), a)\n"
    )
    nodes = [onnx.helper.make_node("Max", ["x", "z"], ["y"], name="larger")]
    model = model_of(nodes, [info("x", [64]), info("z", [64])], [info("y", [64])])
    saved_to(tmp_path / "m" / "max.onnx", model)
    (result,) = ef.batch(tmp_path / "m", tmp_path / "o", jobs=1, rules=rules, verify=False)
    assert (result.status, result.stage) == (Status.FAILED, "check")
    assert "'y'" in result.reason
    assert not (tmp_path / "o" / "max.onnx").exists()
    unchecked = ef.batch(
        tmp_path / "m", tmp_path / "o", jobs=1, rules=rules, verify=False, check=False
    )
    assert [r.status for r in unchecked] == [Status.OK]
    with pytest.raises(ef.RuleError, match="wrong"):
        ef.batch(tmp_path / "m", tmp_path / "o", jobs=1, rules=rules)


def test_an_original_that_does_not_run_is_named_by_its_node(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Mul", ["x", "one"], ["p"], name="needless"),
        onnx.helper.make_node("Reshape", ["p", "shape"], ["y"], name="into_what"),
    ]
    inputs = [info("x", [2, 3]), info("shape", [2], onnx.TensorProto.INT64)]
    model = model_of(nodes, inputs, ["y"], {"one": np.ones((), np.float32)})
    saved_to(tmp_path / "m" / "a.onnx", model)
    (result,) = ef.batch(tmp_path / "m", tmp_path / "o", jobs=1)
    assert (result.status, result.stage) == (Status.FAILED, "check")
    assert "node 'into_what' (Reshape)" in result.reason


def test_targets_and_opset(tmp_path: Path) -> None:
    from small_models import dense, dense_inputs

    saved_to(tmp_path / "m" / "dense.onnx", dense())
    want = ran(tmp_path / "m" / "dense.onnx", dense_inputs(seed=3))
    (blocks,) = ef.batch(tmp_path / "m", tmp_path / "f", jobs=1, target="onnx-functions", opset=21)
    model = onnx.load(blocks.output or "")
    assert {e.domain: e.version for e in model.opset_import}[""] == 21
    assert model.functions
    onnx.checker.check_model(model)
    assert {n.domain for n in model.graph.node} >= {"egraph_fusion.blocks"}
    (compiled,) = ef.batch(tmp_path / "m", tmp_path / "c", jobs=1, target="c")
    assert compiled.output == str(tmp_path / "c" / "dense.efz")
    session = ef.load_compiled(compiled.output or "")
    sides = ran(blocks.output, dense_inputs(seed=3)), session.run(None, dense_inputs(seed=3))
    for got in sides:
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_symbolic_shapes_are_fixed_where_asked(tmp_path: Path) -> None:
    saved_to(tmp_path / "m" / "open.onnx", rewritable(rows="n"))
    saved_to(tmp_path / "m" / "other.onnx", settled())
    left_open = by_name(ef.batch(tmp_path / "m", tmp_path / "open", jobs=1, target="c"))
    assert "input 'x' is float32[n,4]" in left_open["open.onnx"].reason
    assert "--input-shape NAME=DIMS" in left_open["open.onnx"].reason
    run = ef.batch(tmp_path / "m", tmp_path / "o", jobs=1, target="c", input_shapes={"x": (2, 3)})
    failed = by_name(run)
    assert failed["open.onnx"].status is Status.FAILED  # its rows have 4 entries
    run = ef.batch(tmp_path / "m", tmp_path / "o", jobs=1, target="c", input_shapes={"x": (9, 4)})
    assert by_name(run)["open.onnx"].status is Status.OK


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "cuda"}, "onnx, onnx-functions, c"),
        ({"numerics": "sloppy"}, "finite"),
        ({"fallback": "pray"}, '"copy"'),
        ({"timeout": 0}, "seconds above 0"),
        ({"memory": "1M"}, "at least 512 MiB"),
        ({"jobs": 0}, "from 1"),
        ({"seeds": ()}, "at least one"),
        ({"opset": 0}, "from 1"),
        ({"tolerance": -1.0}, "from 0"),
        ({"without": ("nonsense",)}, "nonsense"),
        ({"rules": "absent.py"}, "absent.py"),
    ],
)
def test_an_impossible_option_is_refused_at_once(
    options: dict[str, object], words: str, tmp_path: Path
) -> None:
    saved_to(tmp_path / "m" / "a.onnx", settled())
    with pytest.raises(ef.EgraphFusionError, match=words):
        ef.batch(tmp_path / "m", tmp_path / "o", **options)  # type: ignore[arg-type]  # as a user may
    assert not (tmp_path / "o").exists()


def test_an_output_folder_belongs_to_one_batch_at_a_time(tmp_path: Path) -> None:
    saved_to(tmp_path / "m" / "a.onnx", settled())
    first = ef.batch(tmp_path / "m", tmp_path / "o", jobs=1)
    next(first)
    with pytest.raises(BatchError, match="another batch"):
        next(ef.batch(tmp_path / "m", tmp_path / "o", jobs=1))
    assert not list(first)


def test_a_link_in_the_output_folder_leads_nowhere(tmp_path: Path) -> None:
    saved_to(tmp_path / "m" / "sub" / "a.onnx", settled())
    saved_to(tmp_path / "m" / "b.onnx", settled())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "sub").symlink_to(tmp_path / "elsewhere")
    found = by_name(ef.batch(tmp_path / "m", tmp_path / "o", jobs=1, fallback="copy"))
    assert found["a.onnx"].status is Status.FAILED
    assert "leads out of the output folder" in found["a.onnx"].reason
    assert found["b.onnx"].ok
    assert not list((tmp_path / "elsewhere").iterdir())


def test_cancelling_skips_the_rest_and_a_later_run_goes_on(tmp_path: Path) -> None:
    for n in range(6):
        saved_to(tmp_path / "m" / f"{n}.onnx", rewritable(n))
    cancel = threading.Event()
    found: list[BatchResult] = []
    for result in ef.batch(tmp_path / "m", tmp_path / "o", jobs=1, check=False, cancel=cancel):
        found.append(result)
        cancel.set()
    statuses = [str(r.status) for r in found]
    done = statuses.count("ok")
    assert len(found) == 6
    assert 1 <= done < 6
    assert statuses.count("skipped") == 6 - done
    assert len(manifest(tmp_path / "o")) == done
    again = ef.batch(tmp_path / "m", tmp_path / "o", jobs=1, check=False)
    assert [str(r.status) for r in again] == ["unchanged"] * done + ["ok"] * (6 - done)
