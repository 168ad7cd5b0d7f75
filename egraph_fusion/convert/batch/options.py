"""What a batch is asked to do with each model, and the key that says whether it has been done."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from egraph_fusion.arguments import fits
from egraph_fusion.codegen.cache import digest
from egraph_fusion.convert.executors.memory import machine_memory
from egraph_fusion.convert.executors.tasks import Limits
from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.runtime.program_cache import code_digest

TARGETS = {"onnx": "", "onnx-functions": "", "c": ".efz"}
"""What can be made of a model, and the suffix of the result (none: the model's own)."""
LEAST_MEMORY = 512 << 20
"""Bytes below which no worker does useful work."""
MEMORY_SHARE = 0.9


class BatchError(EgraphFusionError):
    """A batch cannot start: an impossible option, a missing source, an output in the way."""


@dataclass(frozen=True)
class Options:
    """How every model is converted; the names are those of `batch`'s arguments."""

    target: str = "onnx"
    check: bool = True
    tolerance: float = 1e-3
    seeds: tuple[int, ...] = (0, 1, 2)
    opset: int | None = None
    numerics: str = "finite"
    rules: str | None = None
    without: tuple[str, ...] = ()
    verify: bool = True
    extractor: str = "auto"
    cost: str = "flops"
    time_limit: float = 60.0
    node_limit: int = 100_000
    iter_limit: int = 12
    input_shapes: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    fallback: str | None = None
    latency: bool = False

    def __post_init__(self) -> None:
        """Refuse what no model could be converted with."""
        _expect(self.target in TARGETS, "target", self.target, f"one of {', '.join(TARGETS)}")
        _expect(self.fallback in (None, "copy"), "fallback", self.fallback, '"copy" or nothing')
        _expect(self.tolerance >= 0, "tolerance", self.tolerance, "a number from 0")
        seeds = bool(self.seeds) and all(fits(s, int) and s >= 0 for s in self.seeds)
        _expect(seeds, "seeds", self.seeds, "at least one integer, from 0")
        _expect(self.time_limit >= 0, "time limit", self.time_limit, "seconds from 0")
        _expect(self.node_limit >= 1, "node limit", self.node_limit, "a number from 1")
        _expect(self.iter_limit >= 0, "iter limit", self.iter_limit, "a number from 0")
        _expect(self.opset is None or self.opset > 0, "opset", self.opset, "a number from 1")
        _expect_known(self.numerics, self.extractor, self.cost)
        if self.rules is not None or self.without:
            _expect_rules(self.rules, self.without, self.verify)

    def key(self) -> str:
        """Return a digest of these options, of the rules' file and of this version's code."""
        rules = Path(self.rules).read_bytes() if self.rules is not None else b""
        shapes = sorted((k, tuple(v)) for k, v in self.input_shapes.items())
        plain = {**asdict(self), "input_shapes": shapes, "rules": "", "verify": True}
        return digest(repr(sorted(plain.items())), rules, code_digest())

    def to_request(self) -> dict[str, Any]:
        """Return the options as plain JSON values."""
        rules = None if self.rules is None else os.path.abspath(self.rules)
        shapes = {k: list(v) for k, v in self.input_shapes.items()}
        return {**asdict(self), "rules": rules, "input_shapes": shapes}


def _expect(fine: bool, what: str, value: object, wanted: str) -> None:
    if not fine:
        raise BatchError(f"{what} is {value!r}; expected {wanted}")


def _expect_known(numerics: str, extractor: str, cost: str) -> None:
    from egraph_fusion.extract import EXTRACTORS
    from egraph_fusion.extract.cost import COST_MODELS
    from egraph_fusion.rulesets.rule import LEVELS

    _expect(numerics in LEVELS, "numerics", numerics, f"one of {', '.join(LEVELS)}")
    _expect(extractor in EXTRACTORS, "extractor", extractor, f"one of {', '.join(EXTRACTORS)}")
    _expect(cost in COST_MODELS, "cost", cost, f"one of {', '.join(COST_MODELS)}")


def _expect_rules(rules: str | None, without: Sequence[str], verify: bool) -> None:
    """Raise RuleError for an unusable file, a wrong rule in it, or a name that no rule has.

    Rules are verified here, once, and not again for every model.
    """
    from egraph_fusion.rulesets import default_rules, select
    from egraph_fusion.rulesets.admission import admit

    used = select(default_rules() if rules is None else Path(rules), without)
    if verify:
        admit(used)


def limits_of(timeout: float, memory: int | str | None, jobs: int) -> Limits:
    """Return the limits of one model; without `memory`, `jobs` models share 90 % of the machine's.

    `memory` is bytes, or text such as "4G" or "512M".  Raises BatchError for impossible ones.
    """
    _expect(timeout > 0, "timeout", timeout, "seconds above 0")
    share = int(machine_memory() * MEMORY_SHARE) // jobs
    wanted = share if memory is None else bytes_of(memory)
    least = f"at least {LEAST_MEMORY >> 20} MiB (a worker's libraries need that much)"
    _expect(memory is None or wanted >= LEAST_MEMORY, "memory", memory, least)
    return Limits(timeout, max(wanted, LEAST_MEMORY))


def bytes_of(memory: int | str) -> int:
    """Return a number of bytes: 4294967296, "4G", "4GB", "4GiB", "512M" (powers of 1024)."""
    if isinstance(memory, int):
        return memory
    text = memory.strip().upper().removesuffix("B").removesuffix("I")
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    shift = units.get(text[-1:], 0)
    number = text[:-1] if shift else text
    try:
        return int(float(number) * (1 << shift))
    except (ValueError, OverflowError):
        raise BatchError(f"memory is {memory!r}; expected bytes, or a size such as 4G") from None
