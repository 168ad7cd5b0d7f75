"""Models without weights, small enough to ship, with seeded weights and inputs to run them.

A skeleton is an ordinary ONNX file whose float initializers keep name, dtype and dims but no data;
`metadata_props["egraph_fusion.weights"]` holds `{"version": 1, "weights": {name: [mean, std]}}`.
Bits come from PCG64's raw stream and become floats by integer sums and correctly rounded
arithmetic alone, so every machine gets the same bytes.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import helper

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend.inputs import example_inputs, normal

__all__ = ["EXAMPLES", "example_inputs", "example_path", "is_skeleton", "materialize", "strip"]

RECIPES = "egraph_fusion.weights"
EXAMPLES = ("squeezenet1.1", "tinybert")
# A shorter initializer is structure (an axis list, an epsilon) rather than a weight.
SMALLEST_WEIGHT = 16
FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)

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
    values = normal(tensor.name, math.prod(tensor.dims)) * std + mean
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
