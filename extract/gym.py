"""Reading e-graphs in extraction-gym's JSON format."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

from egraph_fusion.egraph.snapshot import Node, Snapshot
from egraph_fusion.errors import OptimizeError


def from_gym(path: str | Path) -> Snapshot:
    """Return the e-graph in an extraction-gym JSON file.

    Fields: `nodes` (name -> op, children as node names, eclass, cost) and `root_eclasses`.
    Classes and nodes are numbered in the file's order.  Decimal costs are taken as written and
    scaled to integers exactly; the snapshot's `unit` leads back.  Raises OptimizeError if the
    file cannot be read or a name in it is unknown.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"), parse_float=Fraction)
        return _snapshot(data)
    except (OSError, ValueError, TypeError, AttributeError) as e:
        raise OptimizeError(f"{path}: not an extraction-gym e-graph: {e}") from e
    except KeyError as e:
        raise OptimizeError(f"{path}: not an extraction-gym e-graph: no such name: {e}") from e


def _snapshot(data: dict[str, Any]) -> Snapshot:
    nodes: dict[str, dict[str, Any]] = data["nodes"]
    classes = {name: i for i, name in enumerate(dict.fromkeys(n["eclass"] for n in nodes.values()))}
    prices = [Fraction(n.get("cost", 1)) for n in nodes.values()]
    scale = math.lcm(*(p.denominator for p in prices))
    whole = math.gcd(*(int(p * scale) for p in prices)) if scale > 1 else 1
    unit = Fraction(max(whole, 1), scale)
    return Snapshot.build(
        (
            Node(
                eclass=classes[n["eclass"]],
                children=tuple(classes[nodes[child]["eclass"]] for child in n["children"]),
                cost=int(price / unit),
                op=n["op"],
                payload=i,
            )
            for i, (n, price) in enumerate(zip(nodes.values(), prices, strict=True))
        ),
        roots=(classes[r] for r in data["root_eclasses"]),
        unit=unit,
    )
