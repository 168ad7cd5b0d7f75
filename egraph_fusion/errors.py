"""The errors a user can meet: each names the thing, shows the value and says what is right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def said(error: BaseException, about: str = "") -> str:
    """Return an exception's name and text, which its class may not be able to give."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be shown)"
    name = type(error).__name__
    return f"{name}: {about}{text}" if about or text else name


def suggested(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a question after the known names that are most like `name`, else `otherwise`."""
    near = difflib.get_close_matches(name, list(known), n=3)
    return f"did you mean {', '.join(near)}?" if near else otherwise


class EgraphFusionError(Exception):
    """Base of every error that egraph_fusion raises on purpose."""


REFUSALS = (EgraphFusionError, ArithmeticError, LookupError, TypeError, ValueError)
"""What operators, guards and functions raise of operands and attributes that they do not take."""


class ModelError(EgraphFusionError):
    """A model cannot be read: broken bytes, a missing file, a cycle, a wrong dtype or shape."""


class RuleError(EgraphFusionError):
    """A rewrite rule is malformed or a rule file cannot be used."""


class UnknownRuleError(RuleError):
    """No rule is called as asked; the message has names like it."""


class UnverifiedRuleError(RuleError):
    """A rule from outside is wrong, or cannot be tried; `snippet` is a program that shows it.

    `message` is one line, `advice` what a caller that may skip verification can do.
    """

    def __init__(self, message: str, advice: str, snippet: str = "") -> None:
        tail = f":\n{snippet}" if snippet else ""
        super().__init__(f"{message}; {advice}{tail}")
        self.message, self.advice, self.snippet = message, advice, snippet


class OptimizeError(EgraphFusionError):
    """Saturation or extraction failed."""


class CompileError(EgraphFusionError):
    """Code generation or the C / OpenCL compiler failed."""


class RunError(EgraphFusionError):
    """A compiled model was called with unusable inputs, or failed while running."""
