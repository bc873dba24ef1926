"""Event prediction: whether two vertices have an event at a given second, judged by a model of pairs.

Training uses the fresh events of the client's graph: each step draws `batch` of them, with replacement, and for each of
them `opposed` negatives at the same second, in which one end, drawn at random, is replaced by any third vertex of the
client.  Scores are over the pairs that later graphs carry (`fedsim.data.event_pairs`).  The original walks through the
events in order of time and always replaces the destination; not modelled, as are directions and rankings (MRR).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.units import Count
from fedsim.data.event_pairs import replaced
from fedsim.data.graph import Graph, with_keys
from fedsim.data.pairs import TESTS, VALIDATES
from fedsim.learn import layout, ops
from fedsim.learn import metrics as measures
from fedsim.learn.model import Parameters
from fedsim.learn.pair_model import PairModel
from fedsim.learn.task import Task

ASKED = {"val": VALIDATES, "test": TESTS}
BITS = 2**62 - 1


class Fresh(NamedTuple):
    """The events that are trained on."""

    number: Tensor  # (M',) among the graph's events, client by client
    counts: Tensor  # (K,) of each client
    first: Tensor  # (K,) where each client's begin


@dataclass(frozen=True)
class EventPrediction(Task):
    """A logistic loss over events and negatives, redrawn in every training step."""

    metrics: ClassVar[Sequence[str]] = ("accuracy", "auc", "average_precision")
    pairs: ClassVar[bool] = True

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
            message = "'event_prediction' judges pairs, and this model embeds vertices; take dygformer"
            raise ScenarioError([Problem("model", message)])
        return self.model

    def loss(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the mean of -log sigma(±logit) over each client's drawn events and their negatives: (K,).

        Zero without events; the events alone where there is no third vertex.  Without `seed` in the graph, outside
        training, the same are drawn every time.
        """
        fresh = _fresh(graph)
        here = (fresh.counts > 0).nonzero().squeeze(1)
        logits = self.judge.forward(params, self._drawn(graph, fresh, here))
        logits = logits.view(len(here), 1 + self.opposed, self.batch)
        possible = (graph["sizes"][here] > 2).to(logits.dtype)
        total = F.softplus(-logits[:, 0]).sum(1) + possible * F.softplus(logits[:, 1:]).sum((1, 2))
        each = total / (self.batch * (1 + self.opposed * possible))
        return each.new_zeros(len(fresh.counts)).index_copy(0, here, each)

    def _drawn(self, graph: Graph, fresh: Fresh, here: Tensor) -> Graph:
        """Return the graph with what a step is trained on as its pairs: events, then negatives, client by client.

        `here` (k,) are the clients that have events.
        """
        sizes, counts = graph["sizes"][here], fresh.counts[here]
        fixed = torch.full_like(graph["sizes"], integer(self.seed, "negatives"))
        seeds = graph.get("seed", fixed)[here].unsqueeze(1)
        counter = torch.arange((1 + self.opposed) * self.batch, device=sizes.device)
        words = ops.words(seeds, counter).view(len(here), 1 + self.opposed, self.batch)
        place = (words[:, :1] >> 1 & BITS) % counts.view(-1, 1, 1)
        number = fresh.number[place + fresh.first[here].view(-1, 1, 1)].expand_as(words)
        ends, room = graph["events"][:, number], (sizes - 2).clamp(min=1).view(-1, 1, 1)
        start = (graph["sizes"].cumsum(0) - graph["sizes"])[here].view(-1, 1, 1)
        ranks = (words[:, 1:] >> 2 & BITS) % room
        apart = replaced((ends[:, :, 1:] - start).flatten(1), (words[:, 1:] & 1).flatten(), ranks.flatten())
        apart = (apart.view_as(ends[:, :, 1:]) + start).clamp(max=len(graph["y"]) - 1)  # where there is no third
        pairs = torch.cat([ends[:, :, :1], apart], dim=2).flatten(1)
        return with_keys(graph, {"pairs": pairs, "moments": graph["happened"][number].flatten()})

    def examples(self, graph: Graph, *splits: str) -> int:
        """Return the number of events to train on; pairs to score are not examples."""
        return len(_fresh(graph).number) if "train" in splits else 0

    def targets(self, graph: Graph, split: str) -> Tensor:
        """Return the numbers of the pairs of that split.  Raises ScenarioError where none can be asked."""
        if split not in ASKED:
            message = f"{split!r}: 'event_prediction' is scored on later events; take test or val"
            raise ScenarioError([Problem("measure.splits", message)])
        return (graph["asked"] == ASKED[split]).nonzero().squeeze(1)

    def rows(self, graph: Graph) -> int:
        """Return how many pairs the graph carries."""
        return graph["pairs"].shape[1]

    def answers(self, graph: Graph) -> int:
        """Return how many pairs the graph carries."""
        return graph["pairs"].shape[1]

    def scores(
        self, output: Tensor, graph: Graph, rows: Tensor, owner: Tensor, owners: int, metrics: Sequence[str]
    ) -> dict[str, Tensor]:
        """Return each metric over each owner's pairs, and their number as `weight`."""
        logits, there = output[rows], graph["links"][rows]
        values = {name: measures.LINKS[name](logits, there, owner, owners) for name in metrics}
        return {**values, "weight": owner.bincount(minlength=owners)}

    def flops(self, graph: Graph) -> float:
        """Return the operations of one training step: none without events."""
        if not len(_fresh(graph).number):
            return 0.0
        pairs = self.batch * (1 + self.opposed)
        return 3 * pairs * self.judge.pair_flops(graph["x"].shape[1], graph["message"].shape[1])

    def step_bytes(self, graph: Graph) -> int:
        """Return roughly the bytes that a training step keeps for its pairs."""
        return self.batch * (1 + self.opposed) * self.judge.pair_bytes()


def _fresh(graph: Graph) -> Fresh:
    found: Fresh = layout.once(graph, "fresh", (graph["events"], graph["fresh"]), lambda: _of_client(graph))
    return found


def _of_client(graph: Graph) -> Fresh:
    number = graph["fresh"].nonzero().squeeze(1)
    counts = torch.bincount(graph["client"][graph["events"][0][number]], minlength=len(graph["sizes"]))
    return Fresh(number, counts, counts.cumsum(0) - counts)
