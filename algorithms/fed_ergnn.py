"""Fed-ERGNN: FedAvg with experience replay on each client (ER-GNN: Zhou and Cao, AAAI 2021).

    L = β L_new + (1 − β) L_replay,     originally β = |B| / (|D_train| + |B|) for a buffer B: `beta: null`

When a period has ended, `keep` training nodes v of each class V are kept, with features and label only, and replayed
without edges.  They are selected with the client's own model after its last training in the period, by one of three
rules:

    coverage     most u ∈ V with |v − u| < ε · mean distance within V: POWER's reading of ER-GNN, which is DSLR's rule
    other_class  fewest u of the period's other classes with |v − u| < d: ER-GNN's coverage maximisation
    mean         least |v − mean of V|: ER-GNN's mean of features

where v stands for its features or its embedding.  Ties go to the first.  Messages are FedAvg's.

Two places of the code in circulation (CGLB, BeGin) cannot do what they intend.  For the mean it sorts dot products with
the mean in ascending order, which keeps the nodes least like it: `official_mean`.  Where a class is larger than
`sample`, it reads positions in the sample as positions in the class; here the sample's own nodes are kept.  It also
selects late, in the first step of the new period.  Distinct binary features are never closer than 1, so under
other_class with d = 0.5 the first node of the class without a twin in another class is kept.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph, as_dense, take_rows
from fedsim.learn.algorithm import Disclosed, Job, Memory, Needs, Tree, Work
from fedsim.learn.continual import replay
from fedsim.learn.engine import ops, tree
from fedsim.learn.model import Parameters


@dataclass(frozen=True)
class FedERGNN(FedAvg):
    """With coverage on embeddings it is POWER without transfer and with α = 1."""

    title = "Fed-ERGNN"
    any_model = True
    discloses = Disclosed(("updates",))
    beta: Fraction | None = 0.1  # share of the new period's loss; null: each client's own ratio, as in the original
    keep: Count = 1  # nodes kept per class and period
    select: Literal["coverage", "other_class", "mean"] = "coverage"  # the rule of selection
    on: Literal["features", "embedding"] | None = None  # what it measures; null: embedding for coverage, else features
    epsilon: float = 0.1  # radius of coverage, in mean distances of the class
    distance: float = 0.5  # radius of other_class, in units of what it measures
    sample: Count = 1000  # most nodes of a class that other_class compares
    official_mean: bool = False  # the mean rule as in the published code, which keeps the least similar
    tunes = {"beta": replay.BETA}

    @property
    def needs(self) -> frozenset[Needs]:  # type: ignore[override]
        """Embeddings by the client's model as it was, or features that are vectors."""
        return frozenset({"embed", "own buffers"} if self.measures() == "embedding" else {"vectors"})

    def work(self, job: Job) -> Work:
        """Close the period that has ended, then train with replay."""
        trained = yield from self.fit(job, {"buffer": replay.closed(job, self.experience)})
        job.memory["last"] = {"period": job.period, "data": job.data, "model": trained, "seed": job.seed}
        return {"update": tree.sub(trained, job.download["model"]), "samples": self.samples(job.data)}

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return β L_new + (1 − β) L_replay, or L_new alone where nothing is kept yet."""
        buffer, beta = given["buffer"], self.beta
        if beta is None:  # each client's ratio (K,)
            new = ops.sum_by_client(data["train"].float(), data)
            beta = buffer["sizes"] / (new + buffer["sizes"]).clamp(min=1)
        return replay.mixed(self.task, params, data, buffer, beta)

    def dry_work(self, job: Job) -> None:
        """Note what will be replayed."""
        replay.dry(job, self.keep)

    def effort(self, job: Job) -> float:
        """Count the nodes replayed beside the graph's own."""
        return 1 + replay.replayed(job, self.keep)

    def extra_steps(self, job: Job) -> float:
        """Count the forward pass, a third of a step, whose embedding the rule measures when a period has ended."""
        return 1 / 3 if self.measures() == "embedding" and replay.closes(job) else 0.0

    def measures(self) -> str:
        """Return what nodes are compared by: features or embedding."""
        return self.on or ("embedding" if self.select == "coverage" else "features")

    @torch.no_grad()
    def experience(self, last: Memory) -> Graph:
        """Return the best nodes of each class of a period, as a buffer."""
        data, vectors = last["data"], self.vectors(last)
        return replay.of_each_class(data, lambda rows: self.choose(data, vectors, rows, last["seed"]))

    def vectors(self, last: Memory) -> Tensor:
        """Return what nodes are compared by (N, H), dense or CSR."""
        if self.measures() == "features":
            return last["data"]["x"]
        return self.task.embed(tree.stack([last["model"]]), last["data"])

    def choose(self, data: Graph, vectors: Tensor, rows: Tensor, seed: int) -> Tensor:
        """Return places in `rows`, the training nodes of one class."""
        if self.select == "other_class":
            return self.loneliest(data, vectors, rows, seed)
        z = as_dense(take_rows(vectors, rows))
        if self.select == "coverage":
            return replay.greedy_cover(replay.coverage(z, self.epsilon, scale="class"), self.keep)
        centre = z.mean(0)
        rank = z @ centre if self.official_mean else (z - centre).norm(dim=1)
        return torch.argsort(rank, stable=True)[: self.keep]

    def loneliest(self, data: Graph, vectors: Tensor, rows: Tensor, seed: int) -> Tensor:
        """Return the places with the fewest nodes of other classes nearby; a period of one class has only ties."""
        label = data["y"][rows[0]]
        generator = ops.generator(seed, "ergnn", int(label))
        classes = [nodes for nodes in replay.class_rows(data) if data["y"][nodes[0]] != label]
        others = [self.sampled(nodes, generator) for nodes in classes]
        places = self.sampled(torch.arange(len(rows), device=rows.device), generator)
        away = torch.cat([rows[:0], *others])
        # not through products of matrices, whose rounding would decide who is at distance zero
        z, others_z = (as_dense(take_rows(vectors, some)) for some in (rows[places], away))
        far = torch.cdist(z, others_z, compute_mode="donot_use_mm_for_euclid_dist")
        return places[torch.argsort((far < self.distance).sum(1), stable=True)[: self.keep]]

    def sampled(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Return `sample` of the rows in their order, drawn without replacement, or all if there are fewer."""
        if len(rows) <= self.sample:
            return rows
        drawn = torch.randperm(len(rows), generator=generator)[: self.sample].sort().values
        return rows[drawn.to(rows.device)]
