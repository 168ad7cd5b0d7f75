"""Versions of ONNX: from the first opset to the newest of the installed onnx, others refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.helper import make_node, make_opsetid
from onnx_models import info, model_of

import egraph_fusion as ef
from egraph_fusion.frontend import reading
from egraph_fusion.frontend.versions import NEWEST_OPSET

NEWEST_IR = int(onnx.IR_VERSION)


def relu(opset: int, domain: str = "") -> onnx.ModelProto:
    model = model_of([make_node("Relu", ["x"], ["y"], name="act")], [info("x", [2])], ["y"])
    del model.opset_import[:]
    model.opset_import.append(make_opsetid(domain, opset))
    return model


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize("opset", range(1, NEWEST_OPSET + 1))
def test_every_known_opset_is_read(opset: int, domain: str) -> None:
    graph = ef.load(relu(opset, domain))
    assert [(n.op, n.opaque) for n in graph.nodes] == [("Relu", False)]


@pytest.mark.parametrize("opset", [1, 6, NEWEST_OPSET])
def test_the_oldest_and_the_newest_opset_run(opset: int) -> None:
    (y,) = ef.compile(relu(opset)).run(None, {"x": np.array([-1, 2], np.float32)})
    np.testing.assert_array_equal(y, [0, 2])


@pytest.mark.parametrize(
    ("opset", "words"),
    [
        (99, f"opset 99 is newer than {NEWEST_OPSET}, .* onnx {onnx.__version__} knows; install"),
        (NEWEST_OPSET + 1, "install a newer onnx, or export the model for an older version"),
        (2**40, "is newer than"),
        (0, f"opset 0 is none; expected 1 to {NEWEST_OPSET}"),
        (-3, "opset -3 is none"),
    ],
)
def test_another_opset_is_refused_with_what_to_do(opset: int, words: str) -> None:
    with pytest.raises(ef.ModelError, match=words):
        ef.load(relu(opset))


def test_an_import_that_is_missing_is_refused_with_what_to_do() -> None:
    with pytest.raises(ef.ModelError, match=r"node 'act' \(Relu\) is of it; add the import"):
        ef.load(relu(1, "somewhere.else"))


def test_a_model_of_other_domains_needs_no_import_of_onnx() -> None:
    node = make_node("Own", ["x"], ["y"], domain="own")
    model = model_of([node], [info("x", [2])], [info("y", [2])])
    del model.opset_import[:]
    model.opset_import.append(make_opsetid("own", 99))
    assert ef.load(model).nodes[0].op == "own:Own"


@pytest.mark.parametrize(
    ("version", "words"),
    [(NEWEST_IR + 1, f"IR version {NEWEST_IR + 1} is newer than {NEWEST_IR}"), (0, "is none")],
)
def test_an_ir_version_that_onnx_does_not_know_is_refused(version: int, words: str) -> None:
    model = relu(17)
    model.ir_version = version
    with pytest.raises(ef.ModelError, match=words):
        ef.load(model)


def test_a_form_newer_than_this_package_is_carried_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "REVIEWED_OPSET", 13)
    (node,) = ef.load(relu(14)).nodes
    assert node.opaque
    assert "form of opset 14 is newer than this package" in node.reason
    (y,) = ef.compile(relu(14)).run(None, {"x": np.array([-1, 2], np.float32)})
    np.testing.assert_array_equal(y, [0, 2])
