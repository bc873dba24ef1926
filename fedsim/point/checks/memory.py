"""The memory of points: whether one can fit into this machine's, and what is returned before the next one begins.

A point is judged by its numbers before anything is allocated.  Each estimate counts only arrays that the point
certainly needs, so that nothing is refused that would fit; a point that passes may still need more, and then fails with
a message (`lacking`).  The limit is the machine's physical memory, or the process's own limit (`ulimit -v`) if that is
lower.

A point's world refers to itself, so that it lasts until Python's next full collection.  That comes when the number of
objects has grown by a quarter, whatever their size: dozens of points later, each with its graphs.  A collection takes
about 0.2 s, as long as a small point, and is made only after points that have raised the process's peak, and after one
of many (`TURNS`), so that a process of thousands of points stays as large as one of a few.

Not estimated: graphs that are read from files, what an algorithm keeps of its own, the memory of other processes.
"""

import ctypes
import gc
import math
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

from fedsim.core import amounts
from fedsim.core.errors import Problem
from fedsim.core.units import count
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Scenario

DENSE = 1000  # edges for each node from which the degree is to blame, not the nodes
UNKNOWN = 2.0**40  # bytes, where the system does not say
CLIENT = 200  # bytes of one client's rows in the clients' and the network's arrays
NODE = 400  # bytes of one edge aggregator with its links
FLOAT, WHOLE, COPIES = 4, 8, 5  # bytes of a feature and of a number; state, parameters, gradient, upload, result
EVENTS = {"tgbl_coin": 22_809_486, "tgbn_reddit": 27_174_118}  # of `drawn_events` at the whole scale
EVENT = 128  # bytes: both directions with their times, and a sorted copy of them
LINKS = {"degree": 0.5, "m": 1.0}  # edges that a client has of its own, for each of the option
try:
    resource: Any = import_module("resource")
except ImportError:  # Windows has no such limits
    resource = None


class Need(NamedTuple):
    """Bytes that the value of a key causes, with what they are."""

    key: str
    value: object
    nbytes: float
    what: str


def problems(scenario: Scenario) -> list[Problem]:
    """Return a problem at the key whose value needs most, if that is more memory than there is."""
    limit, need = available(), max(_needs(scenario), key=lambda one: one.nbytes)
    if need.nbytes <= limit:
        return []
    needs = f"{need.value} needs at least {amounts.size(need.nbytes)} for {need.what}"
    return [Problem(need.key, f"{needs}, and this machine has {amounts.size(limit)}; make it smaller")]


def available() -> float:
    """Return the bytes that this process may use."""
    try:
        bound = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        bound = UNKNOWN
    if resource is None:
        return bound
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return bound if limit == resource.RLIM_INFINITY else min(bound, float(limit))


def lacking(error: BaseException) -> str | None:
    """Return a message if the error says that there is not enough memory, else None."""
    text = str(error)
    if isinstance(error, MemoryError) or "can't allocate memory" in text or "out of memory" in text:
        said = text.splitlines()[0] if text else "no more can be had"
        remedy = "fewer or smaller clients.count, data.dataset, model.hidden, or cohort.memory"
        return f"the run needs more memory than there is ({said}); {remedy}"
    return None


def _needs(scenario: Scenario) -> Iterator[Need]:
    clients = scenario.clients.count or 1
    yield Need("clients.count", f"{clients:,}", CLIENT * clients, "the clients' rows")
    topology = scenario.network.topology
    if topology.name == "tree":
        edges = _count(topology.options, "edges", 0)
        yield Need("network.topology.edges", f"{edges:,}", NODE * edges, "the edge aggregators")
    for name, each in LINKS.items():
        links = min(_count(topology.options, name, 0), clients) * clients * each
        yield Need(f"network.topology.{name}", topology.options.get(name), 2 * WHOLE * links, "the peers' links")
    features = 1
    if scenario.data is not None:
        features = _count(scenario.data.dataset.options, "features", 1)
        yield from _drawn("data.dataset", scenario.data.dataset)
    for key, part in (("model", scenario.model), ("algorithm", scenario.algorithm)):
        if part is not None:
            yield from _widths(key, part, features)


def _drawn(key: str, part: Part) -> Iterator[Need]:
    """Return what a generated graph needs: its features in each snapshot, and the ends of its edges."""
    if part.name == "drawn_events":
        scale = part.options.get("scale", 1.0)
        events = EVENTS.get(str(part.options.get("like", "tgbl_coin")), 0)
        events = round(events * scale) if isinstance(scale, int | float) and 0 <= scale <= 1 else 0
        yield Need(f"{key}.scale", scale, EVENT * events, f"{events:,} events in both directions")
    if part.name == "meetings":
        yield from _met(key, part.options)
    if part.name not in ("synthetic", "drifting"):
        return
    options = part.options
    nodes, features = _count(options, "nodes", 1000), _count(options, "features", 32)
    snapshots = _count(options, "snapshots", 10) if part.name == "drifting" else 1
    what = f"{nodes:,} nodes of {features:,} features" + (f" in {snapshots:,} snapshots" if snapshots > 1 else "")
    largest = max({"nodes": nodes, "features": features, "snapshots": snapshots}.items(), key=lambda one: one[1])
    yield Need(f"{key}.{largest[0]}", f"{largest[1]:,}", nodes * features * snapshots * FLOAT, what)
    classes = _count(options, "classes", 2)
    yield Need(f"{key}.classes", f"{classes:,}", classes * features * FLOAT, "the classes' means")
    degree = options.get("degree", 8.0)
    edges = nodes * degree / 2 if isinstance(degree, int | float) and math.isfinite(degree) else 0.0
    edges = _count(options, "edges", 4000) if part.name == "drifting" else edges
    last = "edges" if part.name == "drifting" else "degree" if edges > DENSE * nodes else "nodes"
    yield Need(f"{key}.{last}", f"{edges:,.0f} edges", 4 * WHOLE * edges, "their ends")


def _met(key: str, options: Mapping[str, Any]) -> Iterator[Need]:
    """Return what drawn meetings need, at the largest of the numbers that they come of."""
    defaults = {"communities": 4, "members": 64, "seconds": 70}
    sizes = {name: _count(options, name, default) for name, default in defaults.items()}
    largest, events = max(sizes, key=lambda name: sizes[name]), math.prod(sizes.values()) // 2
    yield Need(f"{key}.{largest}", f"{sizes[largest]:,}", EVENT * events, f"{events:,} events in both directions")
    features, nodes = _count(options, "features", 1), sizes["communities"] * sizes["members"]
    what = f"{nodes:,} nodes of {features:,} features"
    yield Need(f"{key}.features", f"{features:,}", nodes * features * FLOAT, what)


def _widths(key: str, part: Part, features: int) -> Iterator[Need]:
    """Return what layers need between one hidden width and the next, and within a layer of four channels' width."""
    channel = _count(part.options, "channel", 0)
    yield Need(f"{key}.channel", f"{channel:,}", FLOAT * COPIES * 12 * (4 * channel) ** 2, "the weights and copies")
    given = part.options.get("hidden")
    widths = [_whole(value) for value in (given if isinstance(given, list | tuple) else [given])]
    known = [width for width in widths if width]
    if known:
        weights = features * known[0] + sum(a * b for a, b in pairwise(known))
        yield Need(f"{key}.hidden", given, FLOAT * COPIES * weights, "the weights and their copies")


def _count(options: Mapping[str, Any], name: str, default: int) -> int:
    return _whole(options.get(name)) or default


def _whole(value: Any) -> int:
    """Return a count, 0 for what is none: other checks refuse it."""
    try:
        return count(value)
    except (ValueError, TypeError):
        return 0


TURNS = 64  # points of which one gives back all that is free
ROOM = 16e6  # bytes by which a point may raise the peak; Python's own collections come before these add up


def peak() -> float:
    """Return the most bytes of memory that this process has had so far; infinity where the system does not say."""
    if resource is None:
        return math.inf
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


def reclaim(before: float, turn: str = "1") -> None:
    """Collect what a point has left, if the peak was `before` when it began and has grown, or is not known.

    Every point leaves a megabyte or two.  Where its id, in hexadecimal digits, says that it is its `turn`, all that is
    free is given back to the system: collecting takes as long as a short point.
    """
    now, all_of_it = peak(), int(turn, 16) % TURNS == 0
    if all_of_it or now == math.inf or now > before + ROOM:
        gc.collect()
    if all_of_it:
        if arrow := sys.modules.get("pyarrow"):
            arrow.default_memory_pool().release_unused()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)
