"""The OpenCL target: the same results from the same kernels, and clear words without a driver."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rightness import Oracle
from small_models import cli, dense, dense_inputs, python, saved, with_opaque

import egraph_fusion as ef
from egraph_fusion.frontend.example_models import (
    EXAMPLES,
    example_inputs,
    example_path,
    materialize,
)
from egraph_fusion.runtime import opencl_target


def available() -> bool:
    """Whether a device can be found."""
    try:
        opencl_target.describe_device()
    except ef.CompileError:
        return False
    return True


needs_device = pytest.mark.skipif(not available(), reason="no OpenCL device")


@pytest.mark.opencl
@needs_device
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_model_agrees_with_c(name: str) -> None:
    model = materialize(example_path(name))
    feeds = example_inputs(model, 0)
    own = ef.compile(model, target="opencl").run(None, feeds)
    native = ef.compile(model, threads=2).run(None, feeds)
    for a, b in zip(own, native, strict=True):
        assert np.abs(a - b).max() < 1e-5 * b.std()
    assert Oracle.of(model, feeds).complaints(own) == []


@pytest.mark.opencl
@needs_device
def test_a_run_repeats_bit_for_bit() -> None:
    session = ef.compile(dense(), target="opencl")
    first, second = (session.run(None, dense_inputs()) for _ in range(2))
    assert [a.tobytes() for a in first] == [a.tobytes() for a in second]


@pytest.mark.opencl
@needs_device
def test_fallback_steps_run_between_kernels() -> None:
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    (y,) = ef.compile(with_opaque(), target="opencl").run(None, {"x": x})
    np.testing.assert_array_equal(y, np.argwhere(np.abs(x) > 0.5).T)


@pytest.mark.opencl
@needs_device
def test_a_compiled_file_runs_on_the_device(tmp_path: Path) -> None:
    session = ef.compile(dense(), target="opencl")
    session.save(tmp_path / "m.efz")
    loaded = ef.load_compiled(tmp_path / "m.efz")
    expected = session.run(None, dense_inputs())
    for a, b in zip(loaded.run(None, dense_inputs()), expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.opencl
@needs_device
def test_a_profile_times_every_block() -> None:
    steps = ef.compile(dense(), target="opencl").profile(dense_inputs(), runs=2)
    assert all(s.seconds > 0 for s in steps)


@pytest.mark.opencl
@needs_device
def test_the_command_line_runs_it(tmp_path: Path) -> None:
    done = cli("run", saved(dense(), tmp_path / "m.onnx"), "--target", "opencl")
    assert done.returncode == 0, done.stderr


WITHOUT = "import sys; sys.modules['pyopencl'] = None\n"


def test_without_pyopencl_the_error_says_what_to_install(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path / "m.onnx")
    arguments = ["egraph-fusion", "run", str(path), "--target", "opencl"]
    done = python(f"{WITHOUT}sys.argv = {arguments!r}\nfrom egraph_fusion.cli import main\nmain()")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: target 'opencl' needs pyopencl: pip install 'egraph-fusion[opencl]' "
        "(pyopencl and, on a machine without a driver, PoCL)"
    ]


def test_without_pyopencl_all_else_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    assert ef.compile(dense()).run(None, dense_inputs())[0].shape == (3, 4)


def test_without_a_driver_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoDriver:
        class Error(Exception):
            """What pyopencl raises."""

        @staticmethod
        def get_platforms() -> list[object]:
            return []

    monkeypatch.setitem(sys.modules, "pyopencl", NoDriver())
    with pytest.raises(ef.CompileError, match="no OpenCL device was found: pip install"):
        opencl_target.describe_device()


class _Fake:
    """As much of pyopencl as choosing a device needs: drivers refuse the devices called "new"."""

    class Error(Exception):
        """What pyopencl raises."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def get_platforms(self) -> list[object]:
        platform = SimpleNamespace(name="Old", version="OpenCL 3.0 Old 1")
        devices = [SimpleNamespace(name=n, platform=platform) for n in self.names]
        return [SimpleNamespace(get_devices=lambda: devices)]

    def Context(self, devices: list[object]) -> object:  # noqa: N802
        return devices[0]

    def Program(self, device: Any, _text: str) -> object:  # noqa: N802
        def build() -> None:
            if device.name == "new":
                raise self.Error("unknown target CPU 'generic'")

        return SimpleNamespace(build=build)


def test_a_driver_that_does_not_know_the_processor_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", _Fake("new", "old"))
    assert opencl_target.describe_device() == "Old: old"


def test_where_no_driver_can_build_the_error_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", _Fake("new"))
    wanted = "no OpenCL driver can build a kernel here:\nOpenCL 3.0 Old 1, new: unknown target"
    with pytest.raises(ef.CompileError, match=wanted):
        opencl_target.describe_device()
