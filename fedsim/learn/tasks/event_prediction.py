"""Event prediction: whether two nodes have an event at a given second, judged by a model of pairs.

Training uses the fresh events of the client's graph: each step draws `batch` of them, and `opposed` negatives
for each (`fedsim.learn.pairs.histories`).  Scores are over the pairs that later graphs carry
(`fedsim.data.time.event_pairs`).  The original walks through the events in order of time and always replaces
the destination; not modelled, as are directions and rankings (MRR).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.units import Count
from fedsim.data.graph import Graph
from fedsim.data.graphs.pairs import TESTS, VALIDATES
from fedsim.learn.metric import Judged
from fedsim.learn.model import PairModel, Parameters
from fedsim.learn.pairs import histories
from fedsim.learn.task import Task

ASKED = {"val": VALIDATES, "test": TESTS}


@dataclass(frozen=True)
class EventPrediction(Task):
    """A logistic loss over events and negatives, redrawn in every training step."""

    judges = ("links",)
    pairs = True

    batch: Count = 200  # events of a training step
    opposed: Count = 1  # negatives for each event in training

    @property
    def outputs(self) -> int:
        """One logit a pair."""
        return 1

    @property
    def judge(self) -> PairModel:
        """The model.  Raises ScenarioError where it is not one of pairs."""
        if not isinstance(self.model, PairModel):
            message = "'event_prediction' judges pairs, and this model embeds nodes; take dygformer"
            raise ScenarioError.at("model", message)
        return self.model

    def loss(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the mean of -log sigma(±logit) over each client's drawn events and their negatives: (K,).

        Zero without events; the events alone where there is no third node.  Without `seed` in the graph,
        outside training, the same are drawn every time.
        """
        counts = histories.fresh_events(graph).counts
        here = (counts > 0).nonzero().squeeze(1)
        seeds = graph.get("seed", torch.full_like(counts, integer(self.seed, "negatives")))
        drawn = histories.asking(graph, seeds, here, self.batch, self.opposed)
        logits = self.judge.forward(params, drawn).view(len(here), 1 + self.opposed, self.batch)
        possible = (graph["sizes"][here] > 2).to(logits.dtype)
        total = F.softplus(-logits[:, 0]).sum(1) + possible * F.softplus(logits[:, 1:]).sum((1, 2))
        each = total / (self.batch * (1 + self.opposed * possible))
        return each.new_zeros(len(counts)).index_copy(0, here, each)

    def examples(self, graph: Graph, *splits: str) -> int:
        """Return the number of events to train on; pairs to score are not examples."""
        return len(histories.fresh_events(graph).number) if "train" in splits else 0

    def targets(self, graph: Graph, split: str) -> Tensor:
        """Return the numbers of the pairs of that split.  Raises ScenarioError where none can be asked."""
        if split not in ASKED:
            message = f"{split!r}: 'event_prediction' is scored on later events; take test or val"
            raise ScenarioError.at("measure.splits", message)
        return (graph["asked"] == ASKED[split]).nonzero().squeeze(1)

    def rows(self, graph: Graph) -> int:
        """Return how many pairs the graph carries."""
        return graph["pairs"].shape[1]

    answers = rows

    def judged(self, output: Tensor, graph: Graph, rows: Tensor, owner: Tensor, owners: int) -> Judged:
        """Return the logits of these pairs, and whether they have an event."""
        return Judged(output[rows], graph["links"][rows], owner, owners)

    def flops(self, graph: Graph) -> float:
        """Return the operations of one training step: none without events."""
        if not len(histories.fresh_events(graph).number):
            return 0.0
        pairs = self.batch * (1 + self.opposed)
        return 3 * pairs * self.judge.pair_flops(graph["x"].shape[1], graph["message"].shape[1])

    def step_bytes(self, graph: Graph) -> int:
        """Return roughly the bytes that a training step keeps for its pairs."""
        return self.batch * (1 + self.opposed) * self.judge.pair_bytes()
