"""A round of FedAvg without anything around it, for a GCN of two layers: what bare torch can do on the same machine.

`resident` is a plain loop over clients with one model: for each of them it loads the global weights, trains by autograd
and `torch.optim.Adam`, and reads the weights.  `stacked` is one computation over all clients, written by hand: batched
products over adjacencies padded to the largest client, a backward pass without autograd, and Adam on moments of all
clients in one tensor each.  Both have dense adjacencies that are normalised beforehand.  They know no jobs, sizes,
messages or algorithms, and cannot be given another model.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from loop import Weights

from fedsim.data.graph import Graph

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8  # torch.optim.Adam's
NAMES = ("layers.0.lin.weight", "layers.0.bias", "layers.1.lin.weight", "layers.1.bias")

Round = Callable[[Weights, Sequence[int]], Weights]  # from the global state dict and who takes part to their mean


def normalised(graph: Graph) -> torch.Tensor:
    """Return D^-1/2 (A + I) D^-1/2 of a graph, dense: (N, N)."""
    n = len(graph["y"])
    adjacency = torch.eye(n)
    adjacency[graph["edges"][1], graph["edges"][0]] = 1
    root = adjacency.sum(1).rsqrt()
    return root.unsqueeze(1) * adjacency * root


def features(graph: Graph) -> torch.Tensor:
    """Return the dense features of a graph."""
    return graph["x"] if graph["x"].layout == torch.strided else graph["x"].to_dense()


def resident(graphs: Sequence[Graph], weights: Weights, lr: float) -> Round:
    """Return a round of the plain loop; `weights` gives the shapes, and nodes weigh in the mean."""
    model = [weights[name].clone().requires_grad_() for name in NAMES]
    optimiser = torch.optim.Adam(model, lr=lr)
    moments: list[list[dict[str, Any]]] = [[{} for _ in model] for _ in graphs]
    near, x = [normalised(graph) for graph in graphs], [features(graph) for graph in graphs]
    rows = [graph["train"].nonzero().squeeze(1) for graph in graphs]
    labels = [graph["y"][own] for graph, own in zip(graphs, rows, strict=True)]

    def one(client: int, weights: Weights) -> list[torch.Tensor]:
        with torch.no_grad():
            for parameter, name in zip(model, NAMES, strict=True):
                parameter.copy_(weights[name])
        for parameter, own in zip(model, moments[client], strict=True):
            optimiser.state[parameter] = own
        w1, b1, w2, b2 = model
        hidden = torch.relu(near[client] @ F.linear(x[client], w1) + b1)
        logits = near[client] @ F.linear(hidden, w2) + b2
        optimiser.zero_grad()
        F.cross_entropy(logits[rows[client]], labels[client]).backward()
        optimiser.step()
        return [parameter.detach().clone() for parameter in model]

    def round_(weights: Weights, cohort: Sequence[int]) -> Weights:
        masses = torch.tensor([float(len(graphs[client]["y"])) for client in cohort])
        trained = [one(client, weights) for client in cohort]
        mean = [torch.tensordot(masses / masses.sum(), torch.stack(own), 1) for own in zip(*trained, strict=True)]
        return dict(zip(NAMES, mean, strict=True))

    return round_


def stacked(graphs: Sequence[Graph], weights: Weights, lr: float) -> Round:
    """Return a round of the one computation; `weights` gives the shapes, and nodes weigh in the mean."""
    clients, widest = len(graphs), max(len(graph["y"]) for graph in graphs)
    classes = len(weights[NAMES[3]])
    x = torch.zeros(clients, widest, weights[NAMES[0]].shape[1])
    adjacency, target = torch.zeros(clients, widest, widest), torch.zeros(clients, widest, classes)
    share = torch.zeros(clients, widest, 1)  # of each node in its client's mean loss
    for k, graph in enumerate(graphs):
        n, own = len(graph["y"]), torch.arange(len(graph["y"]))
        x[k, :n], adjacency[k, :n, :n] = features(graph), normalised(graph)
        target[k, own, graph["y"]] = 1
        share[k, :n, 0] = graph["train"] / graph["train"].sum().clamp(min=1)
    x = torch.bmm(adjacency, x)  # the first layer's sums over neighbours never change
    shapes = [weights[name].T.shape if name.endswith("weight") else (1, *weights[name].shape) for name in NAMES]
    first = [torch.zeros(clients, *shape) for shape in shapes]
    second = [torch.zeros(clients, *shape) for shape in shapes]
    steps, sizes = torch.zeros(clients), torch.tensor([float(len(graph["y"])) for graph in graphs])

    def round_(weights: Weights, cohort: Sequence[int]) -> Weights:
        who, k = torch.as_tensor(cohort), len(cohort)
        given = [weights[name].T if name.endswith("weight") else weights[name].unsqueeze(0) for name in NAMES]
        w1, b1, w2, b2 = [one.expand(k, *one.shape) for one in given]
        rows, near, each = x[who], adjacency[who], share[who]
        hidden = torch.baddbmm(b1, rows, w1).relu_()
        moved = torch.bmm(near, hidden)
        error = (torch.baddbmm(b2, moved, w2).softmax(2) - target[who]) * each
        back = torch.bmm(near.mT, torch.bmm(error, w2.mT)) * (hidden > 0)
        found = [torch.bmm(rows.mT, back), back.sum(1, True), torch.bmm(moved.mT, error), error.sum(1, True)]
        steps[who] += 1
        taken, scale = steps[who].double(), (sizes[who] / sizes[who].sum()).view(-1, 1, 1)
        step = (lr / (1 - BETA1**taken)).float().view(-1, 1, 1)
        root = (1 - BETA2**taken).sqrt().float().view(-1, 1, 1)
        mean = {}
        for name, old, grad, m, v in zip(NAMES, given, found, first, second, strict=True):
            m[who] = own_m = m[who].lerp_(grad, 1 - BETA1)
            v[who] = own_v = v[who].mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
            new = old - ((own_m * step / (own_v.sqrt_() / root + EPS)) * scale).sum(0)
            mean[name] = new.T if name.endswith("weight") else new[0]
        return mean

    return round_
