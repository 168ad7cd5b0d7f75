"""Conversions that go wrong on the way, by the names of the models: run by workers in tests."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from egraph_fusion.convert.batch.one_model import convert
from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.frontend import saving

Request = Mapping[str, Any]
Report = Callable[..., None]


def convert_as_if_big(request: Request, stage: Report) -> dict[str, Any]:
    """Convert a model as one whose weights are beyond protobuf's limit."""
    saving.EXTERNAL_ABOVE, saving.SMALLEST_EXTERNAL = 1, 1
    return convert(request, stage)


def convert_or_crash(request: Request, stage: Report) -> dict[str, Any]:
    """Convert a model, but crash at, hang on, or trip over one whose name says so."""
    name = Path(request["file"]).name
    if "crash" in name:
        stage("optimise")
        os.kill(os.getpid(), signal.SIGSEGV)
    if "hang" in name:
        stage("optimise")
        time.sleep(600)
    if "bug" in name:
        raise KeyError(name)
    if "slow" in name:
        time.sleep(float(os.environ.get("SLOW_SECONDS", "1")))
    reply = convert(request, stage)
    if "late" in name:
        raise EgraphFusionError("too late")
    return reply
