"""Fed-ERGNN: FedAvg with experience replay on each client (ER-GNN: Zhou and Cao, AAAI 2021).

    L = β L_new + (1 − β) L_replay,     originally β = |B| / (|D_train| + |B|) for a buffer B: `beta: null`

When a period has ended, `keep` training vertices v of each class V are kept, with features and label only, and replayed
without edges.  They are selected with the client's own model after its last training in the period, by one of three
rules:

    coverage     most u ∈ V with |v − u| < ε · mean distance within V: POWER's reading of ER-GNN, which is DSLR's rule
    other_class  fewest u of the period's other classes with |v − u| < d: ER-GNN's coverage maximisation
    mean         least |v − mean of V|: ER-GNN's mean of features

where v stands for its features or its embedding.  Ties go to the first.  Messages are FedAvg's.

Two places of the code in circulation (CGLB, BeGin) cannot do what they intend.  For the mean it sorts dot products with
the mean in ascending order, which keeps the vertices least like it: `official_mean`.  Where a class is larger than
`sample`, it reads positions in the sample as positions in the class; here the sample's own vertices are kept.  It also
selects late, in the first step of the new period.  Distinct binary features are never closer than 1, so under
other_class with d = 0.5 the first vertex of the class without a twin in another class is kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count, Fraction
from fedsim.core.wire import Tree
from fedsim.data.graph import Graph
from fedsim.learn import ops, replay, tree
from fedsim.learn.algorithm import Job, Memory, Work
from fedsim.learn.model import Parameters

Vectors = Callable[[Tensor], Tensor]  # rows (n,) → what they are compared by (n, H)


@dataclass(frozen=True)
class FedERGNN(FedAvg):
    """With coverage on embeddings it is POWER without transfer and with α = 1."""

    title: ClassVar[str] = "Fed-ERGNN"
    beta: Fraction | None = 0.1  # share of the new period's loss; null: each client's own ratio, as in the original
    keep: Count = 1  # vertices kept per class and period
    select: Literal["coverage", "other_class", "mean"] = "coverage"  # the rule of selection
    on: Literal["features", "embedding"] | None = None  # what it measures; null: embedding for coverage, else features
    epsilon: float = 0.1  # radius of coverage, in mean distances of the class
    distance: float = 0.5  # radius of other_class, in units of what it measures
    sample: Count = 1000  # most vertices of a class that other_class compares
    official_mean: bool = False  # the mean rule as in the published code, which keeps the least similar
    tunes: ClassVar[Mapping[str, Span]] = {"beta": replay.BETA}

    def work(self, job: Job) -> Work:
        """Close the period that has ended, then train with replay."""
        buffer = replay.closed(job, self.experience)
        trained = yield from self.fit(job, {"buffer": buffer})
        job.memory["last"] = {"period": job.period, "data": job.data, "model": trained, "seed": job.seed}
        return {"update": tree.sub(trained, job.download["model"]), "samples": self.samples(job.data)}

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return β L_new + (1 − β) L_replay, or L_new alone where nothing is kept yet."""
        buffer = given["buffer"]
        return replay.mixed(self.task, params, data, buffer, self.share_of_new(data, buffer))

    def share_of_new(self, data: Graph, buffer: Graph) -> float | Tensor:
        """Return β: one for all, or each client's own (K,)."""
        if self.beta is not None:
            return self.beta
        new = ops.sum_by_client(data["train"].float(), data)
        return buffer["sizes"] / (new + buffer["sizes"]).clamp(min=1)

    def dry_work(self, job: Job) -> None:
        """Note what will be replayed."""
        replay.dry(job, self.keep)

    def effort(self, job: Job) -> float:
        """Count the vertices replayed beside the graph's own."""
        return 1 + replay.replayed(job, self.keep)

    def extra_steps(self, job: Job) -> float:
        """Count the forward pass, a third of a step, whose embedding the rule measures when a period has ended."""
        return 1 / 3 if self.measures() == "embedding" and replay.closes(job) else 0.0

    def measures(self) -> str:
        """Return what vertices are compared by: features or embedding."""
        return self.on or ("embedding" if self.select == "coverage" else "features")

    @torch.no_grad()
    def experience(self, last: Memory) -> Graph:
        """Return the best vertices of each class of a period, as a buffer."""
        data, vectors = last["data"], self.vectors(last)
        return replay.of_each_class(data, lambda rows: self.choose(data, vectors, rows, last["seed"]))

    def vectors(self, last: Memory) -> Vectors:
        """Return the function from rows (n,) to the vectors (n, H) that they are compared by."""
        data = last["data"]
        if self.measures() == "features":
            return lambda rows: replay.dense(data, rows)
        z = self.task.embed(tree.stack([last["model"]]), data)
        return lambda rows: z[rows]

    def choose(self, data: Graph, vectors: Vectors, rows: Tensor, seed: int) -> Tensor:
        """Return places in `rows`, the training vertices of one class."""
        if self.select == "other_class":
            return self.loneliest(data, vectors, rows, seed)
        z = vectors(rows)
        if self.select == "coverage":
            return replay.greedy_cover(replay.coverage(z, self.epsilon, scale="class"), self.keep)
        centre = z.mean(0)
        rank = z @ centre if self.official_mean else (z - centre).norm(dim=1)
        return torch.argsort(rank, stable=True)[: self.keep]

    def loneliest(self, data: Graph, vectors: Vectors, rows: Tensor, seed: int) -> Tensor:
        """Return the places with the fewest vertices of other classes nearby; a period of one class has only ties."""
        label = data["y"][rows[0]]
        generator = torch.Generator().manual_seed(integer(seed, "ergnn", int(label)))
        others = [self.some(theirs, generator) for theirs in replay.class_rows(data) if data["y"][theirs[0]] != label]
        places = self.some(torch.arange(len(rows), device=rows.device), generator)
        away = torch.cat([rows[:0], *others])
        # not through products of matrices, whose rounding would decide who is at distance zero
        far = torch.cdist(vectors(rows[places]), vectors(away), compute_mode="donot_use_mm_for_euclid_dist")
        return places[torch.argsort((far < self.distance).sum(1), stable=True)[: self.keep]]

    def some(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Return `sample` of the rows in their order, drawn without replacement, or all if there are fewer."""
        if len(rows) <= self.sample:
            return rows
        drawn = torch.randperm(len(rows), generator=generator)[: self.sample].sort().values
        return rows[drawn.to(rows.device)]
