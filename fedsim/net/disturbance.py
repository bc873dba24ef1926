"""Disturbances: what several effects are made of.

`on_off` has things alternate between two states, for exponential times, independently.  A `Throttle` reduces
a shared link's capacity: each effect holds its own and sets the share of the capacity that it leaves, and the
shares multiply, so that several effects on one link do not undo each other.  Not modelled: a link that is
down entirely; it keeps a tiny capacity here, so that the other effects' shares stay known.
"""

import math
from collections.abc import Callable
from heapq import heapify, heapreplace
from itertools import pairwise

import numpy as np
import simpy

from fedsim.core.errors import UserError
from fedsim.core.units import did_you_mean
from fedsim.net.effect import Drive, Network, Shared


def on_off(
    env: simpy.Environment,
    count: int,
    between: float,
    spell: float,
    rng: np.random.Generator,
    turn: Callable[[int, bool], None],
) -> Drive:
    """Call `turn(number, whether a spell begins)` for `count` things over time, in one process that never ends.

    `between` and `spell` are mean seconds, above 0.  Things start in the stationary state: each is in a spell
    with probability spell / (between + spell), and `turn` is then called at once.
    """
    inside = rng.random(count) < spell / (between + spell)
    for number in np.flatnonzero(inside).tolist():
        turn(number, True)

    def change(number: int, time: float) -> float:
        inside[number] = not inside[number]
        turn(number, bool(inside[number]))
        return time + rng.exponential(spell if inside[number] else between)

    first = env.now + rng.exponential(np.where(inside, spell, between))
    yield from drive_all(env, first.tolist(), change)


def drive_all(env: simpy.Environment, times: list[float], change: Callable[[int, float], float]) -> Drive:
    """Call `change(number, time)` for each thing at its time; it returns when the thing changes next."""
    coming = [(time, number) for number, time in enumerate(times)]
    heapify(coming)
    while coming:
        time, number = coming[0]
        yield env.timeout(max(0.0, time - env.now))
        heapreplace(coming, (change(number, time), number))


def check_spells(effect: str, every: float | None, at: tuple[float, ...] | None, length: float) -> None:
    """Raise ValueError unless spells begin after a mean time or at given times, ascending and without overlap."""
    if (every is None) == (at is None):
        raise ValueError(f"{effect}: give either 'every' (a mean time) or 'at' (a list of times)")
    if at is None:
        return
    apart = all(later - earlier > length for earlier, later in pairwise(at))
    if not (at and at[0] >= 0 and math.isfinite(at[-1]) and apart):
        message = "its times must be ascending, not negative, and further apart than the option 'length'"
        raise ValueError(f"{effect}: option 'at': {message}")


NEXT_TO_NOTHING = 2.0**-60  # of a Gbit/s: less than a byte in 300 years; a power of two divides out exactly


class Throttle:
    """One effect's hold on a link of finite capacity."""

    def __init__(self, link: Shared) -> None:
        """Leave the full capacity at first."""
        self._link = link
        self._share = 1.0
        self._base = self._set = link.capacity

    def leave(self, share: float) -> None:
        """Leave this share of the capacity without this effect, from now on; 0 is an outage, 1 removes the limit."""
        if self._link.capacity != self._set:  # another effect has changed it since
            self._base = self._link.capacity / self._share
        self._share = max(share, NEXT_TO_NOTHING)
        self._set = self._base * self._share
        self._link.set_capacity(self._set)


def throttle(network: Network, name: str, effect: str) -> Throttle:
    """Return a throttle on the shared link of that name.  Raises UserError if there is none, or if it is unlimited."""
    if name not in network.shared:
        raise UserError(f"{effect}: option 'link': no link {name!r} is shared{did_you_mean(name, network.shared)}")
    link = network.shared[name]
    if math.isinf(link.capacity):
        raise UserError(
            f"{effect}: option 'link': the link {name!r} is unlimited, so it has no share to take; give it a rate "
            "(network.server), or leave the effect out (under network.model: naive no link is shared)"
        )
    return Throttle(link)
