"""FGSSL: each client's model is aligned with the global one in semantics and structure (Huang et al., IJCAI 2023).

    L = CE + λ_c L_semantic + λ_d L_structural

    L_semantic    −(1/n) Σᵢ (1/|Pᵢ|) Σ_{p∈Pᵢ} log softmax_j(cos(hᵢ, gⱼ) / τ)_p,   Pᵢ all j of i's class, i among them
    L_structural   (1/n) Σᵢ KL(Sᵢ(g) ‖ Sᵢ(h)),   Sᵢ(h) = softmax over i's neighbours j of cos(hᵢ, hⱼ) / τ

with h the embeddings of the model that is trained, and g those of the global one.

The model being trained sees a strong view of the client's graph, which lacks most edges and half of the features; the
global model, as received and without dropout, sees a weak one.  L_semantic pulls the embeddings (of the last hidden
layer) of training nodes of one class together, with τ = 0.1; L_structural distils, for each training node, the
distribution of its similarity over its neighbours.  Both views are drawn again in each step, from the job's seed.
Labels of validation and test nodes are never read; their features are, as neighbours', as in all training here.

Messages, averaging and weights are FedAvg's: 4 P bytes down, and 4 P + 8 up.  It works with any number of rounds; in
the only round of a one-shot run the global model is the first one, whose weights are random.

Reconstructed from its description and OpenFGL's port, since the text was not available:

- The port computes the semantic contrast and then leaves it out of the loss; here it counts (`contrast: 0`: not).
- λ_d = 0.1 is the port's; λ_c is set to the same.  The port contrasts two views of the local model, and logits.
- The port's structural term compares differences of logits feature by feature, edge by edge; here it compares
  distributions over neighbours, as the paper's name for it says.  Its temperature, 0.1, is the port's.
- Centres are training nodes only, so that no other node has a term of its own.

The clock bills a client for the second pass, the global model's, and both distances; fits run client by client.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.errors import ScenarioError
from fedsim.core.span import Span
from fedsim.core.units import Fraction
from fedsim.data.graph import Graph, csr, with_keys
from fedsim.learn.algorithm import Job, Needs, State, Tree, Work
from fedsim.learn.continual.snapshots import bare
from fedsim.learn.engine import ops
from fedsim.learn.model import Parameters


@dataclass(frozen=True)
class FGSSL(FedAvg):
    """With `contrast` and `distil` both 0 this is FedAvg."""

    any_model = True
    contrast: float = 0.1  # λ_c, weight of the semantic distance
    distil: float = 0.1  # λ_d, weight of the structural distance
    tau: float = 0.1  # temperature of the contrast
    tau_structure: float = 0.1  # temperature of the neighbours' distribution
    weak_edges: Fraction = 0.3  # share of edges dropped for the global model
    weak_features: Fraction = 0.3  # share of features zeroed for the global model
    strong_edges: Fraction = 0.8  # share of edges dropped for the trained model
    strong_features: Fraction = 0.5  # share of features zeroed for the trained model

    tunes = {"contrast": Span(1e-3, 1.0, log=True), "distil": Span(1e-3, 1.0, log=True)}

    @property
    def compares(self) -> bool:
        """Whether there is anything beside FedAvg."""
        return bool(self.contrast or self.distil)

    @property
    def needs(self) -> frozenset[Needs]:  # type: ignore[override]
        """Embeddings of views, in which features and edges are left out."""
        return frozenset({"embed", "vectors"} if self.compares else ())

    def start(self) -> State:
        """Return the first model.  Raises ScenarioError for another task than classes, or a model without embedding."""
        self.task.require_classes("'fgssl' contrasts nodes by class")
        if self.compares and not self.task.model.embedding_width:
            raise ScenarioError.at("model.layers", "'fgssl' compares a hidden layer's output: 2 or more")
        return super().start()

    def fit(self, job: Job, given: Tree, **how: Any) -> Work:
        """Train client by client: the distances are of all pairs of a client's nodes."""
        return super().fit(job, given, each=self.compares, **how)

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the cross-entropy and both distances (1,)."""
        plain = self.task.loss(params, data)
        if not self.compares:
            return plain
        drawn = ops.generator(int(data["seed"]), "fgssl")
        strong = view(data, self.strong_edges, self.strong_features, drawn)
        weak = view(data, self.weak_edges, self.weak_features, drawn)
        local = self.task.embed(params, strong)
        with torch.no_grad():
            weak = Graph(**{key: value for key, value in weak.items() if key != "seed"})  # type: ignore[typeddict-item]
            known = self.task.embed(given["received"], weak)
        rows = data["train"]
        semantic = semantic_distance(local[rows], known[rows], data["y"][rows], self.tau)
        structural = structural_distance(local, known, data["edges"], rows, self.tau_structure)
        return plain + self.contrast * semantic + self.distil * structural

    def effort(self, job: Job) -> float:
        """Count the strong view as a step, the global model's pass as a third, and the distances with their slopes."""
        labelled = self.task.examples(job.data, "train")
        if not (self.compares and labelled):
            return 1.0
        distances = flops(labelled, job.data["edges"].shape[1], self.task.model.embedding_width)
        return 2 + 1 / 3 + 3 * distances / self.task.flops(job.data)


def view(graph: Graph, edges: float, features: float, generator: Generator) -> Graph:
    """Return one client's graph without these shares of its edges and of its features (0 to 1); labels stay."""
    shown = {"edges": fewer_edges(graph["edges"], len(graph["y"]), edges, generator)}
    keep = (torch.rand(graph["x"].shape[1], generator=generator) >= features).to(graph["x"].device)
    shown["x"] = masked(graph["x"], keep)
    return with_keys(bare(graph), shown)


def fewer_edges(edges: Tensor, n: int, share: float, generator: Generator) -> Tensor:
    """Return the edges (2, E) of n nodes that remain, an edge and its reverse being dropped together."""
    pairs, which = torch.unique(edges.amin(0) * n + edges.amax(0), return_inverse=True)
    keep = (torch.rand(len(pairs), generator=generator) >= share).to(edges.device)
    return edges[:, keep[which]]


def masked(x: Tensor, keep: Tensor) -> Tensor:
    """Return x (N, F), dense or CSR, with zeros in the columns that are not kept (F,)."""
    if x.layout != torch.sparse_csr:
        return x * keep
    return csr(x.crow_indices(), x.col_indices(), x.values() * keep[x.col_indices()], tuple(x.shape))


def semantic_distance(h: Tensor, g: Tensor, y: Tensor, tau: float) -> Tensor:
    """Return the semantic distance () of embeddings h and g (n, H) of the same labelled nodes, labels y (n,)."""
    log_share = F.log_softmax(F.normalize(h, dim=1) @ F.normalize(g, dim=1).T / tau, dim=1)
    same = (y.unsqueeze(1) == y).to(log_share.dtype)
    return -((log_share * same).sum(1) / same.sum(1)).mean()


def structural_distance(h: Tensor, g: Tensor, edges: Tensor, centres: Tensor, tau: float) -> Tensor:
    """Return the structural distance () of h and g (N, H) around the nodes that are centres (N,), bool.

    Edges (2, E) lead from neighbours to centres; loops do not count, and centres without a neighbour add nothing.
    """
    source, target = edges[:, centres[edges[1]] & (edges[0] != edges[1])]
    if not len(target):
        return h.new_zeros(())
    order = torch.argsort(target, stable=True)
    source, target = source[order], target[order]
    _, place, counts = torch.unique_consecutive(target, return_inverse=True, return_counts=True)
    of_g = _neighbours(g, source, target, place, counts, tau)
    of_h = _neighbours(h, source, target, place, counts, tau)
    return (of_g.exp() * (of_g - of_h)).sum() / len(counts)


def _neighbours(h: Tensor, source: Tensor, target: Tensor, place: Tensor, counts: Tensor, tau: float) -> Tensor:
    """Return log S (E,) for edges sorted by target, `counts` of them for each target."""
    unit = F.normalize(h, dim=1)
    above = ((unit[source] * unit[target]).sum(1) - 1) / tau  # never above 0
    total = torch.segment_reduce(above.exp(), "sum", lengths=counts)
    return above - total.log()[place]


def flops(labelled: int, edges: int, hidden: int) -> float:
    """Return the operations of both distances, forward only, by numbers of labelled nodes and edges."""
    return 2.0 * hidden * (labelled * labelled + 2.0 * edges)
