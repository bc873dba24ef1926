"""Links between clients, which the server scores with the embeddings of both ends (DG-CoLearn, appendix F).

Scored are the edges of the current snapshot that the partition cuts, once each, and as many non-edges between vertices
of distinct clients.  No client ever sees these pairs.  With positives alone, as in published code, average precision
would be 1 whatever the scores.  Not modelled: messages that would bring both embeddings together.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from fedsim.core.seeds import generator
from fedsim.data import pairs
from fedsim.data.graph import Graph
from fedsim.data.temporal import Overview
from fedsim.learn import links
from fedsim.learn.metric import Judged, Metric

SPLIT = "across"


def scores(
    output: Tensor, graph: Graph, overview: Overview, period: int, seed: int, metrics: Mapping[str, Metric]
) -> tuple[dict[str, float], int]:
    """Return the metrics of links over the pairs between clients in a snapshot, and how many pairs there are.

    `output` (N, H) are embeddings of a union's vertices, of which `vertex` and `period` tell what they are.
    """
    snapshot, owner = overview.snapshots[period], overview.owners[period]
    asked, there = pairs.across(snapshot, owner, generator(seed, "data.pairs.across", period))
    rows = torch.full((len(owner),), -1, dtype=torch.long)
    now = (graph["period"] == period).nonzero().squeeze(1).cpu()
    rows[graph["vertex"].cpu()[now]] = now
    ends = rows[asked]
    known = (ends >= 0).all(0)
    ends, there = ends[:, known].to(output.device), there[known].to(output.device)
    if not len(there):
        return {}, 0
    values = links.scores(output.index_select(0, ends[0]), output.index_select(0, ends[1]))
    whose = torch.zeros_like(there, dtype=torch.long)
    judged = Judged(values, there, whose, 1)
    return {name: float(metric.values(judged)) for name, metric in metrics.items()}, len(there)
