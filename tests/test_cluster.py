"""Tasks and batches on a real Dask cluster of this machine, workers killed under them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from batch_folders import by_name, contents, impossible, rewritable, saved_to, settled
from small_models import ROOT

import egraph_fusion as ef
from egraph_fusion.convert.executors import cluster as module
from egraph_fusion.convert.executors.cluster import DaskCluster
from egraph_fusion.convert.executors.tasks import Failure, Limits, Outcome, Stage, Task
from egraph_fusion.convert.verification import verify_on

pytestmark = [
    pytest.mark.cluster,
    # What Dask, tornado and asyncio leave open when a cluster ends is not ours to close.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
distributed = pytest.importorskip("distributed")

LIMITS = Limits(60, 1 << 30)


def task(function: str, name: str = "", limits: Limits = LIMITS, **request: Any) -> Task:
    return Task(name or function, f"executor_tasks:{function}", request, limits)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskCluster]:
    """Two worker processes that all tests of this module share, as they share one of users."""
    found = DaskCluster("local", jobs=2)
    yield found
    found.close()


def events(
    cluster: DaskCluster, tasks: Sequence[Task], stop: threading.Event | None = None
) -> list[Stage | Outcome]:
    return list(cluster.run(tasks, stop or threading.Event()))


def outcomes(found: Sequence[Stage | Outcome]) -> dict[str, Outcome]:
    return {e.task: e for e in found if isinstance(e, Outcome)}


def test_tasks_are_shared_and_their_stages_come_through(cluster: DaskCluster) -> None:
    assert cluster.slots == 2
    found = events(cluster, [task("double", f"t{n}", n=n) for n in range(8)])
    replies = {name: (o.reply or {})["n"] for name, o in outcomes(found).items()}
    assert replies == {f"t{n}": 2 * n for n in range(8)}
    assert Stage("t3", "doubling") in found


def test_failures_are_those_of_local_processes(cluster: DaskCluster, tmp_path: Path) -> None:
    tasks = [
        task("refuse"),
        task("fault"),
        task("crash", count=str(tmp_path / "c"), times=9),
        task("hang", limits=Limits(2, 1 << 30), pids=str(tmp_path / "p")),
        task("fill", limits=Limits(60, 300 << 20)),
    ]
    found = outcomes(events(cluster, tasks))
    assert {name: str(o.failure) for name, o in found.items()} == {
        "refuse": "refused", "fault": "bug", "crash": "crash", "hang": "time", "fill": "memory",
    }  # fmt: skip
    assert found["refuse"].message == "node Add 'a' is not to my taste"


def test_a_task_survives_the_death_of_its_worker(cluster: DaskCluster, tmp_path: Path) -> None:
    killer = task("kill_dask_worker", count=str(tmp_path / "count"), times=1)
    others = [task("double", f"t{n}", n=n) for n in range(4)]
    found = outcomes(events(cluster, [killer, *others]))
    assert found["kill_dask_worker"].reply == {"attempts": 2}
    assert all(found[t.name].failure is Failure.NONE for t in others)


def test_what_kills_two_workers_has_failed(cluster: DaskCluster, tmp_path: Path) -> None:
    killer = task("kill_dask_worker", count=str(tmp_path / "count"), times=99)
    found = outcomes(events(cluster, [killer, *(task("double", f"t{n}", n=n) for n in range(6))]))
    assert found["kill_dask_worker"].failure is Failure.CRASH
    assert "2 times in a row" in found["kill_dask_worker"].message
    assert (tmp_path / "count").read_text() == "xx"
    assert all(found[f"t{n}"].failure is Failure.NONE for n in range(6))


def test_stopping_ends_what_runs_on_the_workers(cluster: DaskCluster, tmp_path: Path) -> None:
    stop, found = threading.Event(), list[Outcome]()
    tasks = [task("hang", f"h{n}", pids=str(tmp_path / f"p{n}")) for n in range(4)]
    for event in cluster.run(tasks, stop):
        if isinstance(event, Outcome):
            found.append(event)
        elif event.stage == "hanging":
            stop.set()
    assert [o.failure for o in found] == [Failure.CANCELLED] * 4
    # The workers are free again at once: a hanging one would hold this up for a minute.
    again = outcomes(events(cluster, [task("double", f"t{n}", n=n) for n in range(4)]))
    assert len(again) == 4


def test_a_batch_on_a_cluster_is_the_same_batch(tmp_path: Path) -> None:
    saved_to(tmp_path / "m" / "a.onnx", rewritable())
    saved_to(tmp_path / "m" / "sub" / "b.onnx", settled())
    saved_to(tmp_path / "m" / "bad.onnx", impossible())
    local = by_name(ef.batch(tmp_path / "m", tmp_path / "local", jobs=2))
    spread = by_name(ef.batch(tmp_path / "m", tmp_path / "spread", jobs=2, cluster="local"))
    for name, result in local.items():
        other = spread[name]
        assert (other.status, other.reason) == (result.status, result.reason)
        assert other.before("flops") == result.before("flops")
        assert other.after("flops") == result.after("flops")
    models = [n for n in contents(tmp_path / "local") if n.endswith(".onnx")]
    assert len(models) == 2
    assert {n: contents(tmp_path / "local")[n] for n in models} == {
        n: contents(tmp_path / "spread")[n] for n in models
    }


def test_rules_are_verified_on_a_cluster(cluster: DaskCluster) -> None:
    names = ["add-zero", "mul-one"]
    rows = list(verify_on(cluster, names, max_examples=5))
    assert [(r.name, r.status) for r in rows] == [(n, "ok") for n in names]


def test_ctrl_c_on_a_terminal_reaches_everybody_and_is_heard_once(tmp_path: Path) -> None:
    saved_to(tmp_path / "m" / "a.onnx", settled())
    for n in range(3):
        saved_to(tmp_path / "m" / f"b{n}_slow.onnx", settled())
    code = (
        "from egraph_fusion.convert.batch import run\n"
        "run.CONVERT = 'batch_tasks:convert_or_crash'\n"
        "from egraph_fusion.cli import main\n"
        "if __name__ == '__main__': main()\n"
    )
    (tmp_path / "script.py").write_text(code)
    command = [sys.executable, str(tmp_path / "script.py"), "batch", str(tmp_path / "m")]
    command += ["-o", str(tmp_path / "o"), "--cluster", "local", "--jobs", "2"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    env = {**os.environ, "PYTHONPATH": path, "SLOW_SECONDS": "300"}
    process = subprocess.Popen(
        command, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    manifest = tmp_path / "o" / "manifest.jsonl"
    for _ in range(1200):
        if manifest.exists() and manifest.read_text():
            break
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert stderr.count("stopping") == 1
    assert len(manifest.read_text().splitlines()) == 1


def test_a_cluster_can_be_named_by_its_address(cluster: DaskCluster, tmp_path: Path) -> None:

    other = DaskCluster(cluster.address)
    try:
        other.wait(2)  # one may still be on its way back
        assert other.slots >= 1
        other.require_folder(tmp_path)
        with pytest.raises(ef.EgraphFusionError, match="shared file system"):
            other.require_folder(tmp_path / "absent")
    finally:
        other.close()
    assert events(cluster, [task("double", n=1)])


def test_nobody_at_an_address_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 1.0)
    with pytest.raises(ef.EgraphFusionError, match="no Dask scheduler answers"):
        DaskCluster("tcp://127.0.0.1:9")


def test_another_version_on_a_worker_is_an_error(
    cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "__version__", "0.0.other")
    with pytest.raises(ef.EgraphFusionError, match="same versions everywhere"):
        DaskCluster(cluster.address)


def test_without_distributed_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", absent)
    with pytest.raises(ef.EgraphFusionError, match=r"egraph-fusion\[cluster\]"):
        DaskCluster("local")
