"""Fixtures and options that all tests share."""

import os
from collections import Counter
from pathlib import Path
from typing import cast

import hypothesis
import pytest
from golden_files import GoldenFile, file_of

ROOT = Path(__file__).parent.parent

# Deterministic, and without a deadline: a slow machine must not fail a test.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the project's own options."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")
    parser.addoption(
        "--must-run",
        action="append",
        default=[],
        metavar="MARKER",
        help="fail the run if a test with this marker was skipped, or none ran",
    )


class MustRun:
    """Counts the outcomes of tests that carry one of the markers named by --must-run."""

    def __init__(self, markers: list[str]) -> None:
        self.markers = markers
        self.outcomes: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that was called, or that was skipped before."""
        if report.when == "call" or report.skipped:
            marked = (m for m in self.markers if m in report.keywords)
            self.outcomes.update((marker, report.outcome) for marker in marked)

    def complaints(self) -> list[str]:
        """One line per marker whose tests were skipped or absent."""
        skipped = {m: self.outcomes[m, "skipped"] for m in self.markers}
        ran = {m: self.outcomes[m, "passed"] + self.outcomes[m, "failed"] for m in self.markers}
        return [
            f"--must-run={m}: {ran[m]} tests ran, {skipped[m]} were skipped"
            for m in self.markers
            if skipped[m] or not ran[m]
        ]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a pass into a failure if a marked test did not run."""
        if self.complaints() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why."""
        for line in self.complaints():
            terminalreporter.write_line(line, red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Count marked tests in the process that reports (with xdist: not in the workers)."""
    markers = cast(list[str], config.getoption("--must-run"))
    if markers and not hasattr(config, "workerinput"):
        config.pluginmanager.register(MustRun(markers))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the tests that may take long, so that no process waits for one at the end."""

    def limit(item: pytest.Item) -> float:
        marker = item.get_closest_marker("timeout")
        return float(marker.args[0]) if marker else 0.0

    items.sort(key=limit, reverse=True)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiled code goes to a folder of this run, which parallel workers share."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    os.environ["EGRAPH_FUSION_CACHE"] = str(shared / "egraph_fusion_cache")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> GoldenFile:
    """Compare a text with tests/golden/MODULE/TEST.txt; --update-golden rewrites the file."""
    path = file_of(request.path.stem, request.node.name)
    return GoldenFile(path, update=bool(request.config.getoption("--update-golden")))


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of the 24 model skeletons beside a checkout; absent elsewhere, then skip."""
    folder = ROOT.parent / "shared" / "models"
    if not folder.is_dir():
        pytest.skip("the folder of big model skeletons is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def example_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The example models with their weights, as files: name → path."""
    # Imported here, so that a broken front end fails the tests that need it and no others.
    from egraph_fusion.frontend.example_models import EXAMPLES, example_path, materialize

    folder = tmp_path_factory.mktemp("example_models")
    paths = {name: folder / f"{name}.onnx" for name in EXAMPLES}
    for name, path in paths.items():
        path.write_bytes(materialize(example_path(name)).SerializeToString(deterministic=True))
    return paths
