"""Which versions of ONNX a model may be of, and what to do about another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from egraph_fusion.errors import ModelError

NEWEST_OPSET = onnx.defs.onnx_opset_version()
"""The newest opset that the installed onnx can explain; it goes back to opset 1."""
REVIEWED_OPSET = 28
"""Forms of operators up to this opset are known here; a newer form is carried as it is."""


def check_versions(
    model: onnx.ModelProto, versions: Mapping[str, int], nodes: Iterable[onnx.NodeProto]
) -> None:
    """Raise ModelError, saying what to do, unless the installed onnx knows the model's versions.

    What a newer version means nobody here can say: to guess would be to compute something else.
    """
    newest_ir = int(onnx.IR_VERSION)
    if model.ir_version < 1:
        raise ModelError(f"IR version {model.ir_version} is none; expected 3 to {newest_ir}")
    if model.ir_version > newest_ir:
        raise ModelError(f"IR version {model.ir_version} {_too_new(newest_ir)}")
    opset = versions.get("")
    user = next((n for n in nodes if not n.domain), None)
    if opset is None:
        if user is not None:
            label = user.name or next(filter(None, user.output), "")
            raise ModelError(
                f"no opset of ONNX's own domain is imported, but node {label!r} ({user.op_type}) "
                "is of it; add the import that the model was made for, as in "
                "model.opset_import.append(onnx.helper.make_opsetid('', 17))"
            )
    elif opset < 1:
        raise ModelError(f"opset {opset} is none; expected 1 to {NEWEST_OPSET}")
    elif opset > NEWEST_OPSET:
        raise ModelError(f"opset {opset} {_too_new(NEWEST_OPSET)}")


def _too_new(newest: int) -> str:
    return (
        f"is newer than {newest}, the newest that the installed onnx {onnx.__version__} knows; "
        "install a newer onnx, or export the model for an older version"
    )
