"""Small graphs that change, and slow sure ways of finding what is in a snapshot of them."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedsim.data.graph import Graph
from fedsim.data.time.temporal import evolving

Stretch = tuple[int, int, float, float]


def stretches(seed: int, nodes: int, count: int, latest: int) -> list[Stretch]:
    """Return (a, b, since, until) at whole seconds 0 to `latest`: events, edges removed, edges that stay."""
    rng = np.random.default_rng(seed)
    found: list[Stretch] = []
    for _ in range(count):
        a, b, since, kind = (int(rng.integers(high)) for high in (nodes, nodes, latest + 1, 3))
        until: Any = [since, since + int(rng.integers(1, 9)), np.inf][kind]
        found.append((a, b, float(since), float(until)))
    return [*found, (0, 1, 0.0, 0.0), (0, 1, float(latest), float(latest))]  # so that the span is known


def graph_of_stretches(entries: list[Stretch], nodes: int, **more: Any) -> Graph:
    ends, times = np.array([entry[:2] for entry in entries]).T, np.array([entry[2:] for entry in entries]).T
    labels = np.arange(nodes) % 3 - (np.arange(nodes) % 7 == 6) * 10
    more.setdefault("y", np.maximum(labels, -1))
    return evolving(ends, times[0], times[1], nodes, **more)


def edges_between(entries: list[Stretch], begin: float, end: float, closed: bool) -> set[tuple[int, int]]:
    """Return every pair, in both directions, that is there at some moment of [begin, end), or [begin, end]."""
    found = set()
    for a, b, since, until in entries:
        starts_in_time = since <= end if closed else since < end
        if a != b and starts_in_time and (until > begin or since >= begin):
            found |= {(a, b), (b, a)}
    return found


def listed(graph: Graph) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in graph["edges"].T.tolist()]


def in_whole_numbers(graph: Graph) -> set[tuple[int, int]]:
    """Return a client's edges under the whole graph's numbers."""
    return {(int(a), int(b)) for a, b in graph["node"][graph["edges"]].T.tolist()}


entries = st.builds(
    stretches, seed=st.integers(0, 2**31), nodes=st.just(12), count=st.integers(0, 60), latest=st.integers(6, 40)
)
