"""Outage: many clients, those of a region, or a shared link, lose their connection at the same time."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import simpy

from fedsim.core.errors import UserError
from fedsim.core.units import Duration, PositiveFraction, Seconds
from fedsim.net.disturbance import check_spells, throttle
from fedsim.net.effect import Drive, Network, Traits
from fedsim.net.presence.grouping import NONE, Grouped, number_of


@dataclass(frozen=True, kw_only=True)
class Outage(Grouped):
    """From time to time a random group of clients, drawn anew each time, is disconnected together for a while.

    There is one outage after another: from the end of one to the start of the next it takes `every` on
    average, an outage lasts `length` on average; or they begin at the times of `at` and last exactly
    `length`.  While it lasts, the rates of its clients are 0 and their bytes under way wait; with `cut` they
    are offline, which cuts their transfers.

    An outage hits a drawn `share` of the clients.  With `groups` it hits one group at a time, that of a
    client drawn among all, so that larger groups are hit more often; with `country` always the clients in
    that country.  Each client of the group is hit with the probability `strength`, drawn anew each time.
    With `link` it affects the shared link of that name instead, and all flows on it wait.  Not modelled:
    messages that are refused for lack of a connection, a connection that recovers gradually.
    """

    length: Duration  # mean length of an outage
    every: Duration | None = None  # mean time between outages
    at: tuple[Seconds, ...] | None = None  # or the times at which they begin
    share: PositiveFraction = 1.0  # of the clients, rounded; at least one
    country: str | None = None  # with groups: country, the only one that is hit
    cut: bool = False  # clients go offline, which aborts their transfers; otherwise bytes wait
    link: str | None = None  # affect this shared link ("ingress", "egress", ...) instead of clients
    times: Literal["exponential", "fixed"] = "exponential"  # distribution of both times; fixed: always the means

    def __post_init__(self) -> None:
        """Raise ValueError for times that overlap, and for options that exclude each other."""
        super().__post_init__()
        check_spells("outage", self.every, self.at, self.length)
        if self.groups is not None and self.share < 1:
            raise ValueError("outage: a group is hit as far as 'strength' says; leave 'share' out, or 'groups'")
        if self.country is not None and self.groups != "country":
            raise ValueError("outage: option 'country' needs 'groups: country' beside it")
        if self.link is not None and (self.cut or self.share < 1 or self.groups is not None):
            raise ValueError("outage: option 'link' affects all flows on the link; leave 'cut', 'share', 'groups' out")

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return the process of outages; UserError for a link that does not exist or is unlimited, and for groups."""
        if self.link is not None:
            hold = throttle(network, self.link, "outage")
            return self._spells(env, rng, itertools.repeat([0]), lambda _, down: hold.leave(float(not down)))
        self.check_groups(network.traits)
        if self.country is not None and not (network.traits.country == self.country).any():
            countries = ", ".join(sorted(set(network.traits.country.tolist()) - {""}))
            raise UserError(f"outage: no client is in {self.country!r}; option 'country' may be one of: {countries}")

        def hit(client: int, down: bool) -> None:
            if self.cut:
                (network.nodes.sleep if down else network.nodes.wake)(client, self)
            else:
                network.nodes.scale(client, self, uplink=float(not down), downlink=float(not down))

        drawn = self._shares(len(network.nodes), rng) if self.groups is None else self._grouped(network.traits, rng)
        return self._spells(env, rng, drawn, hit) if len(network.nodes) else None

    def _shares(self, count: int, rng: np.random.Generator) -> Iterator[list[int]]:
        """Yield the clients that each outage hits, where it hits a share of them."""
        size = max(1, round(self.share * count))
        while True:
            yield np.sort(rng.choice(count, size, replace=False)).tolist()

    def _grouped(self, traits: Traits, rng: np.random.Generator) -> Iterator[list[int]]:
        """Yield the clients that each outage hits, where it hits groups."""
        groups = self.members(traits)
        grouped = np.flatnonzero(groups != NONE)
        region = number_of(self.country or "")
        while True:
            group = region if self.country else int(groups[grouped[int(rng.integers(len(grouped)))]])
            clients = np.flatnonzero(groups == group)
            yield clients[rng.random(len(clients)) < self.strength].tolist()

    def _spells(
        self,
        env: simpy.Environment,
        rng: np.random.Generator,
        drawn: Iterator[list[int]],
        hit: Callable[[int, bool], None],
    ) -> Drive:
        for begin in itertools.repeat(None) if self.at is None else self.at:
            yield env.timeout(self._time(self.every or 0.0, rng) if begin is None else begin - env.now)
            clients = next(drawn)
            for each in clients:
                hit(each, True)
            yield env.timeout(self.length if begin is not None else self._time(self.length, rng))
            for each in clients:
                hit(each, False)

    def _time(self, mean: float, rng: np.random.Generator) -> float:
        return mean if self.times == "fixed" else float(rng.exponential(mean))
