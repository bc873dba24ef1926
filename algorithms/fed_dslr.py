"""Fed-DSLR: replay of diverse nodes on a learned structure (Choi et al., WWW 2024).

    L = β L_new + (1 − β) L_replay, with β = |B| / (|D| + |B|) for the option 0

When a period has ended, its nodes with the highest coverage are kept, features and labels only.  In its first job of
a later period a client learns edges for them, with a copy of the model that is then discarded:

    A = 50 nearest of buffer node b by ‖z_b − z_v‖, z of the model as downloaded
    99 Adam steps on BCE(σ((cos(z_u, z_v) + 1) / 2), is an edge) + β L_new + (1 − β) L_replay
    b is linked both ways with the 5 of A of the largest cosine that it is not linked with yet

The cross-entropy takes all edges and half as many random pairs that are not edges, drawn again in each step.  L_replay
then runs on the client's graph with the buffer attached by these edges, L_new on the client's own graph.  Messages are
FedAvg's.

The published code trains the model itself in those steps and deletes old edges of the buffer below a cosine of 0.7;
here each round would then train a hundred steps more than the other methods do, and a buffer without edges has none to
delete.  The code's logit lies between 0 and 1, so no pair is ever considered unlikely to be an edge; this does not
affect the order of the cosines, which is all that is used.  The embedding is the one after the last rectifier, as for
the other replay methods.  The steps run client by client within a job, hence slower than other training here.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Disclosed, Job, Tree, Work
from fedsim.learn.continual import replay
from fedsim.learn.engine import ops, tree
from fedsim.learn.engine.blocks import selection
from fedsim.learn.engine.optimiser import Adam, descend
from fedsim.learn.engine.products import product
from fedsim.learn.model import Parameters


@dataclass(frozen=True)
class FedDslr(FedAvg):
    """Without `structure` the buffer is replayed without edges: Fed-ERGNN with its rule of the same class."""

    title = "Fed-DSLR"
    any_model = True
    discloses = Disclosed(("updates",))
    needs = frozenset({"embed", "vectors", "own buffers"})
    beta: Fraction = 0.1  # share of the new period's loss; 0: the buffer's share of all training nodes
    keep: Count = 1  # nodes kept per class and period
    epsilon: float = 0.1  # radius of the coverage, in mean distances of the class
    structure: bool = True  # false: replay isolated nodes
    candidates: Count = 50  # nearest nodes that a buffer node may be linked to
    links: Count = 5  # edges learned per buffer node
    structure_steps: Count = 99  # Adam steps of structure learning, once per period
    structure_lr: float = 1e-2  # their learning rate
    tunes = {"beta": replay.BETA}

    def work(self, job: Job) -> Work:
        """Close the period that has ended, connect what is kept to the new one, and train with replay."""
        buffer = replay.closed(job, lambda last: self.select(last["data"], last["model"]))
        given = {"buffer": self.connected(job, buffer), "beta": self.balance(job.data, buffer)}
        trained = yield from self.fit(job, given)
        job.memory["last"] = {"period": job.period, "data": job.data, "model": trained}
        return {"update": tree.sub(trained, job.download["model"]), "samples": self.samples(job.data)}

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return β L_new + (1 − β) L_replay, or L_new alone where nothing is kept yet."""
        return replay.mixed(self.task, params, data, given["buffer"], given["beta"])

    def balance(self, data: Graph, buffer: Graph) -> float | Tensor:
        """Return β, the client's own if it follows from the sizes."""
        replayed = len(buffer["y"])
        return self.beta or replayed / max(1, replayed + int(data["train"].sum()))

    def dry_work(self, job: Job) -> None:
        """Note what will be replayed, and that its structure is learned."""
        if self.structure and self.replays(job):
            job.memory["attached"] = {"period": job.period}
        replay.dry(job, self.keep)

    def effort(self, job: Job) -> float:
        """Count replay's pass over the client's whole graph, or over the buffer where it has no edges."""
        return 2.0 if self.structure and self.replays(job) else 1 + replay.replayed(job, self.keep)

    def extra_steps(self, job: Job) -> float:
        """Count structure learning, each step of which is two passes, in a period's first job with a buffer.

        And the forward pass, a third of a step, on which the buffer is chosen when a period has ended.
        """
        learns = self.structure and self.replays(job) and self.unconnected(job)
        return (2.0 * self.structure_steps if learns else 0.0) + replay.closes(job) / 3

    def replays(self, job: Job) -> bool:
        """Return whether this job will have something to replay, also from the period that has just ended."""
        buffer = job.memory.get("buffer")
        ended = replay.closes(job) and bool(job.memory["last"]["data"]["train"].any())
        return bool(job.data["train"].any()) and (ended or (buffer is not None and len(buffer["y"]) > 0))

    def unconnected(self, job: Job) -> bool:
        """Return whether no structure has been learned in this period yet."""
        return job.memory.get("attached", {}).get("period") != job.period

    @torch.no_grad()
    def select(self, data: Graph, model: Parameters) -> Graph:
        """Return the nodes of a period that cover most of their class, as a buffer."""
        z = replay.embedding(self.task, tree.stack([model]), data)
        return replay.of_each_class(
            data, lambda rows: replay.greedy_cover(replay.coverage(z[rows], self.epsilon, scale="class"), self.keep)
        )

    # ---- structure learning

    def connected(self, job: Job, buffer: Graph) -> Graph:
        """Return what is replayed: the graph with the buffer's nodes after its own, joined by learned edges.

        These are learned in the period's first job.
        """
        if not self.structure or not self.replays(job):
            return buffer
        if self.unconnected(job):
            apart, start = replay.attached(job.data, buffer), tree.stack([job.download["model"]])
            learned = self.learn(job, buffer, apart, start)
            with torch.no_grad():
                before, after = replay.embedding(self.task, start, apart), replay.embedding(self.task, learned, apart)
            graph = replay.attached(job.data, buffer, self.edges(before, after, len(job.data["y"])))
            job.memory["attached"] = {"period": job.period, "graph": graph}
        return job.memory["attached"]["graph"]

    def learn(self, job: Job, buffer: Graph, apart: Graph, start: Parameters) -> Parameters:
        """Return a copy of the model after learning which nodes are linked, without dropout as published."""
        generator = ops.generator(job.seed, "fed_dslr", "pairs")
        beta = self.balance(job.data, buffer)

        def loss(model: Parameters, step: int) -> Tensor:
            link = self.link_loss(replay.embedding(self.task, model, apart), apart["edges"], generator)
            return link + replay.mixed(self.task, model, job.data, buffer, beta).sum()

        return tree.stack([descend(tree.at(start, 0), loss, Adam(self.structure_lr), self.structure_steps)[0]])

    def link_loss(self, z: Tensor, edges: Tensor, generator: torch.Generator) -> Tensor:
        """Return the cross-entropy of separating edges from random pairs, zero if there is no edge."""
        if not edges.shape[1]:
            return z.new_zeros(())
        pairs = torch.cat([edges, strangers(edges, len(z), edges.shape[1] // 2, generator)], dim=1)
        z = F.normalize(z, dim=1)
        cosine = (taken(z, pairs[0]) * taken(z, pairs[1])).sum(1)
        target = (torch.arange(len(cosine), device=z.device) < edges.shape[1]).to(z.dtype)
        return F.binary_cross_entropy_with_logits((cosine + 1) / 2, target)

    def edges(self, before: Tensor, after: Tensor, first: int) -> Tensor:
        """Return the edges (2, L), both ways, of the buffer's nodes, which begin at row `first`."""
        distance = torch.cdist(before[first:], before, compute_mode="donot_use_mm_for_euclid_dist")
        unit = F.normalize(after, dim=1)
        cosine, linked = unit[first:] @ unit.T, set()
        for place, row in enumerate(range(first, len(after))):
            distance[place, row] = torch.inf
            near = torch.argsort(distance[place], stable=True)[: min(self.candidates, len(after) - 1)]
            best = near[torch.argsort(cosine[place, near], descending=True, stable=True)].tolist()
            for other in [v for v in best if (v, row) not in linked][: self.links]:
                linked |= {(row, other), (other, row)}
        return torch.tensor(sorted(linked), dtype=torch.long, device=after.device).view(-1, 2).T


def strangers(edges: Tensor, nodes: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw pairs of nodes (2, at most `count`); those that are edges or one node twice are left out."""
    pairs = torch.randint(nodes, (2, count), generator=generator).to(edges.device)
    known = torch.isin(pairs[0] * nodes + pairs[1], edges[0] * nodes + edges[1])
    return pairs[:, ~known & (pairs[0] != pairs[1])]


def taken(z: Tensor, rows: Tensor) -> Tensor:
    """Return z[rows] (E, H) by a sparse product, whose gradient sums in a fixed order on a GPU too."""
    return product(z, selection(rows, len(z)))
