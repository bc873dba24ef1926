"""The memory of finished points, returned before the next one begins.

A point's world refers to itself, so that it lasts until Python's next full collection.  That comes when the number of
objects has grown by a quarter, whatever their size: dozens of points later, each with its graphs.  A collection takes
about 0.2 s, as long as a small point, and is made only after points that have raised the process's peak.
"""

import gc
import math
import sys
from importlib import import_module
from typing import Any

ROOM = 16e6  # bytes by which a point may raise the peak; Python's own collections come before these add up


def peak() -> float:
    """Return the most bytes of memory that this process has had so far; infinity where the system does not say."""
    try:
        resource: Any = import_module("resource")
    except ImportError:  # Windows
        return math.inf
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


def reclaim(before: float) -> None:
    """Collect what a point has left, if the peak was `before` when it began and has grown, or is not known."""
    now = peak()
    if now == math.inf or now > before + ROOM:
        gc.collect()
