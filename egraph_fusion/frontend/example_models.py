"""Models without weights, small enough to ship, with seeded weights and inputs to run them.

A skeleton is an ordinary ONNX file whose float initializers keep name, dtype and dims but no data;
`metadata_props["egraph_fusion.weights"]` holds `{"version": 1, "weights": {name: [mean, std]}}`.
Bits come from PCG64's raw stream and become floats by integer sums and correctly rounded
arithmetic alone, so every machine gets the same bytes.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from egraph_fusion.errors import ModelError

RECIPES = "egraph_fusion.weights"
EXAMPLES = ("squeezenet1.1", "tinybert")
# A shorter initializer is structure (an axis list, an epsilon) rather than a weight.
SMALLEST_WEIGHT = 16
# Edge in pixels of the patches of an example image.
PATCH = 32
FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)
# Operators that hand indices on unchanged on their way to a Gather.
INDEX_CARRIERS = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")

Array = np.ndarray[Any, np.dtype[Any]]
Recipe = tuple[float, float]


def example_path(name: str) -> Path:
    """The skeleton of one of EXAMPLES, as installed with the package.

    >>> example_path("tinybert").name
    'tinybert.onnx'
    """
    if name not in EXAMPLES:
        raise ModelError(f"no example model {name!r}: expected one of {', '.join(EXAMPLES)}")
    return Path(__file__).parent.parent / "example_models" / f"{name}.onnx"


def is_skeleton(model: onnx.ModelProto) -> bool:
    """Whether the model's weights are recipes."""
    return any(prop.key == RECIPES for prop in model.metadata_props)


def materialize(source: Path | str | onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a skeleton with its weights filled in, the same bytes on every machine.

    Raises ModelError if `source` is no skeleton of the known version.
    """
    model = onnx.ModelProto()
    if isinstance(source, onnx.ModelProto):
        model.CopyFrom(source)
    else:
        model.ParseFromString(Path(source).read_bytes())
    recipes = _recipes(model)
    for tensor in model.graph.initializer:
        if tensor.name in recipes:
            tensor.raw_data = _weight(tensor, recipes[tensor.name])
    kept = [prop for prop in model.metadata_props if prop.key != RECIPES]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    return model


def strip(model: onnx.ModelProto) -> onnx.ModelProto:
    """The skeleton of a model: float weights become recipes that keep activations in scale."""
    skeleton = onnx.ModelProto()
    skeleton.CopyFrom(model)
    recipes: dict[str, Recipe] = {}
    for tensor in skeleton.graph.initializer:
        if tensor.data_type in FLOATS and math.prod(tensor.dims) >= SMALLEST_WEIGHT:
            recipes[tensor.name] = _recipe_of(tensor.name, tensor.dims, skeleton.graph)
            stub = onnx.TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
            tensor.CopyFrom(stub)
    text = json.dumps({"version": 1, "weights": recipes}, sort_keys=True)
    skeleton.metadata_props.add(key=RECIPES, value=text)
    return skeleton


def example_inputs(
    model: onnx.ModelProto, seed: int = 0, dims: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Seeded inputs for every input without a default, by name.

    Floats are standard normal (four-dimensional ones: coloured patches under noise); integers that
    index a constant table are in its range, others are 0/1 masks whose last eighth is 0; booleans
    are fair coins.  `dims` gives symbolic dimensions their sizes (else 1).  Raises ModelError for
    an input that is no tensor of known rank, or whose dtype is none of these.
    """
    defaults = {tensor.name for tensor in model.graph.initializer}
    return {
        value.name: _input(value, model.graph, f"{seed}/{value.name}", dims or {})
        for value in model.graph.input
        if value.name not in defaults
    }


def _recipes(model: onnx.ModelProto) -> dict[str, Recipe]:
    if not is_skeleton(model):
        raise ModelError(f"not a skeleton: no {RECIPES!r} in metadata_props")
    value = next(prop.value for prop in model.metadata_props if prop.key == RECIPES)
    parsed = json.loads(value)
    if parsed["version"] != 1:
        raise ModelError(f"skeleton version {parsed['version']!r}: expected 1")
    return {name: (mean, std) for name, (mean, std) in parsed["weights"].items()}


def _weight(tensor: onnx.TensorProto, recipe: Recipe) -> bytes:
    mean, std = recipe
    values = _normal(tensor.name, math.prod(tensor.dims)) * std + mean
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return values.astype(dtype.newbyteorder("<")).tobytes()


def _recipe_of(name: str, dims: Sequence[int], graph: onnx.GraphProto) -> Recipe:
    """Mean and std by the first use: He et al. 2015 for Conv, variance 1/fan-in for products."""
    node = next((n for n in graph.node if name in n.input), None)
    op = node.op_type if node is not None else ""
    if len(dims) < 2:
        return (1.0, 0.1) if op == "Mul" else (0.0, 0.1)
    if op == "Gather":
        return 0.0, 1.0
    if op == "Conv":
        return 0.0, _rounded(math.sqrt(2 / math.prod(dims[1:])))
    transposed = node is not None and any(a.name == "transB" and a.i for a in node.attribute)
    return 0.0, _rounded(math.sqrt(1 / dims[-1 if transposed else -2]))


def _rounded(value: float) -> float:
    """Four digits: a recipe is read by people, and its weights need no more."""
    return float(f"{value:.4g}")


def _words(key: str, count: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little")
    return np.asarray(np.random.PCG64(seed).random_raw(count), np.uint64)


def _normal(key: str, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Nearly normal, mean 0, variance 1: the scaled sum of four 16-bit integers (Irwin-Hall)."""
    quarters = _words(key, count).astype("<u8").view("<u2").reshape(count, 4)
    total = quarters.sum(axis=1, dtype=np.int64)
    values: np.ndarray[Any, np.dtype[np.float64]] = (total - 2 * 65535).astype(np.float64)
    return values / math.sqrt((65536**2 - 1) / 3)


def _input(
    value: onnx.ValueInfoProto, graph: onnx.GraphProto, key: str, dims: Mapping[str, int]
) -> Array:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
        raise ModelError(f"input {value.name!r}: expected a tensor of known rank")
    shape = tuple(_size(dim, dims) for dim in tensor.shape.dim)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    count = math.prod(shape)
    if dtype.kind in "iu":
        return _integers(value.name, graph, key, shape).astype(dtype)
    if dtype.kind == "b":
        return (_words(key, count) >> np.uint64(63)).astype(np.bool_).reshape(shape)
    if dtype.kind not in "fV":
        raise ModelError(f"input {value.name!r}: dtype {dtype} is neither float, integer nor bool")
    noise = _normal(key, count).reshape(shape)
    return (_image(noise, key) if len(shape) == 4 else noise).astype(dtype)


def _image(noise: Array, key: str) -> Array:
    """Patches of one colour each under noise: white noise alone averages out in any deep net."""
    *lead, height, width = noise.shape
    rows, columns = -(-height // PATCH), -(-width // PATCH)
    colours = _normal(f"{key}/patches", math.prod((*lead, rows, columns)))
    patches = colours.reshape(*lead, rows, columns).repeat(PATCH, -2).repeat(PATCH, -1)
    return patches[..., :height, :width] * 0.8 + noise * 0.6


def _size(dim: onnx.TensorShapeProto.Dimension, dims: Mapping[str, int]) -> int:
    return dim.dim_value if dim.HasField("dim_value") else dims.get(dim.dim_param, 1)


def _integers(name: str, graph: onnx.GraphProto, key: str, shape: tuple[int, ...]) -> Array:
    rows = _table_rows(name, graph)
    if rows is not None:
        words = _words(key, math.prod(shape)) % np.uint64(rows)
        return words.astype(np.int64).reshape(shape)
    length = shape[-1] if shape else 1
    mask = np.arange(length) < length - length // 8
    return np.broadcast_to(mask, shape).astype(np.int64)


def _table_rows(name: str, graph: onnx.GraphProto) -> int | None:
    """Rows of the smallest constant table that `name` indexes, None if it indexes none."""
    sizes = {tensor.name: tensor.dims for tensor in graph.initializer}
    names, rows = {name}, list[int]()
    for node in graph.node:
        if node.op_type in INDEX_CARRIERS and node.input[0] in names:
            names.update(node.output)
        if node.op_type == "Gather" and node.input[1] in names and node.input[0] in sizes:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            rows.append(sizes[node.input[0]][axis])
    return min(rows, default=None)
