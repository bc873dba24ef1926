"""Trace: access rates follow recorded traces."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import simpy

from fedsim.core.table import File, Place, fault
from fedsim.core.units import Rate, Seconds
from fedsim.net.courses import Course
from fedsim.net.effect import Drive, Effect, Network
from fedsim.net.inputs import timetable, traces
from fedsim.net.inputs.timetable import Timetable
from fedsim.net.node import Nodes


@dataclass(frozen=True)
class Trace(Effect):
    """The clients' access rates change over time: as given in a table, or as in traces assigned to them.

    A rate holds until the next one, also for bytes under way; 0 is an outage, in which they wait.  `rates` is a table
    of client, time_s, uplink_mbps, downlink_mbps: before its first line a client has its own rates, after its last line
    those of that line; an empty cell leaves that direction as it is.  `trace` is a file or a folder of traces: each
    client follows one in the given direction, from the start or, with `shift`, from a random moment.  Factors set by
    other effects (`outage`, `straggler`) still apply; of two traces in one direction the latest change holds.  Not
    modelled: delays and losses that vary as well, nearby clients whose rates vary together.
    """

    drives: ClassVar[bool] = True

    rates: File | None = None  # a table of rates by client and time
    trace: Place | None = None  # or a trace, or a folder of traces
    direction: Literal["down", "up", "both"] = "down"  # which rates a trace replaces
    assign: Literal["random", "in_order"] = "random"  # in_order: client i follows file i, cyclically
    shift: bool = True  # each client starts at a random time of its trace
    loop: bool = True  # after its end a trace starts over; otherwise its last rate holds
    window: Seconds = 0.5  # over which the packets of a packet-delivery trace are averaged
    scale: float = 1.0  # factor on all rates
    least: Rate | None = None  # lower bound on all rates

    def __post_init__(self) -> None:
        """Raise ValueError for options that make no sense or exclude each other, UserError for invalid files."""
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
        """Have the clients follow their courses; UserError for a table with clients that do not exist."""
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
            courses = [self._course(trace) for trace in traces.read_all(self.trace, self.window)]
            self._play(env, nodes, courses, rng)
        return None

    def _follow(self, env: simpy.Environment, nodes: Nodes, table: Timetable) -> None:
        for up, given in ((True, table.up), (False, table.down)):
            lines = np.flatnonzero(~np.isnan(given))
            lines = lines[np.argsort(table.clients[lines], kind="stable")]  # grouped by client, still in order of time
            for own in np.split(lines, np.flatnonzero(np.diff(table.clients[lines])) + 1):
                if len(own):
                    course = Course(table.times[own].tolist(), self._scaled(given[own]).tolist())
                    nodes.rates.follow(env, int(table.clients[own[0]]), course, 0.0, up=up, down=not up)

    def _play(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        courses: list[tuple[Course, float]],
        rng: np.random.Generator,
    ) -> None:
        count = len(nodes)
        dealt = rng.integers(len(courses), size=count) if self.assign == "random" else np.arange(count) % len(courses)
        shifts = (rng.random(count) if self.shift else np.zeros(count)).tolist()
        for client, (number, shift) in enumerate(zip(dealt.tolist(), shifts, strict=True)):
            course, length = courses[number]
            up, down = self.direction != "down", self.direction != "up"
            nodes.rates.follow(env, client, course, env.now - shift * length, up=up, down=down)

    def _course(self, trace: traces.Trace) -> tuple[Course, float]:
        """Return a trace as a course, and its length in seconds."""
        rates = self._scaled(trace.rates)
        new = np.append(True, rates[1:] != rates[:-1])  # a rate that stays the same is no change
        period = trace.period if self.loop else math.inf
        return Course(trace.times[new].tolist(), rates[new].tolist(), period), trace.period

    def _scaled(self, rates: traces.Floats) -> traces.Floats:
        return rates * self.scale if self.least is None else np.maximum(rates * self.scale, self.least)
