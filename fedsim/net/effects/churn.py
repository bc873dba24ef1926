"""Churn: clients go offline and come back, at random times or as given in a table."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import simpy

from fedsim.core.arrays import Ints
from fedsim.core.errors import UserError
from fedsim.core.table import FilePath, fault
from fedsim.core.units import Duration, Seconds
from fedsim.net.effect import Drive, Network
from fedsim.net.measurements import stretches
from fedsim.net.measurements.stretches import Stretch
from fedsim.net.node import Nodes
from fedsim.net.presence.grouping import Grouped
from fedsim.net.presence.offline_intervals import ExponentialIntervals


@dataclass(frozen=True)
class Churn(Grouped):
    """Each client alternates between online and offline, independently: for exponential times, or as given in a table.

    With means the clients start in the stationary state: each is online with probability online / (online +
    offline). The table has the columns client, on_s and off_s, one line per stretch online (an empty off_s:
    for good); the clients that it lists are offline at all other times; what those are that it does not list,
    `unlisted` says.

    With `groups` each client follows its group with the probability `strength`: all that do come and go
    together.  Whatever the strength, a client by itself is online as often.  Not modelled: hours of the day
    (`diurnal`), and with means clients that never come back.
    """

    changes_presence_only: ClassVar[bool] = True

    online: Duration | None = None  # mean time online
    offline: Seconds | None = None  # mean time offline; 0: clients stay online
    table: FilePath | None = None  # of online times, instead of the means
    unlisted: Literal["refuse", "online", "offline"] = "refuse"  # clients without a row in the table

    def __post_init__(self) -> None:
        """Raise ValueError unless either both means or a table are given, UserError for an invalid table."""
        super().__post_init__()
        if self.table is not None:
            if (self.online, self.offline, self.groups) != (None, None, None):
                raise ValueError("churn: 'table' says when clients are online; leave means and 'groups' out")
            stretches.read(self.table)
        elif self.online is None or self.offline is None:
            raise ValueError("churn: give the mean times 'online' and 'offline', or a 'table'")

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return the process that follows the table; UserError if it lists unknown clients.  With means, follow a plan.

        The plan draws a client's times from a stream of its own, independently of the number of clients.
        Groups need a process, since what clients hold is known only when a run begins.
        """
        nodes = network.nodes
        if self.table is not None:
            listed = stretches.read(self.table)
            for stretch in listed:
                if stretch.client >= len(nodes):
                    many = f"there are {len(nodes)} clients, numbered from 0"
                    raise fault(self.table, stretch.line, f"there is no client {stretch.client}; {many}")
            lacking = sorted(set(range(len(nodes))) - {stretch.client for stretch in listed})
            if lacking and self.unlisted == "refuse":
                many = f"{len(lacking)} of {len(nodes)} clients, the first of them {lacking[0]}"
                raise UserError(
                    f"{self.table} has no row for {many}; add rows, or say with the option 'unlisted' of churn whether "
                    "they are online or offline all the time"
                )
            return self._follow(env, nodes, listed, lacking if self.unlisted == "offline" else [])
        if self.groups is not None:
            self.check_groups(network.traits)
            return self._together(env, network, rng)
        self._leave(env, nodes, np.arange(len(nodes)), rng)
        return None

    def _leave(self, env: simpy.Environment, nodes: Nodes, streams: Ints, rng: np.random.Generator) -> None:
        """Have clients come and go, those of one stream at the same times."""
        if self.online and self.offline and len(nodes):
            nodes.presence.follow(env, ExponentialIntervals(env.now, streams, self.online, self.offline, rng))

    def _together(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive:
        streams = self.streams(network.traits, rng.random(len(network.nodes)))
        self._leave(env, network.nodes, streams, rng)
        yield env.event()  # clients come and go by themselves

    def _follow(self, env: simpy.Environment, nodes: Nodes, listed: list[Stretch], never: list[int]) -> Drive:
        moves = [(each.on, each.client, False) for each in listed if each.on > env.now]
        moves += [(each.off, each.client, True) for each in listed if math.isfinite(each.off)]
        online = {each.client for each in listed if each.on <= env.now < each.off}
        for client in sorted({each.client for each in listed}.union(never) - online):
            nodes.sleep(client, self)
        for time, client, away in sorted(moves):
            if time > env.now:
                yield env.timeout(time - env.now)
            (nodes.sleep if away else nodes.wake)(client, self)
