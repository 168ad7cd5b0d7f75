"""Example models: their skeletons are small, and become the same running model everywhere."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend import load
from egraph_fusion.frontend.example_models import (
    EXAMPLES,
    example_inputs,
    example_path,
    is_skeleton,
    materialize,
    strip,
)

DIGESTS = {
    "squeezenet1.1": "b675c36b278d1e8f77d67498ace57c5d343c946359ee7c0ccf13a032604c38bd",
    "tinybert": "56e7888e9939cd9b58b69f56dcf85d009e6a2611062761d5dc7d215e900b6f02",
}


Array = np.ndarray[Any, np.dtype[Any]]


def outputs_of(path: Path, seed: int) -> list[Array]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    outputs = session.run(None, example_inputs(onnx.load(str(path)), seed))
    return [np.asarray(output) for output in outputs]


@pytest.mark.parametrize("name", EXAMPLES)
def test_skeleton_is_small_enough_to_ship(name: str) -> None:
    assert example_path(name).stat().st_size < 100_000


@pytest.mark.parametrize("name", EXAMPLES)
def test_materialized_bytes_are_the_recorded_ones(
    name: str, example_models: dict[str, Path]
) -> None:
    assert hashlib.sha256(example_models[name].read_bytes()).hexdigest() == DIGESTS[name]


@pytest.mark.parametrize("name", EXAMPLES)
def test_materializing_leaves_the_source_alone(name: str) -> None:
    skeleton = onnx.load(str(example_path(name)))
    before = skeleton.SerializeToString(deterministic=True)
    materialize(skeleton)
    assert skeleton.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("name", EXAMPLES)
def test_stripping_undoes_materializing(name: str, example_models: dict[str, Path]) -> None:
    stripped = strip(onnx.load(str(example_models[name])))
    assert stripped.SerializeToString(deterministic=True) == example_path(name).read_bytes()


@pytest.mark.parametrize("name", EXAMPLES)
def test_materialized_model_passes_onnx_checker(name: str, example_models: dict[str, Path]) -> None:
    onnx.checker.check_model(str(example_models[name]), full_check=True)


@pytest.mark.parametrize("name", EXAMPLES)
def test_outputs_are_finite_and_spread(name: str, example_models: dict[str, Path]) -> None:
    for output in outputs_of(example_models[name], seed=0):
        assert np.isfinite(output).all()
        assert 0.1 < output.std() < 10


@pytest.mark.parametrize("name", EXAMPLES)
def test_outputs_depend_on_the_input(name: str, example_models: dict[str, Path]) -> None:
    first, second = (outputs_of(example_models[name], seed) for seed in (0, 1))
    for a, b in zip(first, second, strict=True):
        assert (a - b).std() > 0.03 * a.std()


def small_model(value: onnx.ValueInfoProto) -> onnx.ModelProto:
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Gather", ["table", value.name], ["y"], axis=1)
    table = helper.make_tensor("table", TensorProto.FLOAT, [2, 3], [0.0] * 6)
    return helper.make_model(helper.make_graph([node], "g", [value], [output], [table]))


def test_indices_stay_inside_the_gathered_axis() -> None:
    value = helper.make_tensor_value_info("x", TensorProto.INT32, ["n", 50])
    ids = example_inputs(small_model(value), dims={"n": 4})["x"]
    assert ids.shape == (4, 50)
    assert ids.dtype == np.dtype(np.int32)
    assert set(ids.flat) == {0, 1, 2}


def test_inputs_change_with_the_seed_alone() -> None:
    model = small_model(helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, 9]))
    one, same, other = (example_inputs(model, seed)["x"] for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_model_and_its_graph_get_the_same_inputs(
    name: str, example_models: dict[str, Path]
) -> None:
    model = onnx.load(str(example_models[name]))
    own, graphs = example_inputs(model, 3), example_inputs(load(model), 3)
    assert own.keys() == graphs.keys()
    for key, array in own.items():
        np.testing.assert_array_equal(array, graphs[key], strict=True)


@pytest.mark.parametrize("dtype", [TensorProto.STRING, TensorProto.COMPLEX64])
def test_input_of_a_dtype_without_values_is_refused(dtype: int) -> None:
    with pytest.raises(ModelError, match="input 'x'"):
        example_inputs(small_model(helper.make_tensor_value_info("x", dtype, [2])))


def test_input_of_unknown_rank_is_refused() -> None:
    with pytest.raises(ModelError, match="known rank"):
        example_inputs(small_model(helper.make_tensor_value_info("x", TensorProto.FLOAT, None)))


def test_model_without_recipes_is_no_skeleton() -> None:
    model = small_model(helper.make_tensor_value_info("x", TensorProto.INT64, [2]))
    assert not is_skeleton(model)
    with pytest.raises(ModelError, match="not a skeleton"):
        materialize(model)


def test_unknown_example_names_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"squeezenet1\.1, tinybert"):
        example_path("resnet")


def test_a_scalar_integer_input_gets_a_scalar() -> None:
    count = helper.make_tensor_value_info("count", TensorProto.INT64, [])
    out = helper.make_tensor_value_info("y", TensorProto.INT64, [])
    graph = helper.make_graph([helper.make_node("Neg", ["count"], ["y"])], "g", [count], [out])
    found = example_inputs(helper.make_model(graph))["count"]
    assert found.shape == ()
    assert found.dtype == np.int64
