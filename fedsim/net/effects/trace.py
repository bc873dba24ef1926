"""Trace: access rates that vary as recorded ones have."""

import math
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Literal

import numpy as np
import simpy

from fedsim.net.effect import Drive, Effect, Network
from fedsim.net.inputs import timetable, traces
from fedsim.net.inputs.timetable import Timetable
from fedsim.net.node import Nodes
from fedsim.table import File, Place, fault
from fedsim.units import Rate, Seconds


@dataclass(frozen=True)
class Trace(Effect):
    """The clients' access rates change with time: by a table that names clients, or as in traces dealt out to them.

    A rate holds until the next, also for bytes under way; 0 is an outage, in which they wait.  `rates` is a table of
    client, time_s, uplink_mbps, downlink_mbps: before a client's first line its own rates hold, after its last those
    of the last; an empty cell leaves that direction as it is.  `trace` is a file or a folder of them (see `traces`):
    each client follows one in the given direction, from the start or, with `shift`, from a random moment on.  What
    `scale` of the nodes says (`outage`, `straggler`) goes on to apply; of two traces in one direction the latest word
    counts.  Not modelled: delays and losses that vary as well, clients at one place whose rates vary together.
    """

    rates: File | None = None  # a table
    trace: Place | None = None  # instead: a trace or a folder of traces
    direction: Literal["down", "up", "both"] = "down"  # of a trace
    assign: Literal["random", "in_order"] = "random"  # in_order: client i follows file i, then over again
    shift: bool = True  # each client begins at a random moment of its trace
    loop: bool = True  # after its end a trace starts over; otherwise its last rate holds
    window: Seconds = 0.5  # over which packets of a packet-delivery trace are counted
    scale: float = 1.0  # times all rates
    least: Rate | None = None  # no rate is below it

    def __post_init__(self) -> None:
        """Raise ValueError for options that make no sense or come together, UserError for files that are not sound."""
        if (self.rates is None) == (self.trace is None):
            raise ValueError("trace: give a table of 'rates' or a 'trace' (a file or a folder), one of them")
        for name, value in (("scale", self.scale), ("window", self.window)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"trace: option '{name}' is {value}; it must be finite and above 0")
        if self.least is not None and not (math.isfinite(self.least) and self.least > 0):
            raise ValueError(f"trace: option 'least' is {self.least} bit/s; it must be finite and above 0")
        if self.direction not in ("down", "up", "both"):
            raise ValueError(f"trace: option 'direction' is {self.direction!r}; it must be 'down', 'up' or 'both'")
        if self.assign not in ("random", "in_order"):
            raise ValueError(f"trace: option 'assign' is {self.assign!r}; it must be 'random' or 'in_order'")
        if self.rates is not None:
            timetable.read(self.rates)
        elif self.trace is not None:
            traces.read_all(self.trace, self.window)

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return the process that sets the rates; UserError for a table with clients that there are not."""
        nodes = network.nodes
        if self.rates is not None:
            table = timetable.read(self.rates)
            beyond = np.flatnonzero(table.clients >= len(nodes))
            if len(beyond):
                who, line = int(table.clients[beyond[0]]), int(table.lines[beyond[0]])
                many = f"there are {len(nodes)} clients, numbered from 0"
                raise fault(self.rates, line, f"there is no client {who}; {many}")
            return self._follow(env, nodes, table)
        assert self.trace is not None
        plans = [self._plan(trace) for trace in traces.read_all(self.trace, self.window)]
        return self._play(env, nodes, plans, rng)

    def _follow(self, env: simpy.Environment, nodes: Nodes, table: Timetable) -> Drive:
        up, down = (self._scaled(rates).tolist() for rates in (table.up, table.down))
        for place, (client, time) in enumerate(zip(table.clients.tolist(), table.times.tolist(), strict=True)):
            if time > env.now:
                yield env.timeout(time - env.now)
            given = [None if math.isnan(rate) else rate for rate in (up[place], down[place])]
            nodes.set_rate(client, *given)

    def _play(self, env: simpy.Environment, nodes: Nodes, plans: list["_Plan"], rng: np.random.Generator) -> Drive:
        count = len(nodes)
        dealt = rng.integers(len(plans), size=count) if self.assign == "random" else np.arange(count) % len(plans)
        own = [plans[number] for number in dealt.tolist()]
        shifts = (rng.random(count) if self.shift else np.zeros(count)).tolist()
        starts = [env.now - shift * plan.period for shift, plan in zip(shifts, own, strict=True)]
        places = [plan.place(env.now - start) for start, plan in zip(starts, own, strict=True)]
        coming = []
        for client, plan in enumerate(own):
            self._set(nodes, client, plan.rates[places[client]])
            if (then := plan.end(places[client], self.loop)) < math.inf:
                coming.append((starts[client] + then, client))
        heapify(coming)
        while coming:
            time, client = coming[0]
            yield env.timeout(max(0.0, time - env.now))
            plan, place = own[client], places[client] + 1
            if place == len(plan.rates):
                place, starts[client] = 0, starts[client] + plan.period
            places[client] = place
            self._set(nodes, client, plan.rates[place])
            if (then := plan.end(place, self.loop)) < math.inf:
                heapreplace(coming, (starts[client] + then, client))
            else:
                heappop(coming)

    def _plan(self, trace: traces.Trace) -> "_Plan":
        rates = self._scaled(trace.rates)
        new = np.append(True, rates[1:] != rates[:-1])  # a rate that goes on is no change
        return _Plan(trace.times[new].tolist(), rates[new].tolist(), trace.period)

    def _scaled(self, rates: traces.Floats) -> traces.Floats:
        return rates * self.scale if self.least is None else np.maximum(rates * self.scale, self.least)

    def _set(self, nodes: Nodes, client: int, rate: float) -> None:
        down = rate if self.direction != "up" else None
        nodes.set_rate(client, rate if self.direction != "down" else None, down)


@dataclass(frozen=True)
class _Plan:
    """A trace made ready: when its rates begin, in seconds from its start, the rates in bit/s, and its length."""

    times: list[float]
    rates: list[float]
    period: float

    def place(self, time: float) -> int:
        """Return which rate holds at a time of the trace."""
        return max(0, int(np.searchsorted(self.times, time, side="right")) - 1)

    def end(self, place: int, loop: bool) -> float:
        """Return when that rate gives way to another; infinity: never."""
        if place + 1 < len(self.times):
            return self.times[place + 1]
        return self.period if loop and len(self.rates) > 1 else math.inf
