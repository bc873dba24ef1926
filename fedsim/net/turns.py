"""Turns: things that alternate between inside and outside a spell, for exponential times, independently."""

from collections.abc import Callable
from heapq import heapify, heapreplace

import numpy as np
import simpy

from fedsim.net.effect import Drive


def turns(
    env: simpy.Environment,
    count: int,
    between: float,
    spell: float,
    rng: np.random.Generator,
    turn: Callable[[int, bool], None],
) -> Drive:
    """Call `turn(number, whether a spell begins)` for `count` things over time, in one process that never ends.

    `between` and `spell` are mean seconds, above 0.  Things start in the stationary state: each is in a spell with
    probability spell / (between + spell), and `turn` is then called at once.
    """
    inside = rng.random(count) < spell / (between + spell)
    for number in np.flatnonzero(inside).tolist():
        turn(number, True)
    first = env.now + rng.exponential(np.where(inside, spell, between))
    coming: list[tuple[float, int]] = [(time, number) for number, time in enumerate(first.tolist())]
    heapify(coming)
    while coming:
        time, number = coming[0]
        yield env.timeout(max(0.0, time - env.now))
        inside[number] = not inside[number]
        turn(number, bool(inside[number]))
        heapreplace(coming, (time + rng.exponential(spell if inside[number] else between), number))
