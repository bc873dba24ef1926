"""Trace: access rates follow recorded traces."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import simpy

from fedsim.core.arrays import Floats
from fedsim.core.table import FilePath, Place, fault
from fedsim.core.units import Duration, Positive, Rate
from fedsim.net.effect import Drive, Effect, Network
from fedsim.net.measurements import timetable, traces
from fedsim.net.measurements.timetable import Timetable
from fedsim.net.node import Nodes
from fedsim.net.presence.rates import RateSchedule


@dataclass(frozen=True)
class Trace(Effect):
    """The clients' access rates change over time: as given in a table, or as in traces assigned to them.

    A rate holds until the next one, also for bytes under way; 0 is an outage, in which they wait.  `rates` is
    a table of client, time_s, uplink_mbps, downlink_mbps: before its first line a client has its own rates,
    after its last line those of that line; an empty cell leaves that direction as it is.  `trace` is a file
    or a folder of traces: each client follows one in the given direction, from the start or, with `shift`,
    from a random moment.  Factors set by other effects (`outage`, `straggler`) still apply; of two traces in
    one direction the latest change holds.  Not modelled: delays and losses that vary as well, nearby clients
    whose rates vary together.
    """

    rates: FilePath | None = None  # a table of rates by client and time
    trace: Place | None = None  # or a trace, or a folder of traces
    direction: Literal["down", "up", "both"] = "down"  # which rates a trace replaces
    assign: Literal["random", "in_order"] = "random"  # in_order: client i follows file i, cyclically
    shift: bool = True  # each client starts at a random time of its trace
    loop: bool = True  # after its end a trace starts over; otherwise its last rate holds
    window: Duration = 0.5  # over which the packets of a packet-delivery trace are averaged
    scale: Positive = 1.0  # factor on all rates
    least: Rate | None = None  # lower bound on all rates

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one of `rates` and `trace` is given, UserError for invalid files."""
        if (self.rates is None) == (self.trace is None):
            raise ValueError("trace: give a table of 'rates' or a 'trace' (a file or a folder), one of them")
        if self.rates is not None:
            timetable.read(self.rates)
        elif self.trace is not None:
            traces.read_all(self.trace, self.window)

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Have the clients follow their schedules; UserError for a table with clients that do not exist."""
        nodes = network.nodes
        if self.rates is not None:
            table = timetable.read(self.rates)
            beyond = np.flatnonzero(table.clients >= len(nodes))
            if len(beyond):
                who, line = int(table.clients[beyond[0]]), int(table.lines[beyond[0]])
                many = f"there are {len(nodes)} clients, numbered from 0"
                raise fault(self.rates, line, f"there is no client {who}; {many}")
            self._follow(env, nodes, table)
        elif self.trace is not None:
            schedules = [self._schedule(trace) for trace in traces.read_all(self.trace, self.window)]
            self._play(env, nodes, schedules, rng)
        return None

    def _follow(self, env: simpy.Environment, nodes: Nodes, table: Timetable) -> None:
        for up, given in ((True, table.up), (False, table.down)):
            lines = np.flatnonzero(~np.isnan(given))
            lines = lines[np.argsort(table.clients[lines], kind="stable")]  # grouped by client, still in order of time
            for rows in np.split(lines, np.flatnonzero(np.diff(table.clients[lines])) + 1):
                if len(rows):
                    schedule = RateSchedule(table.times[rows].tolist(), self._scaled(given[rows]).tolist())
                    nodes.rates.follow(env, int(table.clients[rows[0]]), schedule, 0.0, up=up, down=not up)

    def _play(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        schedules: list[tuple[RateSchedule, float]],
        rng: np.random.Generator,
    ) -> None:
        count, many = len(nodes), len(schedules)
        dealt = rng.integers(many, size=count) if self.assign == "random" else np.arange(count) % many
        shifts = (rng.random(count) if self.shift else np.zeros(count)).tolist()
        for client, (number, shift) in enumerate(zip(dealt.tolist(), shifts, strict=True)):
            schedule, length = schedules[number]
            up, down = self.direction != "down", self.direction != "up"
            nodes.rates.follow(env, client, schedule, env.now - shift * length, up=up, down=down)

    def _schedule(self, trace: traces.RateTrace) -> tuple[RateSchedule, float]:
        """Return a trace as a schedule, and its length in seconds."""
        rates = self._scaled(trace.rates)
        new = np.append(True, rates[1:] != rates[:-1])  # a rate that stays the same is no change
        period = trace.period if self.loop else math.inf
        return RateSchedule(trace.times[new].tolist(), rates[new].tolist(), period), trace.period

    def _scaled(self, rates: Floats) -> Floats:
        return rates * self.scale if self.least is None else np.maximum(rates * self.scale, self.least)
