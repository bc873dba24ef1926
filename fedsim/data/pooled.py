"""The test vertices of all clients as one graph: those edges between clients that join two of them are back.

Accuracy on it is what the one-shot methods of federated graph learning report (GHOST, ICML 2025; FedTAD, IJCAI 2024).
No vertex of it trains or validates anywhere.  Its edges to training vertices are cut, so that a model sees other
neighbourhoods here than at any client.  What `data.keep` takes from clients is not taken from it.
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
