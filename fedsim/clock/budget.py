"""Budgets: a run ends as soon as one of them is used up, or with `when: all` the last of them.

Each entry of METERS says how much of one budget a world has used.  Simulated time is not among them: it is
known in advance, so that a run ends at exactly that second, unless it waits for another budget
(`point/loop.py`).  Bytes are wire bytes over the clients' access links as the network's meters and the
ledger count them, with headers, retransmissions, and lost and cut messages, each counted once its bytes
have passed the link or it is cut.  Up and down are seen from the client, so a byte between two peers counts
as one up and one down.  Messages in transit when a budget is used up are cut there, and count on top of it.

Energy, carbon and money are those of typical figures (`prices.py`): what takes time counts as it passes, a
message and a computation once their rows are written, so that what has begun counts on top.

Messages of a cohort that is asked at once are metered only when all have ended.  So clients are asked one
by one under a budget of bytes or costs (`Until.metered`), and the end does not depend on how many are asked
at once.
"""

import math
from collections.abc import Callable, Mapping

from fedsim.clock.world import World
from fedsim.scenario.measure import Until

METERS: Mapping[str, Callable[[World], float]] = {
    "updates": lambda world: world.server.version,
    "bytes": lambda world: _moved(world, True) + _moved(world, False),
    "bytes_up": lambda world: _moved(world, True),
    "bytes_down": lambda world: _moved(world, False),
    "energy": lambda world: _spent(world, "joules"),
    "carbon": lambda world: _spent(world, "grams"),
    "usd": lambda world: _spent(world, "usd"),
}


def end(until: Until) -> float:
    """Return the second at which a run ends whatever else it has used, infinite if there is none."""
    return math.inf if until.time is None or until.waits else until.time


def used(until: Until, world: World) -> float:
    """Return the used share of the budget, or time, that ends the run."""
    shares = [METERS[name](world) / most for name, most in until.limits().items()]
    return (min if until.waits else max)([*shares, *([world.env.now / until.time] if until.time else [])])


def spent(until: Until, world: World) -> bool:
    """Return whether the budgets are used up: one other than time, or with `when: all` each and time."""
    if until.waits and until.time is not None and world.env.now < until.time:
        return False
    over = (METERS[name](world) >= most for name, most in until.limits().items())
    return all(over) if until.waits else any(over)


def _moved(world: World, upload: bool) -> float:
    return float(world.network.meters(upload).sum())


def _spent(world: World, quantity: str) -> float:
    assert world.costs is not None  # the scenario has checked it
    return world.costs.spent(quantity, world.env.now)
