"""Links between clients, which the server scores with the embeddings of both ends (DG-CoLearn, appendix F).

Scored are the edges of the current snapshot that the partition cuts, once each, and as many non-edges between
nodes of distinct clients.  No client ever sees these pairs.  With positives alone, as in published code,
average precision would be 1 whatever the scores.  Not modelled: messages that would bring both embeddings
together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsim.core.seeds import generator
from fedsim.data.graph import Graph
from fedsim.data.graphs import pairs
from fedsim.data.time.temporal import Overview
from fedsim.learn.metric import Metric
from fedsim.learn.pairs import links
from fedsim.learner.scoring.split import Block, Prediction, Scene, Scorer, Split, link_scores


@dataclass(frozen=True)
class Across(Split):
    """Pairs between clients, in the latest of the scored periods."""

    def refuse(self, scene: Scene) -> str | None:
        """Return why not: it needs embeddings of nodes in snapshots."""
        if scene.algorithm.overview is None or "embeddings" not in scene.task.judges:
            return "scores links between clients: it needs task: link_prediction under the stream 'snapshots'"
        return None

    def scorer(self, scene: Scene, metrics: Mapping[str, Metric]) -> Scorer:
        """Return what scores links by the metrics that can."""
        overview, seed = scene.algorithm.overview, scene.task.seed
        assert overview is not None

        def rows(prediction: Prediction) -> Iterator[Block]:
            graph, period = prediction.graph, prediction.period
            return prediction.of_server(*scores(prediction.output, graph, overview, period, seed, metrics))

        return rows


def scores(
    output: Tensor, graph: Graph, overview: Overview, period: int, seed: int, metrics: Mapping[str, Metric]
) -> tuple[dict[str, float], int]:
    """Return the metrics of links over the pairs between clients in a snapshot, and how many pairs there are.

    `output` (N, H) are embeddings of a union's nodes, of which `node` and `period` tell what they are.
    """
    snapshot, owner = overview.snapshots[period], overview.owners[period]
    asked, linked = pairs.across(snapshot, owner, generator(seed, "data.pairs.across", period))
    rows = torch.full((len(owner),), -1, dtype=torch.long)
    now = (graph["period"] == period).nonzero().squeeze(1).cpu()
    rows[graph["node"].cpu()[now]] = now
    ends = rows[asked]
    known = (ends >= 0).all(0)
    ends, linked = ends[:, known].to(output.device), linked[known].to(output.device)
    if not len(linked):
        return {}, 0
    values = links.scores(output.index_select(0, ends[0]), output.index_select(0, ends[1]))
    return link_scores(values, linked, metrics)
