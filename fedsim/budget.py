"""Budgets as ends: a run is over as soon as one of its budgets is used up.

Each entry of METERS says how much of one budget a world has used.  Simulated time is not among them: what the clock has
ahead is known, so that a run ends at that very second (`run.py`).  Bytes are wire bytes over the clients' access links
as the network meters and the ledger count them: headers and repeats too, lost and cut messages too, each once its bytes
have gone over the link or it is cut; up and down are seen from the client, so that a byte between two peers is one up
and one down.  What is under way when a budget is used up is cut there, and that comes on top of the budget.

Messages that are planned ahead as a wave are metered only when all have ended.  So no wave is made under a budget of
bytes (`Until.metered`), and its end is the same however many clients are asked at once.
"""

from collections.abc import Callable, Mapping

from fedsim.scenario import Until
from fedsim.world import World

METERS: Mapping[str, Callable[[World], float]] = {
    "updates": lambda world: world.server.version,
    "bytes": lambda world: _moved(world, True) + _moved(world, False),
    "bytes_up": lambda world: _moved(world, True),
    "bytes_down": lambda world: _moved(world, False),
}


def used(until: Until, world: World) -> float:
    """Return how much of the nearest budget is used, as a share of it; of time, too."""
    now = world.env.now / until.time if until.time is not None else 0.0
    return max([now, *(METERS[name](world) / most for name, most in until.limits().items())])


def spent(until: Until, world: World) -> bool:
    """Return whether a budget other than time is used up."""
    return any(METERS[name](world) >= most for name, most in until.limits().items())


def _moved(world: World, upload: bool) -> float:
    return float(world.network.meters(upload).sum())
