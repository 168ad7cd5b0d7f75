"""The equalities published with TENSAT (after TASO), read as pairs of terms in our notation.

`data/taso/taso_converted.txt` holds one a line, in the notation of `taso_terms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from random import Random

from dimensions import Form, Solution, add, solved, subtract, times, variable
from taso_terms import ACTIVATIONS, Expr, groups, parsed

from egraph_fusion.rulesets import guards, ops
from egraph_fusion.rulesets.guards import Guard
from egraph_fusion.rulesets.pattern import Apply, Pattern, Tensor, walk
from egraph_fusion.rulesets.rule import Rule, rule

FILE = Path(__file__).parent / "data" / "taso" / "taso_converted.txt"
SIZES = (1, 2, 3, 4)
Shape = tuple[Form, ...]


@dataclass
class _Typing:
    """Shapes of expressions as linear forms of the operands' extents, and what must be zero."""

    rank: int
    zero: list[Form]
    odd: list[Form]

    def shape(self, e: Expr) -> Shape:
        shapes = [self.shape(o) for o in e.operands]
        if not shapes:
            return tuple(variable((e.op, axis)) for axis in range(self.rank))
        if e.op == "matmul":
            (rows, inner), (depth, columns) = shapes
            self.zero.append(subtract(inner, depth))
            return rows, columns
        if e.op == "conv2d":
            return self._conv(e, *shapes)
        if e.op == "concat":
            return self._concat(e.numbers[0], *shapes)
        for other in shapes[1:]:
            self._same(shapes[0], other)
        return shapes[0]

    def _same(self, a: Shape, b: Shape) -> None:
        self.zero += [subtract(p, q) for p, q in zip(a, b, strict=True)]

    def _concat(self, axis: int, a: Shape, b: Shape) -> Shape:
        self._same(a[:axis] + a[axis + 1 :], b[:axis] + b[axis + 1 :])
        return (*a[:axis], add(a[axis], b[axis]), *a[axis + 1 :])

    def _conv(self, e: Expr, x: Shape, w: Shape) -> Shape:
        self.zero.append(subtract(x[1], times(groups(e), w[1])))
        self.odd += w[2:]
        return (x[0], w[0], *x[2:])


@dataclass(frozen=True)
class Pair:
    """One published equality."""

    line: int
    left: Expr
    right: Expr

    def __str__(self) -> str:
        """Print in the notation of the file."""
        return f"{self.line}: {self.left}=>{self.right}"

    @property
    def rank(self) -> int:
        """The rank of every operand."""
        parts = [*self.left.walk(), *self.right.walk()]
        images = any(p.op == "conv2d" or (p.op == "concat" and p.numbers[1] == 4) for p in parts)
        return 4 if images else 2

    @property
    def grouped(self) -> bool:
        """Whether a side joins convolutions into groups."""
        parts = [*self.left.walk(), *self.right.walk()]
        return any(p.op == "conv2d" and groups(p) > 1 for p in parts)

    def _typing(self, even_groups: bool) -> tuple[Solution, list[Form]]:
        typing = _Typing(self.rank, [], [])
        left, right = typing.shape(self.left), typing.shape(self.right)
        typing.zero += [subtract(p, q) for p, q in zip(left, right, strict=True)]
        for e in [*self.left.walk(), *self.right.walk()]:
            if even_groups and e.op == "conv2d" and groups(e) > 1:
                first, second = (typing.shape(w) for w in e.operands[1].operands)
                typing.zero.append(subtract(first[0], second[0]))
        return solved(typing.zero), typing.odd

    @cached_property
    def typing(self) -> tuple[Solution, list[Form]]:
        """What both sides ask of extents, and the forms that must be odd."""
        return self._typing(True)

    def shapes(
        self, rng: Random, sizes: Sequence[int] = SIZES, even_groups: bool = True
    ) -> dict[str, tuple[int, ...]]:
        """Return random operand shapes that both sides take, free extents among `sizes`.

        Without `even_groups`, convolutions that become groups may differ in their filters.
        """
        solution, odd = self._typing(even_groups)
        names = [(v, axis) for v in self.left.variables for axis in range(self.rank)]
        for _ in range(20_000):
            found = solution.sample(names, lambda: rng.choice(sizes))
            if found is None or any(f.at(found) % 2 == 0 for f in odd):
                continue
            return {v: tuple(found[v, a] for a in range(self.rank)) for v in self.left.variables}
        raise AssertionError(f"no shapes fit {self}")

    @cached_property
    def rule(self) -> Rule:
        """The claim in our notation: every rank, dtype and broadcast that the guards leave open."""
        left, right = self._term(self.left), self._term(self.right)
        return rule(f"taso-{self.line}", left, right, tuple(self._guards(left)))

    @property
    def same_term(self) -> bool:
        """Whether both sides are one term in our notation, which has no fused activations."""
        return self._term(self.left) == self._term(self.right)

    def _term(self, e: Expr) -> Pattern:
        operands = [self._term(o) for o in e.operands]
        match e.op:
            case "ewadd":
                return operands[0] + operands[1]
            case "ewmul":
                return operands[0] * operands[1]
            case "relu":
                return ops.relu(*operands)
            case "matmul":
                return _with_activation(e.numbers[0], operands[0] @ operands[1])
            case "concat":
                return ops.concat(*operands, axis=e.numbers[0] - e.numbers[1])
            case "conv2d":
                term = ops.conv(*operands, strides=(1, 1), auto_pad="SAME_UPPER", group=groups(e))
                return _with_activation(e.numbers[3], term)
            case name:
                return Tensor(name)

    def _guards(self, left: Pattern) -> Iterator[Guard]:
        """Yield the guards that make both sides well typed as TASO types them."""
        solution, _ = self.typing
        variables = self.left.variables
        if any(e.numbers for e in [*self.left.walk(), *self.right.walk()]):
            yield from (guards.rank_is(Tensor(v), self.rank) for v in variables)
        for e in _elementwise_parts(left):
            yield guards.same_shape(*e.args)
        for a, b in combinations(variables, 2):
            unlike = [i for i in range(self.rank) if not solution.equal((a, i), (b, i))]
            if not unlike:
                yield guards.same_shape(Tensor(a), Tensor(b))
            if len(unlike) == 1 and self.rank > 1:
                yield guards.same_except(Tensor(a), Tensor(b), unlike[0])


def _elementwise_parts(p: Pattern) -> Iterator[Apply]:
    """Yield the sums and products whose operands are not both variables."""
    for part in dict.fromkeys(walk(p)):
        if not isinstance(part, Apply) or part.op not in ("Add", "Mul"):
            continue
        if not all(isinstance(a, Tensor) for a in part.args):
            yield part


def _with_activation(act: int, term: Apply) -> Apply:
    return ops.relu(term) if ACTIVATIONS[act] == "relu" else term


def pairs() -> tuple[Pair, ...]:
    """Return the published equalities in the order of the file."""
    lines = FILE.read_text().split("\n")
    sides = [(n, line.split("=>")) for n, line in enumerate(lines, 1) if line.strip()]
    return tuple(Pair(n, parsed(left), parsed(right)) for n, (left, right) in sides)
