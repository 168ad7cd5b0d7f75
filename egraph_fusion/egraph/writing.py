"""The cheapest graph of a state, written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from egraph_fusion.egraph.choosing import Offer, offer
from egraph_fusion.egraph.facts import Loaded
from egraph_fusion.egraph.folding import Folds, NotFiniteError
from egraph_fusion.egraph.pricing import Allowed, Prices
from egraph_fusion.egraph.program import Program, by_family
from egraph_fusion.egraph.rebuild import Rebuilt, rebuild
from egraph_fusion.egraph.state import EState
from egraph_fusion.extract.choice import Choice
from egraph_fusion.extract.cost import CostModel

RETRIES = 20
"""Constants that may turn out not to be finite, and are left to be computed at run time."""


def folds_of(program: Program) -> Folds:
    """Return what will hold the constants that are computed for a program's states."""
    return Folds(stepwise=program.numerics == "exact")


def written(
    loaded: Loaded,
    state: EState,
    model: CostModel,
    allowed: Allowed | None,
    choose: Callable[[Offer], Choice],
    names: Sequence[str],
    folds: Folds,
) -> tuple[Rebuilt, Choice]:
    """Return the graph that `choose` picks; `folds` is shared by the states of a saturation.

    What overflows when it is folded is computed at run time instead.  Raises OptimizeError if
    nothing can be written down.
    """
    prices = Prices(loaded.interner, state, model, allowed)
    for _ in range(RETRIES):
        try:
            return _written(loaded, state, prices, choose, names, folds)
        except NotFiniteError as e:
            unfolded = prices.unfolded | {e.eclass}
            prices = Prices(loaded.interner, state, model, allowed, unfolded)
    return _written(loaded, state, prices, choose, names, folds)


def _written(
    loaded: Loaded,
    state: EState,
    prices: Prices,
    choose: Callable[[Offer], Choice],
    names: Sequence[str],
    folds: Folds,
) -> tuple[Rebuilt, Choice]:
    offered = offer(loaded, state, prices)
    choice = choose(offered)
    chosen, order = offered.chosen(choice), offered.order(choice)
    return rebuild(loaded, state, prices, chosen, order, names, folds), choice


def uses_by_rule(uses: Mapping[int, int], names: Sequence[str]) -> dict[str, int]:
    """Count uses, given by number, by rule: instances and directions of one rule are that rule."""
    counts: dict[str, int] = {}
    for number, count in sorted(uses.items()):
        counts[names[number]] = counts.get(names[number], 0) + count
    return by_family(counts)
