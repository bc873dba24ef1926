"""What a client knows of the whole graph: the edges of its own vertices, and who owns the vertex at their other end.

Where clients know their edges to others' vertices (streams of snapshots, and `numbered` ones), an algorithm looks them
up in the overview that the simulator's server has.  A deployed client has this part of it in its package, with the
edges in their order, so that it finds the same.  Edges and owners of anybody else are not in it, nor features, labels
or changes.

Not modelled: how a client learns of these edges; and vertices that get another owner, which would have to travel.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch

from fedsim.clock.repartition import moved
from fedsim.core.errors import Problem, ScenarioError
from fedsim.data.graph import Graph
from fedsim.data.temporal import Overview

NOBODY = -1  # owns a vertex, as far as the client knows
Known = Mapping[str, Any]  # of one snapshot: "edges" (2, E), "vertex" (m,) and "owner" (m,), "vertices" N


def check(overview: Overview) -> None:
    """Raise ScenarioError if vertices change owners."""
    if any(len(moved(overview, t)[0]) for t in range(1, len(overview.owners))):
        message = "vertices get other owners as the graph changes, and what would have to travel then is not deployed"
        raise ScenarioError(
            [Problem("data.partition", f"{message}; take a partition that keeps them, such as 'louvain'")]
        )


def known_to(client: int, overview: Overview) -> Iterator[Known]:
    """Yield what a client knows of each snapshot."""
    for snapshot, owners in zip(overview.snapshots, overview.owners, strict=True):
        owner = torch.from_numpy(owners)
        own = (owner[snapshot["edges"]] == client).any(dim=0)
        edges = snapshot["edges"][:, own]
        vertex = torch.unique(torch.cat([edges.flatten(), (owner == client).nonzero().squeeze(1)]))
        yield {"edges": edges, "vertex": vertex, "owner": owner[vertex], "vertices": len(owner)}


def overview_of(known: Sequence[Known]) -> Overview | None:
    """Return the part of an overview that this is; None where the client knows of no edges to others."""
    if not known:
        return None
    owners = []
    for one in known:
        owner = np.full(one["vertices"], NOBODY, dtype=np.int64)
        owner[one["vertex"].numpy()] = one["owner"].numpy()
        owners.append(owner)
    return Overview([cast(Graph, {"edges": one["edges"]}) for one in known], owners)
