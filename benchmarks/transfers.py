"""How long 100,000 transfers over one link take, and how many events; progressive filling in the same run.

    python benchmarks/transfers.py [COUNT] [OTHER_COUNT]

COUNT transfers go through the whole network (handshake, slow start, shared link, arrival).  The alternative is
brute-force progressive filling: after every join and end, all rates are found again from nothing.  Both do
OTHER_COUNT transfers of the same load, so that the ratio is of like with like.
"""

import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import simpy

from fedsim.core import seeds
from fedsim.core.wire import Spec
from fedsim.net.links.link import Link
from fedsim.net.message import Message
from fedsim.net.network import ServerAccess, SimulatedNetwork
from fedsim.net.node import Nodes

MEAN_BYTES, LOAD = 100_000, 0.95


class Counting(simpy.Environment):
    """An environment that counts the events it is given."""

    scheduled = 0

    def schedule(self, *args: Any, **named: Any) -> None:
        """Count it, then do it."""
        self.scheduled += 1
        super().schedule(*args, **named)


def load(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return starts (s), sizes (bytes), ceilings (bytes/s) and a capacity that Poisson arrivals fill to LOAD."""
    rng = seeds.generator(0, "benchmark")
    starts = np.cumsum(rng.exponential(1e-3, count))
    ceilings = rng.lognormal(np.log(1e6), 1.0, count)
    return starts, rng.exponential(MEAN_BYTES, count), ceilings, 1e3 * MEAN_BYTES / LOAD


def through_network(count: int) -> tuple[float, float]:
    """Return seconds and events a transfer."""
    starts, sizes, ceilings, capacity = load(count)
    env, rows = Counting(), 0

    def record(row: object) -> None:
        nonlocal rows
        rows += 1

    nodes = Nodes(np.full(count, 0.02), 8 * ceilings, 8 * ceilings)
    access = ServerAccess(ingress=8 * capacity)
    network = SimulatedNetwork(env, nodes, server=access, rng=partial(seeds.generator, 0), record=record)

    def feed() -> Iterator[simpy.Event]:
        for client, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            yield env.timeout(start - env.now)
            network.send(Message(client, -1, "train", Spec((int(size),), "uint8")))

    env.process(feed())  # type: ignore[arg-type]
    began = time.perf_counter()
    env.run()
    took = time.perf_counter() - began
    assert rows == count
    return took, (env.scheduled - count - 2) / count  # the feeding process is no part of a transfer


def through_link(count: int) -> float:
    """Return the seconds that sharing alone takes."""
    starts, sizes, ceilings, capacity = load(count)
    env = simpy.Environment()
    link = Link(env, capacity)
    for start, size, ceiling in zip(starts, sizes, ceilings, strict=True):

        def join(_: simpy.Event, size: float = size, ceiling: float = ceiling) -> None:
            link.join(size, ceiling, lambda flow: None)

        simpy.Timeout(env, start).callbacks.append(join)
    began = time.perf_counter()
    env.run()
    return time.perf_counter() - began


def through_filling(count: int) -> float:
    """Return the seconds that progressive filling takes for the same."""
    starts, sizes, ceilings, capacity = load(count)
    left, now, joined = np.zeros(count), 0.0, 0
    began = time.perf_counter()
    while True:
        active = np.flatnonzero(left > 0)
        rates = fill(ceilings[active], capacity)
        ends = now + (left[active] / rates).min() if len(active) else np.inf
        comes = starts[joined] if joined < count else np.inf
        if not len(active) and joined == count:
            return time.perf_counter() - began
        until = min(ends, comes)
        left[active] = np.maximum(0.0, left[active] - rates * (until - now))
        left[active[left[active] < 1e-6]] = 0.0
        if comes <= ends:
            left[joined] = sizes[joined]
            joined += 1
        now = until


def fill(ceilings: np.ndarray, capacity: float) -> np.ndarray:
    """Return the max–min rates: raise all alike, freeze those that reach their ceiling, begin again."""
    rates, open_ = np.zeros(len(ceilings)), np.ones(len(ceilings), dtype=bool)
    while open_.any():
        share = (capacity - rates[~open_].sum()) / open_.sum()
        reached = open_ & (ceilings <= share)
        if not reached.any():
            rates[open_] = share
            break
        rates[reached] = ceilings[reached]
        open_ &= ~reached
    return rates


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    other = int(sys.argv[2]) if len(sys.argv) > 2 else 5_000
    seconds, events = through_network(count)
    print(f"network, {count} transfers: {seconds:.1f} s, {events:.2f} events a transfer")
    print(f"link alone, {count} flows: {through_link(count):.1f} s")
    fluid, filling = through_link(other), through_filling(other)
    print(
        f"{other} flows: link {fluid:.2f} s, progressive filling {filling:.2f} s, {filling / fluid:.1f} times as long"
    )


if __name__ == "__main__":
    main()
