"""Outage: many clients, or a shared link, lose their connection at the same time."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import simpy

from fedsim.core.units import Fraction, Seconds
from fedsim.net.effect import Drive, Effect, Network
from fedsim.net.throttle import Throttle, throttle


@dataclass(frozen=True)
class Outage(Effect):
    """From time to time a random group of clients, drawn anew each time, is disconnected together for a while.

    There is one outage after another: from the end of one to the start of the next it takes `every` on average, an
    outage lasts `length` on average.  While it lasts, the rates of its clients are 0 and their bytes under way wait;
    with `cut` they are offline, which cuts their transfers.  With `link` it affects the shared link of that name
    instead, and all flows on it wait.  Not modelled: groups that are near each other, messages that are refused for
    lack of a connection, a connection that recovers gradually.
    """

    drives: ClassVar[bool] = True

    every: Seconds  # mean time between outages
    length: Seconds  # mean length of an outage
    share: Fraction = 1.0  # of the clients, rounded; at least one
    cut: bool = False  # clients go offline, which aborts their transfers; otherwise bytes wait
    link: str | None = None  # affect this shared link ("ingress", "egress", ...) instead of clients
    times: Literal["exponential", "fixed"] = "exponential"  # distribution of both times; fixed: always the means

    def __post_init__(self) -> None:
        """Raise ValueError for times that are not above 0, an empty share, and options that exclude each other."""
        for name, value in (("every", self.every), ("length", self.length)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"outage: option '{name}' is {value} s; it must be finite and above 0")
        if not 0 < self.share <= 1:
            raise ValueError(f"outage: option 'share' is {self.share}; it must be above 0 and at most 1")
        if self.times not in ("exponential", "fixed"):
            raise ValueError(f"outage: option 'times' is {self.times!r}; it must be 'exponential' or 'fixed'")
        if self.link is not None and (self.cut or self.share < 1):
            raise ValueError("outage: option 'link' affects all flows on the link; leave 'cut' and 'share' out")

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return the process of outages; UserError for a link that does not exist or is unlimited."""
        if self.link is not None:
            hold = throttle(network, self.link, "outage")
            return self._spells(env, rng, lambda: [0], lambda _, down: _hold(hold, down))
        count = len(network.nodes)
        size = max(1, round(self.share * count))

        def hit(client: int, down: bool) -> None:
            if self.cut:
                (network.nodes.sleep if down else network.nodes.wake)(client, self)
            else:
                network.nodes.scale(client, self, *((0.0, 0.0) if down else (1.0, 1.0)))

        return self._spells(env, rng, lambda: _drawn(rng, count, size), hit) if count else None

    def _spells(
        self,
        env: simpy.Environment,
        rng: np.random.Generator,
        draw: Callable[[], list[int]],
        hit: Callable[[int, bool], None],
    ) -> Drive:
        while True:
            yield env.timeout(self._time(self.every, rng))
            those = draw()
            for each in those:
                hit(each, True)
            yield env.timeout(self._time(self.length, rng))
            for each in those:
                hit(each, False)

    def _time(self, mean: float, rng: np.random.Generator) -> float:
        return mean if self.times == "fixed" else float(rng.exponential(mean))


def _drawn(rng: np.random.Generator, count: int, size: int) -> list[int]:
    return np.sort(rng.choice(count, size, replace=False)).tolist()  # type: ignore[no-any-return]


def _hold(hold: Throttle, down: bool) -> None:
    hold.leave(0.0 if down else 1.0)
