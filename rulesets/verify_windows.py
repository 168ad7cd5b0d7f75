"""Random attributes of the operators that move windows: convolutions and pooling."""

from __future__ import annotations

from egraph_fusion.rulesets.verify_asked import Asked, Chosen, Rule, Sizes


def _windows(a: Asked, kernel: Sizes, pads: Sizes = (0, 1)) -> Chosen:
    """Return strides, dilations and pads; those that keep sizes are common, as in models."""
    rank = len(kernel)
    if a.often(0.2):
        return {"strides": (1,) * rank, "dilations": (1,) * rank, "pads": (0,) * (2 * rank)}
    strides = a.wholes("strides", lambda: [a.rng.choice((1, 1, 2)) for _ in kernel])
    dilations = a.wholes("dilations", lambda: [a.rng.choice((1, 1, 2)) for _ in kernel])
    around: Sizes = tuple(a.rng.choice(pads) for _ in range(2 * rank))
    if a.often(0.25) and len(dilations) == rank:
        more = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        around = (*(m // 2 for m in more), *(m - m // 2 for m in more))
    return {"strides": strides, "dilations": dilations, "pads": around}


def _conv(a: Asked) -> Chosen:
    x, w = a.x, a.shapes[1]
    group = x[1] // w[1] if len(x) > 2 and len(w) == len(x) and w[1] else 1
    return {"group": max(1, group), **_windows(a, w[2:])}


def _conv_transpose(a: Asked) -> Chosen:
    kernel = a.shapes[1][2:]
    channels = a.shapes[1][0] if a.shapes[1] else 1
    groups = [g for g in range(2, channels + 1) if channels % g == 0]
    return {
        "group": a.rng.choice(groups) if groups and a.often(0.35) else 1,
        "output_padding": tuple(a.rng.choice((0, 0, 1)) for _ in kernel),
        **_windows(a, kernel, (0, 0, 1, 1, -1) if a.often(0.2) else (0, 1)),
    }


def _pool(a: Asked) -> Chosen:
    kernel = a.wholes("kernel_shape", lambda: [a.rng.randrange(1, 3) for _ in a.x[2:]])
    return {"kernel_shape": kernel, **_windows(a, kernel)}


WINDOWS: dict[str, Rule] = {
    "Conv": _conv,
    "ConvInteger": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "LpPool": _pool,
}
"""How the attributes of these operators are chosen."""
