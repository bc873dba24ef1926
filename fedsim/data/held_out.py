"""Build test graphs of the vertices that no client owns, on which no client ever trains.

A graph holds them and the edges among them; every labelled one is tested.  Edges to vertices of clients are cut, as
those between clients are.  Not modelled: a test set that shares edges with training data.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from fedsim.data.graph import Graph, induced, with_keys, with_masks
from fedsim.data.windows import by_degree

Ints = npt.NDArray[np.int64]


def held_out(snapshots: Sequence[Graph], owners: Sequence[Ints]) -> list[Graph]:
    """Return for each snapshot (of the whole graph) the graph of the vertices that have no owner (N,), -1, in any
    snapshot.

    The labelled ones are the mask `test`.
    """
    nobodys = np.all([owner < 0 for owner in owners], axis=0)
    return [_asked(snapshot, nobodys) for snapshot in snapshots]


def _asked(whole: Graph, nobodys: npt.NDArray[np.bool_]) -> Graph:
    there = nobodys & whole["arrived"].numpy() if "arrived" in whole else nobodys
    graph = induced(whole, np.flatnonzero(there))
    if "bins" in whole:
        graph = with_keys(graph, {"x": by_degree(whole["bins"], graph["edges"], len(graph["y"]))})
    known = graph["y"] >= 0
    return with_masks(graph, torch.zeros_like(known), torch.zeros_like(known), known)
