"""Equality saturation, operator fusion and native code for ONNX models.

The public names are loaded on first use, so that `import egraph_fusion` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from egraph_fusion.errors import (
    CompileError,
    EgraphFusionError,
    ModelError,
    OptimizeError,
    RuleError,
    RunError,
)
from egraph_fusion.version import __version__

if TYPE_CHECKING:
    from egraph_fusion import extract, rulesets
    from egraph_fusion.convert.batch.run import batch
    from egraph_fusion.convert.model_report import report
    from egraph_fusion.convert.single import bench
    from egraph_fusion.experiment.comparison import compare_rulesets
    from egraph_fusion.experiment.exploration import explore
    from egraph_fusion.experiment.leaves import constant, tensor
    from egraph_fusion.frontend import load
    from egraph_fusion.pipeline import compile, emit_c, optimize, plan, save
    from egraph_fusion.runtime.loading import load_compiled

_HOMES = {
    "load": "egraph_fusion.frontend",
    "save": "egraph_fusion.pipeline",
    "optimize": "egraph_fusion.pipeline",
    "plan": "egraph_fusion.pipeline",
    "compile": "egraph_fusion.pipeline",
    "load_compiled": "egraph_fusion.runtime.loading",
    "emit_c": "egraph_fusion.pipeline",
    "batch": "egraph_fusion.convert.batch.run",
    "bench": "egraph_fusion.convert.single",
    "report": "egraph_fusion.convert.model_report",
    "tensor": "egraph_fusion.experiment.leaves",
    "constant": "egraph_fusion.experiment.leaves",
    "explore": "egraph_fusion.experiment.exploration",
    "compare_rulesets": "egraph_fusion.experiment.comparison",
}
_MODULES = ("extract", "rulesets")

__all__ = [
    "CompileError",
    "EgraphFusionError",
    "ModelError",
    "OptimizeError",
    "RuleError",
    "RunError",
    "__version__",
    "batch",
    "bench",
    "compare_rulesets",
    "compile",
    "constant",
    "emit_c",
    "explore",
    "extract",
    "load",
    "load_compiled",
    "optimize",
    "plan",
    "report",
    "rulesets",
    "save",
    "tensor",
]


def __getattr__(name: str) -> Any:
    """Import the module behind a public name when it is first used."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"egraph_fusion.{name}")
    raise AttributeError(f"module 'egraph_fusion' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
