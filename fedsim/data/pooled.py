"""The test vertices of all clients as one graph, with the edges between clients that join two of them.

Accuracy on it is what the one-shot methods of federated graph learning report (GHOST, ICML 2025; FedTAD, IJCAI 2024).
None of its vertices trains or validates anywhere.  Edges to training vertices are cut, so that neighbourhoods differ
from those at clients.  `data.keep` does not apply to it.
"""

from collections.abc import Sequence

import numpy as np
import torch

from fedsim.data.graph import Graph, induced, with_masks


def pooled(whole: Graph, owned: Sequence[np.ndarray], graphs: Sequence[Graph]) -> Graph:
    """Return the subgraph induced on all clients' test vertices, ascending by their numbers; all are in `test`.

    `owned` are each client's vertices in the order in which its graph, of `graphs`, has them.
    """
    asked = [own[graph["test"].numpy()] for own, graph in zip(owned, graphs, strict=True)]
    graph = induced(whole, np.sort(np.concatenate(asked)))
    everybody = torch.ones(len(graph["y"]), dtype=torch.bool)
    return with_masks(graph, ~everybody, ~everybody, everybody)
