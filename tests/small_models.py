"""Small models that compile in a moment, and what a user does with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto
from onnx.helper import make_node
from onnx_models import info, model_of

ROOT = Path(__file__).parent.parent
Array = NDArray[Any]


def dense(rows: int | str = 3) -> onnx.ModelProto:
    """Model of y = relu(x @ w + b) * 2 and z = the sum of y's rows; x is [rows, 5]."""
    rng = np.random.default_rng(0)
    nodes = [
        make_node("MatMul", ["x", "w"], ["m"], name="product"),
        make_node("Add", ["m", "b"], ["a"], name="bias"),
        make_node("Relu", ["a"], ["r"], name="act"),
        make_node("Mul", ["r", "two"], ["y"], name="twice"),
        make_node("ReduceSum", ["y", "axes"], ["z"], name="sum", keepdims=0),
    ]
    constants: dict[str, Array] = {
        "w": rng.standard_normal((5, 4)).astype(np.float32),
        "b": rng.standard_normal(4).astype(np.float32),
        "two": np.array(2.0, np.float32),
        "axes": np.array([1], np.int64),
    }
    outputs = [info("y", [rows, 4]), info("z", [rows])]
    return model_of(nodes, [info("x", [rows, 5])], outputs, constants)


def dense_inputs(rows: int = 3, seed: int = 0) -> dict[str, Array]:
    """Return an input of `dense`."""
    return {"x": np.random.default_rng(seed).standard_normal((rows, 5)).astype(np.float32)}


def with_opaque() -> onnx.ModelProto:
    """Model of y = the places where |x| > 1/2, which no kernel of ours finds; x is [4, 6]."""
    nodes = [
        make_node("Abs", ["x"], ["a"], name="size"),
        make_node("Greater", ["a", "half"], ["g"], name="big"),
        make_node("NonZero", ["g"], ["y"], name="places"),
    ]
    y = info("y", [2, "n"], TensorProto.INT64)
    return model_of(nodes, [info("x", [4, 6])], [y], {"half": np.array(0.5, np.float32)})


def saved(model: onnx.ModelProto, path: Path) -> Path:
    """Write a model and return its path."""
    path.write_bytes(model.SerializeToString())
    return path


def cli(
    *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a fresh process; it must say nothing of a traceback."""
    command = [sys.executable, "-m", "egraph_fusion", *map(str, arguments)]
    return fresh(command, env, cwd)


def python(code: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python code in a fresh process."""
    return fresh([sys.executable, "-c", code], env)


def fresh(
    command: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in the checkout's environment with some variables changed."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    full = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", **(env or {})}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=full, cwd=cwd, timeout=250
    )
