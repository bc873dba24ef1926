"""A small graph that has the moments of all clients' classes, as O-pFGL's server learns it.

Clients report n, the mean and the standard deviation of x̃ = [x ‖ Âx ‖ … ‖ Âʰx] for each class, Â being the
normalised adjacency with self-loops.  Over all clients,

    M_c = Σ n μ / Σ n,     V_c = Σ [(n − 1) s² + n (μ − M_c)²] / (Σ n − 1)

are exactly those of all nodes at once.  Features X' begin as N(0, 1); the edges A' are σ of a perceptron
(2 F → 128 → 128 → 1, batch normalisation) over pairs of rows, made symmetric.  In every 50 steps, 10 train the
perceptron and 40 the features, on

    10 Σ_c (n_c / n) [MSE(mean, M_c) + MSE(std, √V_c)] + 0.1 · smoothness

where std counts for classes of two or more rows.  Smoothness is the mean squared difference of joined rows, in a number
of a row (reconstructed).  Models here know no edge weights: the edges are those with A' of at least a threshold, and
the features are fitted to the graph of these edges, which is held while they train.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph, as_dense, graph_of
from fedsim.learn.engine import ops, tree
from fedsim.learn.engine.optimiser import Adam, descend
from fedsim.learn.synthetic import inversion

WIDTH = 128  # of the perceptron's hidden layers
CYCLE, EDGE_STEPS = 50, 10  # steps of a cycle, and those of them that train the perceptron
MOMENTS, SMOOTHNESS = 10.0, 0.1  # weights of the parts of the loss
Surrogate = dict[str, Tensor]  # x (n', F), links (n', n') bool, y (n',), on the run's device


@torch.no_grad()
def widened(graph: Graph, hops: int) -> Tensor:
    """Return x̃ (N, (hops + 1) F) of a client's nodes."""
    parts = [as_dense(graph["x"])]
    for _ in range(hops):
        parts.append(ops.propagate(parts[-1], graph, "sym"))
    return torch.cat(parts, 1)


def held(graph: Graph, classes: int) -> Tensor:
    """Return the training nodes of each class (C,), zero for a class with fewer than two."""
    counts = torch.bincount(graph["y"][graph["train"]], minlength=classes)
    return torch.where(counts >= 2, counts, 0)


def moments(graph: Graph, classes: int, hops: int) -> dict[str, Tensor]:
    """Return what a client sends: `counts` (C,), and of the classes counted `mean` and `std`, a row each."""
    counts, x = held(graph, classes), widened(graph, hops)
    rows = [x[graph["train"] & (graph["y"] == c)] for c in counts.nonzero().flatten().tolist()]
    none = x.new_zeros(0, x.shape[1])
    mean = torch.stack([own.mean(0) for own in rows]) if rows else none
    std = torch.stack([own.std(0) for own in rows]) if rows else none
    return {"counts": counts.int(), "mean": mean, "std": std}


@dataclass(frozen=True, eq=False)
class Moments:
    """Those of all clients' nodes, of the classes that somebody has: classes (m,), n (m,), mean and std (m, D)."""

    classes: Tensor
    n: Tensor
    mean: Tensor
    std: Tensor


def pooled(sent: Iterable[Mapping[str, Any]], *, official: bool = False) -> Moments | None:
    """Return the pooled moments, or None where nobody has any.

    `official` divides by Σ n − K, for K clients with the class, as the published code does, which is too large a
    variance.
    """
    total: dict[int, list[tuple[int, Tensor, Tensor]]] = {}
    for one in sent:
        own = (one["counts"] > 0).nonzero().flatten().tolist()
        for c, mean, std in zip(own, one["mean"].double(), one["std"].double(), strict=True):
            total.setdefault(c, []).append((int(one["counts"][c]), mean, std))
    if not total:
        return None
    rows = []
    for c in sorted(total):
        n = sum(count for count, _, _ in total[c])
        mean = torch.stack([count * mu for count, mu, _ in total[c]]).sum(0) / n
        spread = torch.stack([(k - 1) * s.square() + k * (mu - mean).square() for k, mu, s in total[c]]).sum(0)
        rows.append((n, mean, ops.root(spread / (n - (len(total[c]) if official else 1)))))
    counts, means, stds = zip(*rows, strict=True)
    classes, n_ = (torch.tensor(values, device=means[0].device) for values in (sorted(total), counts))
    return Moments(classes, n_, torch.stack(means).float(), torch.stack(stds).float())


@dataclass(frozen=True)
class Learner:
    """How the surrogate is learned."""

    steps: int = 3000
    threshold: float = 0.5  # A' of an edge
    features_lr: float = 5e-3
    edges_lr: float = 1e-3

    def learned(self, wanted: Moments, labels: Tensor, features: int, drawn: Generator) -> Surrogate:
        """Return a surrogate with these labels (n',), everything random drawn from a generator on the CPU."""
        device = wanted.mean.device
        x = {"x": torch.randn(len(labels), features, generator=drawn).to(device)}
        net: Any = tree.to(inversion.generator([2 * features, WIDTH, WIDTH, 1], drawn), device)
        fit = Fitting(wanted, labels.to(device), features)
        net_state = x_state = None
        links = self.links(net, x["x"])
        for first in range(0, self.steps, CYCLE):
            left = min(CYCLE, self.steps - first)
            on_edges, adam = partial(fit.edges_loss, x["x"]), Adam(self.edges_lr)
            net, net_state = descend(net, on_edges, adam, min(left, EDGE_STEPS), net_state)
            links = self.links(net, x["x"])
            on_rows, adam = partial(fit.rows_loss, links.float()), Adam(self.features_lr)
            x, x_state = descend(x, on_rows, adam, max(0, left - EDGE_STEPS), x_state)
        return {"x": x["x"], "links": links, "y": fit.y}

    @torch.no_grad()
    def links(self, net: Any, x: Tensor) -> Tensor:
        """Return the edges (n', n') of rows x."""
        return soft(net, x) >= self.threshold

    def flops(self, rows: int, features: int, hops: int) -> float:
        """Return the operations of all steps for so many rows, three passes each, over all pairs."""
        pairs = 4.0 * rows * features * WIDTH + 2.0 * rows * rows * (WIDTH * WIDTH + WIDTH)
        sums = hops * 2.0 * rows * rows * features + 10.0 * rows * (hops + 1) * features
        cycles, rest = divmod(self.steps, CYCLE)
        on_edges = cycles * EDGE_STEPS + min(rest, EDGE_STEPS)
        return 3 * (self.steps * sums + on_edges * pairs)


def soft(net: Any, x: Tensor) -> Tensor:
    """Return A' (n', n') of rows x (n', F): symmetric, within 0 and 1, zero on the diagonal."""
    n, features = x.shape
    first, second = net["layer1"], net["layer2"]
    source, target = x @ first["weight"][:features], x @ first["weight"][features:]
    h = (source.unsqueeze(1) + target.unsqueeze(0) + first["bias"]).flatten(0, 1)
    h = torch.relu(inversion.hidden(first, h))
    h = torch.relu(inversion.hidden(second, torch.addmm(second["bias"], h, second["weight"])))
    logits = torch.addmm(net["layer3"]["bias"], h, net["layer3"]["weight"]).view(n, n)
    off = 1 - torch.eye(n, device=x.device)
    return torch.sigmoid((logits + logits.T) / 2) * off


class Fitting:
    """What a surrogate of these labels is fitted to."""

    def __init__(self, wanted: Moments, labels: Tensor, features: int) -> None:
        """Keep the place of each row's class among the moments."""
        self.y, self._wanted = labels, wanted
        self._hops = wanted.mean.shape[1] // features - 1
        place = torch.searchsorted(wanted.classes, labels)
        self._own = (place == torch.arange(len(wanted.classes), device=labels.device).unsqueeze(1)).float()
        self._size = self._own.sum(1, keepdim=True)
        self._share = (wanted.n / wanted.n.sum()).float()

    def gaps(self, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Return each class's squared error of the mean and of the deviation, averaged over x̃: (m,) and (m,)."""
        root = (edges.sum(1) + 1).rsqrt().unsqueeze(1)
        parts = [x]
        for _ in range(self._hops):
            h = root * parts[-1]
            parts.append(root * (edges @ h + h))
        wide = torch.cat(parts, 1)
        mean = self._own @ wide / self._size
        squares = self._own @ (wide - self._own.T @ mean).square()
        std = ops.root(squares / (self._size - 1).clamp(min=1) + 1e-12)
        there = (self._size.squeeze(1) > 1).float()
        wanted = self._wanted
        return (mean - wanted.mean).square().mean(1), there * (std - wanted.std).square().mean(1)

    def edges_loss(self, x: Tensor, net: Any, step: int) -> Tensor:
        """Return the loss of the perceptron, which has a client axis of one, for held rows x (n', F)."""
        return self.loss(x, soft(tree.at(net, 0), x))

    def rows_loss(self, edges: Tensor, params: Any, step: int) -> Tensor:
        """Return the loss of rows, which have a client axis of one, for held edges (n', n')."""
        return self.loss(params["x"][0], edges)

    def loss(self, x: Tensor, edges: Tensor) -> Tensor:
        """Return the loss () of rows x (n', F) and edges (n', n') between 0 and 1."""
        of_mean, of_std = self.gaps(x, edges)
        norms = x.square().sum(1)
        apart = (norms.unsqueeze(1) + norms - 2 * x @ x.T).clamp(min=0)
        smooth = (edges * apart).sum() / (edges.sum() + 1e-12) / x.shape[1]
        return MOMENTS * (self._share * (of_mean + of_std)).sum() + SMOOTHNESS * smooth


def triangle(links: Tensor) -> Tensor:
    """Return the pairs i < j of links (n, n), as they travel: (n (n − 1) / 2,) bool."""
    n = len(links)
    row, column = torch.triu_indices(n, n, 1, device=links.device)
    return links[row, column]


def graph(x: Tensor, pairs: Tensor, y: Tensor) -> Graph:
    """Return the surrogate that has travelled as a graph, all of it to train on."""
    ends = torch.triu_indices(len(y), len(y), 1, device=y.device)[:, pairs]
    return graph_of(x, torch.cat([ends, ends.flip(0)], 1), y, train=torch.ones_like(y, dtype=torch.bool))
