"""Link prediction: whether two nodes are joined, by the inner product of their embeddings.

The model's output is the embedding.  Training uses the edges of the client's current graph and `opposed`
non-edges for each; scores are over the pairs that the period's graph carries (`fedsim.data.graphs.pairs`),
which are edges of later snapshots and as many non-edges.  Not modelled: directions, weights and
multiplicities of edges, and a learned decoder.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph
from fedsim.data.graphs.pairs import TESTS, VALIDATES
from fedsim.learn.engine.products import product
from fedsim.learn.metric import Judged
from fedsim.learn.model import Parameters
from fedsim.learn.pairs import links, ranking
from fedsim.learn.task import Task

ASKED = {"train": 0, "val": VALIDATES, "test": TESTS}  # no pair belongs to the training split, which has no scores


@dataclass(frozen=True)
class LinkPrediction(Task):
    """Inner products under a logistic loss, negatives redrawn in every training step.

    `mrr` ranks as `fedsim.learn.pairs.ranking` says.  Its negatives are drawn from all nodes of the same
    period that are scored together, whichever client's they are, each with the embedding that its owner's
    model gives it: the server computes it from all embeddings.  An edge to another client's node is in no
    client's pairs, so it may be drawn as a negative.
    """

    judges = ("links", "embeddings")

    width: Count | None = None  # of the embedding; if not given, the model's hidden width
    normalise: bool = False  # divide every embedding by its length
    opposed: Count = 1  # non-edges for each edge in training; EvolveGCN's code takes 50 to 100
    # of an edge in the loss, 1 - weight of a non-edge; EvolveGCN's code takes 0.9 to 0.95
    weight: Annotated[Fraction, Field(gt=0, lt=1)] = 0.5
    mrr: Literal["max", "mean", "min", "sampled_rows"] = "max"  # which of a source's positives is ranked, or the rule
    negatives: Count = 1000  # number of negatives that each source is ranked among

    @property
    def outputs(self) -> int:
        """The width of the embedding."""
        return self.width or self.model.hidden

    def forward(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the embedding (N, outputs) that pairs are scored with."""
        output = super().forward(params, graph)
        return F.normalize(output, dim=1) if self.normalise else output

    def loss(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the weighted mean of -log sigma(±score) over each client's links and their negatives: (K,).

        Zero without links; the links alone if every pair is one.  Without `seed` in the graph, outside
        training, the negatives are the same every time.
        """
        h, known = self.forward(params, graph), links.of(graph)
        fixed = torch.full_like(graph["sizes"], integer(self.seed, "negatives"))
        drawn = links.negatives(known, graph.get("seed", fixed), self.opposed)
        opposed = (known.free.counts > 0).to(h.dtype)
        apart = F.softplus(_scored(h, drawn)).view(self.opposed, -1).sum(0) * opposed[known.client]
        each = self.weight * F.softplus(-_scored(h, known.ends)) + (1 - self.weight) * apart
        total = known.counts.clamp(min=1) * (self.weight + (1 - self.weight) * self.opposed * opposed)
        return product(each.unsqueeze(1), known.pool).squeeze(1) / total

    def examples(self, graph: Graph, *splits: str) -> int:
        """Return the number of links to train on; pairs to score are not examples."""
        return len(links.of(graph).client) if "train" in splits else 0

    def targets(self, graph: Graph, split: str) -> Tensor:
        """Return the numbers of the pairs of that split.  Raises ScenarioError if the graph carries no pairs."""
        if "asked" not in graph:
            message = "'link_prediction' is scored on edges of later snapshots, and the data have none; take a dynamic "
            raise ScenarioError.at("task", f"{message}data set with the stream 'snapshots'")
        return (graph["asked"] == ASKED[split]).nonzero().squeeze(1)

    def rows(self, graph: Graph) -> int:
        """Return how many pairs the graph carries."""
        return graph["pairs"].shape[1]

    def judged(self, output: Tensor, graph: Graph, rows: Tensor, owner: Tensor, owners: int) -> Judged:
        """Return the logits of these pairs, whether they are joined, and what ranks them."""
        logits = _scored(output, graph["pairs"][:, rows])
        return Judged(logits, graph["links"][rows], owner, owners, partial(self._mrr, output, graph, rows))

    def _mrr(self, output: Tensor, graph: Graph, rows: Tensor, owner: Tensor, owners: int) -> Tensor:
        pairs, there = graph["pairs"][:, rows], graph["links"][rows]
        if self.mrr == "sampled_rows":
            return ranking.sampled_rows(_scored(output, pairs), pairs, there, owner, owners)
        period, seed = graph.get("period", torch.zeros_like(graph["y"])), integer(self.seed, "mrr")
        return ranking.mrr(
            output, pairs[:, there], owner[there], owners, period, seed, rule=self.mrr, count=self.negatives
        )

    def flops(self, graph: Graph) -> float:
        """Return the operations of one training step, those of two inner products a link included."""
        products = (1 + self.opposed) * len(links.of(graph).client)
        return super().flops(graph) + 3 * 2 * self.outputs * products


def _scored(h: Tensor, pairs: Tensor) -> Tensor:
    return links.scores(h.index_select(0, pairs[0]), h.index_select(0, pairs[1]))
