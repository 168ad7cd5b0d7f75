"""Executors: tasks cannot harm one another or the caller, whatever they do."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from egraph_fusion.convert.executors.local import LocalProcesses, WorkersFailedError
from egraph_fusion.convert.executors.tasks import Failure, Limits, Outcome, Stage, Task
from egraph_fusion.convert.executors.worker import lines_of

MIB = 1 << 20
LIMITS = Limits(60, 1024 * MIB)


def task(
    function: str, name: str = "", limits: Limits = LIMITS, log: str = "", **request: Any
) -> Task:
    return Task(name or function, f"executor_tasks:{function}", request, limits, log)


@pytest.fixture(scope="module")
def processes() -> Iterator[LocalProcesses]:
    """Two workers that all tests of this module share: none may spoil them for the next."""
    found = LocalProcesses(2)
    yield found
    found.close()


def outcomes(
    processes: LocalProcesses, tasks: Sequence[Task], stop: threading.Event | None = None
) -> dict[str, Outcome]:
    events = list(processes.run(tasks, stop or threading.Event()))
    found = [e for e in events if isinstance(e, Outcome)]
    assert sorted(o.task for o in found) == sorted(t.name for t in tasks)
    return {o.task: o for o in found}


def outcome(processes: LocalProcesses, wanted: Task) -> Outcome:
    """What becomes of a task; a healthy one beside it must not notice."""
    beside = task("double", "beside", n=21)
    found = outcomes(processes, [wanted, beside])
    assert (found["beside"].reply or {})["n"] == 42
    return found[wanted.name]


def gone(pid: int) -> bool:
    """Whether a process has ended; being killed takes a moment."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_tasks_are_shared_by_workers_and_each_has_its_reply(processes: LocalProcesses) -> None:
    found = outcomes(processes, [task("double", f"t{n}", n=n) for n in range(20)])
    assert [(found[f"t{n}"].reply or {})["n"] for n in range(20)] == [2 * n for n in range(20)]
    assert 1 <= len({(o.reply or {})["process"] for o in found.values()}) <= 2


def test_stages_come_as_they_are_reached_and_facts_are_kept(processes: LocalProcesses) -> None:
    events = list(processes.run([task("double", n=4)], threading.Event()))
    assert events[0] == Stage("double", "doubling")
    assert isinstance(events[1], Outcome)
    assert events[1].facts == {"given": 4}
    assert events[1].stage == "doubling"


def test_a_refusal_is_one_line_and_keeps_the_stage(processes: LocalProcesses) -> None:
    found = outcome(processes, task("refuse"))
    assert found.failure is Failure.REFUSED
    assert found.message == "node Add 'a' is not to my taste"
    assert found.stage == "looking"


def test_a_bug_has_its_traceback_in_the_log(processes: LocalProcesses, tmp_path: Path) -> None:
    found = outcome(processes, task("fault", log=str(tmp_path / "log")))
    assert found.failure is Failure.BUG
    assert "KeyError" in found.message
    log = (tmp_path / "log").read_text()
    assert "before the bug" in log
    assert "Traceback" in log


def test_a_panic_is_a_bug_and_no_end(processes: LocalProcesses) -> None:
    assert outcome(processes, task("panic")).failure is Failure.BUG


def test_what_crashes_twice_has_failed(processes: LocalProcesses, tmp_path: Path) -> None:
    found = outcome(processes, task("crash", count=str(tmp_path / "count"), times=99))
    assert found.failure is Failure.CRASH
    assert "SIGSEGV" in found.message
    assert (tmp_path / "count").read_text() == "xx"


def test_what_crashes_once_is_tried_again(processes: LocalProcesses, tmp_path: Path) -> None:
    found = outcome(processes, task("crash", count=str(tmp_path / "count"), times=1))
    assert found.reply == {"attempts": 2}


def test_leaving_without_a_reply_is_a_crash(processes: LocalProcesses) -> None:
    found = outcome(processes, task("leave"))
    assert found.failure is Failure.CRASH
    assert "exit code 3" in found.message


def test_what_hangs_is_ended_with_its_children(processes: LocalProcesses, tmp_path: Path) -> None:
    start = time.monotonic()
    wanted = task("hang", limits=Limits(1.5, 1024 * MIB), pids=str(tmp_path / "pids"))
    found = outcome(processes, wanted)
    assert found.failure is Failure.TIME
    assert "1.5 s" in found.message
    assert found.stage == "hanging"
    assert time.monotonic() - start < 30
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_a_worker_may_not_allocate_more_than_its_limit(processes: LocalProcesses) -> None:
    found = outcome(processes, task("fill", limits=Limits(60, 300 * MIB)))
    assert found.failure is Failure.MEMORY


@pytest.mark.parametrize("function", ["fill_in_child", "fill"])
def test_memory_is_watched_over_all_processes_of_a_task(
    function: str, processes: LocalProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egraph_fusion.convert.executors.local.MEMORY_SECONDS", 0.05)
    wanted = task(function, limits=Limits(60, 400 * MIB), slow=True)
    found = outcome(processes, wanted)
    assert found.failure is Failure.MEMORY
    assert found.peak_memory > 200 * MIB


def test_what_libraries_print_goes_to_the_log_and_not_into_replies(
    processes: LocalProcesses, tmp_path: Path
) -> None:
    found = outcome(processes, task("print_much", log=str(tmp_path / "log")))
    assert found.reply == {"read": ""}
    assert set((tmp_path / "log").read_text().splitlines()) == {
        "from Python",
        "from C",
        "and its errors",
    }


def test_stopping_ends_what_runs_and_starts_nothing_more(
    processes: LocalProcesses, tmp_path: Path
) -> None:
    stop, found = threading.Event(), list[Outcome]()
    tasks = [task("hang", f"h{n}", pids=str(tmp_path / f"p{n}")) for n in range(4)]
    for event in processes.run(tasks, stop):
        if isinstance(event, Outcome):
            found.append(event)
        elif event.stage == "hanging":
            stop.set()
    assert {o.failure for o in found} == {Failure.CANCELLED}
    assert len(found) == 4
    started = [p for n in range(4) if (p := tmp_path / f"p{n}").exists()]
    assert 1 <= len(started) <= 2
    assert all(gone(int(pid)) for path in started for pid in path.read_text().split())


def test_leaving_the_iterator_ends_what_runs(processes: LocalProcesses, tmp_path: Path) -> None:
    events = processes.run([task("hang", pids=str(tmp_path / "pids"))], threading.Event())
    assert isinstance(next(events), Stage)
    events.close()  # type: ignore[attr-defined]  # a generator has it, an Iterator need not
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_workers_are_replaced_before_they_wear_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egraph_fusion.convert.executors.process.TASKS_PER_WORKER", 3)
    processes = LocalProcesses(1)
    try:
        found = outcomes(processes, [task("double", f"t{n}", n=n) for n in range(7)])
    finally:
        processes.close()
    served = [(o.reply or {})["process"] for o in found.values()]
    assert sorted(served.count(p) for p in set(served)) == [1, 3, 3]


def test_a_worker_that_is_killed_costs_its_task_only_an_attempt(processes: LocalProcesses) -> None:
    first = outcomes(processes, [task("double", f"t{n}", n=n) for n in range(2)])
    for pid in {(o.reply or {})["process"] for o in first.values()}:
        os.kill(pid, 9)
    again = outcomes(processes, [task("double", f"t{n}", n=n) for n in range(6)])
    assert all(o.failure is Failure.NONE for o in again.values())


def test_workers_that_cannot_start_are_an_error() -> None:
    processes = LocalProcesses(2)
    wanted = Task("t", "no_such_module:f", {}, LIMITS)
    with pytest.raises(WorkersFailedError, match="no_such_module"):
        list(processes.run([wanted], threading.Event()))
    processes.close()


def test_an_idle_worker_ends_by_itself() -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"one\n")
    with os.fdopen(ours) as requests:
        found = lines_of(requests, idle=0.2)
        assert next(found) == "one\n"
        os.write(theirs, b"two\n")
        assert next(found) == "two\n"
        assert list(found) == []
    os.close(theirs)


def test_tasks_and_outcomes_survive_the_journey_as_plain_values() -> None:
    wanted = task("double", n=3)
    assert Task.of(wanted.to_dict()) == wanted
    found = Outcome("t", None, Failure.TIME, "late", "check", 1.5, {"a": 1}, 7)
    assert Outcome.of(found.to_dict()) == found
