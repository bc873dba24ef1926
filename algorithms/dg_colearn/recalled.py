"""Earlier periods as a client would predict on them now (`score_past`), without which forgetting cannot be scored.

A later snapshot is predicted from the states that the client's own period left, so that a model on period j needs the
states of period j and not today's, which know what came since.  When a period ends the client keeps its snapshot, the
states before it and the corrections received in it; a score on it recomputes the states after it from these with the
client's present parameters.  So what is compared are parameters: FM does not see how old states age.  The states before
the snapshot stay as the parameters of that time made them, since no client goes through the whole stream again.

Memory grows by S floats a vertex and period.  Nothing travels: what clients would exchange to predict there is counted
as on later graphs, as if the server had no row of that snapshot any more.
"""

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

from fedsim.learn.sight import Sight

KEPT = ("period", "graph", "states", "received")


def keep(memory: MutableMapping[str, Any]) -> None:
    """Keep what the client knows of the period that ends."""
    memory["kept"] = {**memory.get("kept", {}), memory["period"]: {key: memory.get(key) for key in KEPT}}


def recalled(sight: Sight) -> Sight:
    """Return the sight with the client's memory as of the period that it is for, the last one in which it worked then.

    Its parameters are those of today.  A period before it ever worked is seen without states.
    """
    memory, met = sight.memory, sight.met
    if met is None or "graph" not in memory or met >= memory["period"]:
        return sight
    known = max((period for period in memory.get("kept", {}) if period <= met), default=None)
    then = {} if known is None else memory["kept"][known]
    return replace(sight, memory={**then, "local": memory.get("local")})
