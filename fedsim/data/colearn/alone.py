"""Assign vertices without any edge, which no score places."""

from typing import Literal

import numpy as np

from fedsim.data.colearn.parts import Parts

Way = Literal["round_robin", "labels", "stay"]


def deal(parts: Parts, alone: np.ndarray, way: Way, before: np.ndarray | None = None) -> int:
    """Assign these vertices; return how many turns of the round-robin that took.

    round_robin: in turn, parts that own nothing yet first.  labels: all to the part with the most different labels.
    stay: where they were `before` (N,), the others in turn.
    """
    if way == "labels":
        varied = (parts.labels > 0).sum(axis=1)
        parts.settle(alone, np.full(len(alone), int(varied.argmax()), dtype=np.int64))
        return 0
    if way == "stay" and before is not None:
        known = (before[alone] >= 0) & (before[alone] < parts.count)
        parts.settle(alone[known], before[alone[known]])
        alone = alone[~known]
    empty = np.flatnonzero(parts.sizes == 0)[: len(alone)]
    turns = len(alone) - len(empty)
    parts.settle(alone, np.concatenate([empty, np.arange(turns) % parts.count]))
    return turns
