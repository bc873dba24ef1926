"""Small graphs and random streams for the tests of the data layer."""

from collections.abc import Callable

import numpy as np
import torch
from hypothesis import strategies as st

from fedsim.core import seeds
from fedsim.data.dataset import undirected
from fedsim.data.graph import Graph, graph_of, sparse_if_worth


def drawn(nodes: int, classes: int, seed: int, edges: int = 60, sparse: bool = False) -> Graph:
    """Return a uniformly random graph with three features, its first one the node's number plus one."""
    rng = np.random.default_rng(seed)
    ends = torch.from_numpy(rng.integers(nodes, size=(2, edges)))
    x = torch.zeros(nodes, 3)
    x[:, 0] = torch.arange(nodes) + 1.0
    x[:, 2] = torch.from_numpy(rng.integers(2, size=nodes))
    y = torch.from_numpy(rng.integers(classes, size=nodes))
    return graph_of(sparse_if_worth(x, below=2.0, wide=0) if sparse else x, undirected(ends, nodes), y)


def names_to_streams(seed: int) -> Callable[[str], np.random.Generator]:
    """Return a function from a name to its random stream."""
    return lambda name: seeds.generator(seed, name)


def same(one: Graph, other: Graph) -> bool:
    """Return whether two graphs are equal in everything."""
    keys = ("edges", "y", "train", "val", "test", "client", "sizes")
    dense = [[g["x"].to_dense(), *(g[key] for key in keys)] for g in (one, other)]  # type: ignore[literal-required]
    return all(torch.equal(mine, theirs) for mine, theirs in zip(*dense, strict=True))


graphs = st.builds(
    drawn,
    nodes=st.integers(5, 60),
    classes=st.integers(1, 7),
    seed=st.integers(0, 2**31),
    edges=st.integers(0, 120),
    sparse=st.booleans(),
)
