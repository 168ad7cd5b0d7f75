"""Damaged model files by seed: flipped bits, cuts, moved bytes, fields that say something else.

    python tests/mutations.py FOLDER COUNT MODEL.onnx...

writes COUNT of them into FOLDER, made of the models that are given.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

Mutation = Callable[[bytes, random.Random], bytes]


def flip_bits(data: bytes, dice: random.Random) -> bytes:
    """Flip one to eight bits."""
    mutated = bytearray(data)
    for _ in range(dice.randint(1, 8)):
        mutated[dice.randrange(len(mutated))] ^= 1 << dice.randrange(8)
    return bytes(mutated)


def cut(data: bytes, dice: random.Random) -> bytes:
    """Keep a beginning, perhaps none."""
    return data[: dice.randrange(len(data))]


def move_bytes(data: bytes, dice: random.Random) -> bytes:
    """Write a piece over another place."""
    size = dice.randint(1, max(1, min(64, len(data) // 4)))
    start, place = dice.randrange(len(data)), dice.randrange(len(data))
    piece = data[start : start + size]
    return data[:place] + piece + data[place + len(piece) :]


def insert_bytes(data: bytes, dice: random.Random) -> bytes:
    """Insert a few random bytes."""
    place = dice.randrange(len(data))
    return data[:place] + dice.randbytes(dice.randint(1, 16)) + data[place:]


def swap_fields(data: bytes, dice: random.Random) -> bytes:
    """Give one field of the model's messages the value that another of its kind has."""
    model = onnx.ModelProto.FromString(data)
    places = _scalar_fields(model)
    (owner, name), (other, other_name) = dice.sample(places, 2)
    value = getattr(other, other_name)
    if isinstance(value, type(getattr(owner, name))):
        setattr(owner, name, value)
    return bytes(model.SerializeToString())


def odd_number(data: bytes, dice: random.Random) -> bytes:
    """Give a number of the model's messages an extreme value."""
    model = onnx.ModelProto.FromString(data)
    places = [p for p in _scalar_fields(model) if isinstance(getattr(*p), int)]
    owner, name = dice.choice(places)
    try:
        setattr(owner, name, dice.choice((-1, 0, 1, 7, 2**31 - 1, 2**62, -(2**63))))
    except ValueError:  # a field of 32 bits, or an enumeration
        setattr(owner, name, 1)
    return bytes(model.SerializeToString())


def odd_sizes(data: bytes, dice: random.Random) -> bytes:
    """Change a dimension of a weight, or an integer of an attribute."""
    model = onnx.ModelProto.FromString(data)
    lists = [t.dims for t in model.graph.initializer if t.dims]
    lists += [a.ints for n in model.graph.node for a in n.attribute if a.ints]
    if not lists:
        return flip_bits(data, dice)
    chosen = dice.choice(lists)
    chosen[dice.randrange(len(chosen))] = dice.choice((-1, 0, 3, 10**6, 2**40))
    return bytes(model.SerializeToString())


def rewire(data: bytes, dice: random.Random) -> bytes:
    """Let a node read or write another value, be another operator, or come twice."""
    model = onnx.ModelProto.FromString(data)
    nodes = list(model.graph.node)
    if not nodes:
        return flip_bits(data, dice)
    node, other = dice.choice(nodes), dice.choice(nodes)
    kind = dice.randrange(5)
    if kind == 0 and node.input and other.output:
        node.input[dice.randrange(len(node.input))] = other.output[0]
    elif kind == 1:
        node.op_type = dice.choice((other.op_type, "Nonsense", "", "MatMul", "Loop", "If"))
    elif kind == 2 and node.output:
        node.output[0] = dice.choice(("", "twice", *other.output))
    elif kind == 3:
        model.graph.node.append(node)
    else:
        del node.input[dice.randint(0, len(node.input)) :]
    return bytes(model.SerializeToString())


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    cut,
    move_bytes,
    insert_bytes,
    swap_fields,
    odd_number,
    odd_sizes,
    rewire,
)


def mutated(originals: Sequence[bytes], number: int, seed: int = 0) -> tuple[str, bytes]:
    """Return the name of a mutation, and what it made of one of the originals."""
    dice = random.Random(f"{seed}/{number}")
    mutation = MUTATIONS[number % len(MUTATIONS)]
    original = dice.choice(originals)
    try:
        return mutation.__name__, mutation(original, dice)
    except (DecodeError, UnicodeDecodeError):
        return "flip_bits", flip_bits(original, dice)


def _scalar_fields(message: Any) -> list[tuple[Any, str]]:
    """Return every set field of a message, at any depth, that is a number or a text."""
    found: list[tuple[Any, str]] = []
    for field, value in message.ListFields():
        repeated = getattr(field, "is_repeated", False)
        if field.message_type is None:
            found += [] if repeated else [(message, field.name)]
            continue
        for inner in value if repeated else [value]:
            found += _scalar_fields(inner)
    return found


def main(folder: str, count: str, *models: str) -> None:
    """Write mutated files."""
    originals = [Path(m).read_bytes() for m in models]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for number in range(int(count)):
        name, data = mutated(originals, number)
        (Path(folder) / f"{number:04}_{name}.onnx").write_bytes(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
