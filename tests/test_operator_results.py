"""What the registry says of results without asking for types: their dtype and rank."""

from __future__ import annotations

import pytest
from operator_samples import SAMPLES, Sample

from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.tensors import DType, TensorType

Types = list[TensorType | None]


def _typed(sample: Sample) -> tuple[Types, TensorType]:
    """Return the types of a sample's operands, and of its first result as numpy gives it."""
    operator = OPERATORS[sample.op]
    types = [None if x is None else TensorType(DType.of(x.dtype), x.shape) for x in sample.operands]
    found = operator.evaluate(sample.operands, normalized(operator, types, sample.attrs))[0]
    return types, TensorType(DType.of(found.dtype), found.shape)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_the_dtype_of_a_result_is_what_the_registry_says(sample: Sample) -> None:
    operator = OPERATORS[sample.op]
    types, result = _typed(sample)
    places = dict(enumerate(types))
    for place, dtype in operator.asides:
        aside = places.pop(place)
        assert aside is not None
        assert (aside.dtype is DType.BOOL) == (dtype is DType.BOOL)
        assert aside.dtype.is_integer == dtype.is_integer
    if operator.result == "operands":
        assert result.dtype is next(t.dtype for t in places.values() if t is not None)
    elif operator.result != "other":
        assert result.dtype is operator.result


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_the_rank_of_a_result_is_what_the_registry_says(sample: Sample) -> None:
    operator = OPERATORS[sample.op]
    types, result = _typed(sample)
    ranks = [len(t.shape or ()) for t in types if t is not None]
    assert result.shape is not None
    if operator.kind is Kind.ELEMENTWISE:
        assert len(result.shape) == max(ranks)
    elif operator.keeps_rank:
        assert len(result.shape) == ranks[0]
