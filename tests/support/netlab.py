"""What the network's tests share: a small world, messages of a given size, and max–min by progressive filling."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import simpy

from fedsim.core import seeds
from fedsim.core.record import SERVER
from fedsim.net.links.flows import BOTTLENECKED, CAPPED
from fedsim.net.links.mesh_link import Bundle
from fedsim.net.network import ServerAccess, SimulatedNetwork
from fedsim.net.node import Nodes
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.fluid import Fluid
from fedsim.net.tcp.laws import TransferModel


@dataclass(eq=False)
class Sized:
    """Stands in for a message of exactly so many bytes."""

    src: int
    dst: int
    nbytes: int
    kind: str = "train"
    version: int = 0


def stall(constants, size, rtt, rate):
    """The seconds in which slow start leaves the link idle."""
    return tcp.slow_start(constants, size, rtt, rate)[0]


def cut(network, delivery):
    """Cut a message under way; no effect if it has ended."""
    for passage, (_, its_delivery, _) in list(network.under_way.items()):
        if its_delivery is delivery:
            network._cut(passage)


def rate_of(pool, flow):
    """A flow's present rate in bytes/s."""
    if isinstance(pool, Bundle):
        pool._settle()
    if flow.where is BOTTLENECKED:
        return pool.level * flow.weight
    return flow.ceiling if flow.where is CAPPED else 0.0


def up(client, nbytes):
    return Sized(client, SERVER, nbytes)


def down(client, nbytes):
    return Sized(SERVER, client, nbytes)


class CountingEnvironment(simpy.Environment):
    """Counts the events that are scheduled."""

    scheduled = 0

    def schedule(self, *args, **named):
        self.scheduled += 1
        super().schedule(*args, **named)


@dataclass
class World:
    """A clock, its nodes and network, and the rows recorded so far."""

    env: simpy.Environment
    nodes: Nodes
    network: SimulatedNetwork
    rows: list = field(default_factory=list)

    def channel(self, client, upload):
        """What a client has under way in one direction; None where it is idle."""
        found = (channel for channel in self.network._channels.of(client) if channel.upload is upload)  # type: ignore[attr-defined]
        return next(found, None)

    def flows(self, client, upload):
        """Those of a client that move now."""
        channel = self.channel(client, upload)
        return list(channel._flows.values()) if channel else []

    def at(self, time, call, *args):
        """Have something done at that time."""
        simpy.Timeout(self.env, time - self.env.now).callbacks.append(lambda _: call(*args))


def world(latency=0.01, uplink=8e6, downlink=8e6, clients=1, seed=0, columns=None, **options):
    """Latency in seconds, rates in bit/s, one for all clients or one each; `columns` are further rows of nodes."""
    env, rows = CountingEnvironment(), []
    main = [np.broadcast_to(np.asarray(value, float), clients) for value in (latency, uplink, downlink)]
    nodes = Nodes(*main, **(columns or {}))
    network = SimulatedNetwork(env, nodes, rng=partial(seeds.generator, seed), record=rows.append, **options)
    return World(env, nodes, network, rows)


def access(rate):
    """The server's link in bit/s, the same both ways."""
    return ServerAccess(rate, rate)


def fluid(**constants):
    return Fluid(TransferModel(**constants))


def fill(ceilings, capacity, weights=None):
    """Max–min rates: raise all flows alike, or by weight, freeze those that reach their ceiling, raise the rest."""
    ceilings = np.asarray(ceilings, float)
    weights = np.ones(len(ceilings)) if weights is None else np.asarray(weights, float)
    rates, rising = np.zeros(len(ceilings)), np.ones(len(ceilings), bool)
    while rising.any():
        share = max(0.0, capacity - rates[~rising].sum()) / weights[rising].sum()
        reached = rising & (ceilings <= share * weights)
        if not reached.any():
            rates[rising] = share * weights[rising]
            return rates
        rates[reached] = ceilings[reached]
        rising &= ~reached
    return rates


def fill_over_time(starts, sizes, ceilings, capacity, weights=None):
    """When each flow ends, all rates being found again from nothing after every start and end."""
    starts, ceilings = np.asarray(starts, float), np.asarray(ceilings, float)
    weights = np.ones(len(starts)) if weights is None else np.asarray(weights, float)
    left, ends = np.asarray(sizes, float).copy(), np.full(len(starts), np.inf)
    now = 0.0
    while np.isinf(ends).any():
        here = np.flatnonzero((starts <= now) & np.isinf(ends))
        coming = starts[starts > now].min(initial=np.inf)
        rates = fill(ceilings[here], capacity, weights[here])
        through = now + left[here] / rates if len(here) else np.array([])
        until = min(coming, through.min(initial=np.inf))
        left[here] -= rates * (until - now)
        done = here[through <= until]
        ends[done], left[done] = until, 0.0
        now = until
    return ends
