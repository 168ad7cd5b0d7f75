"""Random models, whole: compiled with and without rewriting, and rewritten, each is right.

Longer: `python tests/random_models.py FIRST LAST`, `python tests/random_integers.py FIRST LAST`.
"""

from __future__ import annotations

import pytest
import random_integers
import random_models


@pytest.mark.parametrize("seed", [*range(6), 16, 51, 92])
def test_a_random_model_is_right(seed: int) -> None:
    assert random_models.complaints(random_models.random_model(seed), seed) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_random_model_of_integers_is_exact(seed: int) -> None:
    assert random_integers.complaints(random_integers.random_model(seed), seed) == []
