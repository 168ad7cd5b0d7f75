"""Bad input and bad machines: one line that says what is wrong, exit code 1, nothing written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.helper import make_node
from onnx_models import info, model_of
from small_models import cli, dense, dense_inputs, fresh, saved

import egraph_fusion as ef
from egraph_fusion.egraph.session import Worker
from egraph_fusion.frontend.example_models import example_path

X = info("x", [2, 3])


def cyclic() -> onnx.ModelProto:
    nodes = [make_node("Add", ["x", "b"], ["a"]), make_node("Neg", ["a"], ["b"])]
    return model_of(nodes, [X], ["b"])


def mixed_dtypes() -> onnx.ModelProto:
    inputs = [X, info("i", [2, 3], TensorProto.INT64)]
    return model_of([make_node("Add", ["x", "i"], ["y"], name="sum")], inputs, ["y"])


def impossible_shape() -> onnx.ModelProto:
    weights = {"w": np.ones((4, 5), np.float32)}
    return model_of([make_node("MatMul", ["x", "w"], ["y"], name="p")], [X], ["y"], weights)


def external(location: str) -> onnx.ModelProto:
    model = model_of([make_node("Add", ["x", "w"], ["y"])], [X], ["y"])
    w = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2, 3])
    w.data_location = TensorProto.EXTERNAL
    w.external_data.add(key="location", value=location)
    return model


def data(model: onnx.ModelProto) -> bytes:
    return bytes(model.SerializeToString())


FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "is empty"),
    "truncated": (lambda: data(dense())[:-40], "damaged or cut off"),
    "random bytes": (lambda: np.random.default_rng(0).bytes(5000), "no ONNX model"),
    "text": (lambda: b"# A text\n\nNo model at all.\n" * 20, "no ONNX model"),
    "external data that is missing": (
        lambda: data(external("w.bin")),
        "w.bin, which does not exist",
    ),
    "external data outside": (lambda: data(external("../w.bin")), "'../w.bin'"),
    "external data by an absolute path": (lambda: data(external("/etc/passwd")), "'/etc/passwd'"),
    "cycle": (lambda: data(cyclic()), "cycle"),
    "dtypes that do not go together": (lambda: data(mixed_dtypes()), "sum"),
    "impossible shape": (lambda: data(impossible_shape()), "MatMul"),
    "weights still to be filled in": (lambda: example_path("tinybert").read_bytes(), "materialize"),
}


def assert_refused(done: object, words: str) -> None:
    """One line of error, exit code 1."""
    code, stderr = getattr(done, "returncode", None), str(getattr(done, "stderr", ""))
    assert code == 1, stderr
    lines = stderr.splitlines()
    assert len(lines) == 1, stderr
    assert lines[0].startswith("error: ")
    assert words in lines[0]


@pytest.mark.parametrize("kind", FILES)
def test_a_bad_file_is_refused(kind: str, tmp_path: Path) -> None:
    make, words = FILES[kind]
    (tmp_path / "w.txt").write_text("outside")
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "bad.onnx").write_bytes(make())
    done = cli("optimize", folder / "bad.onnx", "-o", folder / "out.onnx")
    assert_refused(done, words)
    assert "bad.onnx" in done.stderr
    assert [p.name for p in folder.iterdir()] == ["bad.onnx"]


@pytest.mark.parametrize("command", ["compile", "plan", "run", "bench"])
def test_every_command_refuses_a_bad_file(command: str, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"hello")
    rest = ["-o", str(tmp_path / "out.efz")] if command == "compile" else []
    assert_refused(cli(command, tmp_path / "bad.onnx", *rest), "no ONNX model")
    assert [p.name for p in tmp_path.iterdir()] == ["bad.onnx"]


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert_refused(cli("plan", tmp_path), "is a directory")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert_refused(cli("plan", tmp_path / "none.onnx"), "none.onnx does not exist")


def test_an_output_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path / "m.onnx")
    for command, name in (("optimize", "o.onnx"), ("compile", "o.efz")):
        assert_refused(cli(command, path, "-o", tmp_path / "none" / name), "none")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_a_missing_compiler_is_named(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path / "m.onnx")
    done = cli("compile", path, "-o", tmp_path / "m.efz", env={"PATH": "/none", "CC": ""})
    assert_refused(done, "no C compiler: looked for cc, gcc, clang on $PATH; install one")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_a_compiler_that_fails_shows_its_last_lines(tmp_path: Path) -> None:
    fake = tmp_path / "fakecc"
    fake.write_text(
        '#!/bin/sh\ncase "$*" in *--version*) echo fake 1.0; exit 0;; *-dM*) exit 0;; esac\n'
        "echo 'first complaint'; echo 'internal compiler error' >&2; exit 4\n"
    )
    fake.chmod(0o755)
    path = saved(dense(), tmp_path / "m.onnx")
    done = cli("compile", path, "-o", tmp_path / "m.efz", env={"CC": str(fake)})
    assert_refused(done, "internal compiler error")
    assert not (tmp_path / "m.efz").exists()


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
sys.argv = ["egraph-fusion", *{arguments!r}]
from egraph_fusion.cli import main
main()
"""


@pytest.mark.parametrize("command", ["optimize", "compile"])
def test_a_full_disk_leaves_nothing_behind(command: str, tmp_path: Path) -> None:
    # A limit on the size of files fails as a full disk does, in the middle of a write.
    weights = {"w": np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)}
    nodes = [make_node("MatMul", ["x", "w"], ["y"])]
    model = model_of(nodes, [info("x", [2, 300])], [info("y", [2, 300])], weights)
    path = saved(model, tmp_path / "m.onnx")
    ef.compile(path)  # so that only the output is left to be written
    arguments = [command, str(path), "-o", str(tmp_path / "out")]
    code = LIMITED.format(limit=200_000, arguments=arguments)
    done = fresh([sys.executable, "-c", code])
    assert_refused(done, "cannot")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_a_full_cache_is_no_obstacle(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path / "m.onnx")
    arguments = ["run", str(path), "--threads", "1"]
    code = LIMITED.format(limit=400_000, arguments=arguments)
    done = fresh([sys.executable, "-c", code], {"EGRAPH_FUSION_CACHE": "/proc/none"})
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_cache_is_no_obstacle(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path / "m.onnx")
    (tmp_path / "cache").mkdir(mode=0o500)
    done = cli("run", path, env={"EGRAPH_FUSION_CACHE": str(tmp_path / "cache")})
    assert done.returncode == 0, done.stderr


NASTY = (
    "quote \" and ' apostrophe",
    "line\nbreak",
    "*/ int main(void) { return 1; } /*",
    "back\\slash %s {0} ${HOME}",
    "// comment \\",
    "tab\tnull-ish \x01",
    "#include <none>",
    "ünïcödé 名前 \u202e",
    "[red]markup[/red]",
    "../../etc/passwd",
    " ",
)


def named(text: str) -> onnx.ModelProto:
    """Return a model in which everything that can have a name is called `text`, or nearly."""
    x, w, m, y = (f"{text}{tail}" for tail in ("x", "w", "m", "y"))
    nodes = [
        make_node("MatMul", [x, w], [m], name=text),
        make_node("Relu", [m], [y], name=f"{text}2"),
    ]
    weights = {w: np.arange(15, dtype=np.float32).reshape(5, 3) - 7}
    model = model_of(nodes, [info(x, [text, 5])], [info(y, [text, 3])], weights)
    model.graph.name = model.producer_name = model.doc_string = text
    model.metadata_props.add(key=text, value=text)
    return model


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_names_of_any_kind_compile_and_run(text: str, tmp_path: Path) -> None:
    session = ef.compile(named(text))
    x = np.ones((2, 5), np.float32)
    (y,) = session.run(None, {f"{text}x": x})
    np.testing.assert_allclose(y, np.maximum(x @ (np.arange(15).reshape(5, 3) - 7), 0))
    session.save(tmp_path / "m.efz")
    assert ef.load_compiled(tmp_path / "m.efz").get_inputs()[0].name == f"{text}x"
    sources = "".join(source for p in session.programs for _, source in p.sources)
    assert text == " " or text not in sources


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_names_of_any_kind_survive_optimization(text: str, tmp_path: Path) -> None:
    model = named(text)
    graph = ef.optimize(ef.load(model)).graph
    ef.save(graph, tmp_path / "o.onnx", functions=ef.plan(graph))
    after = onnx.load(str(tmp_path / "o.onnx"))
    onnx.checker.check_model(after)
    assert [v.name for v in after.graph.input] == [f"{text}x"]
    assert [v.name for v in after.graph.output] == [f"{text}y"]


def test_names_with_line_breaks_print_on_one_line(tmp_path: Path) -> None:
    path = saved(named("line\nbreak"), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", other=np.ones(3))
    assert_refused(cli("run", path, "--input", tmp_path / "x.npz"), "no input is called 'other'")


def test_an_interrupted_compile_leaves_the_older_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ef.compile(dense())
    session.save(tmp_path / "m.efz")
    before = (tmp_path / "m.efz").read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.save(tmp_path / "m.efz")
    assert [p.name for p in tmp_path.iterdir()] == ["m.efz"]
    assert (tmp_path / "m.efz").read_bytes() == before


def test_inputs_are_never_changed(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path / "m.onnx")
    before = path.read_bytes()
    ef.compile(path).run(None, dense_inputs())
    ef.optimize(ef.load(path))
    assert path.read_bytes() == before


def test_an_interrupted_rewriting_leaves_no_answer_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = ef.load(dense())
    wanted = ef.optimize(graph).report.rule_hits

    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "_line", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ef.optimize(graph)
    assert ef.optimize(graph).report.rule_hits == wanted
