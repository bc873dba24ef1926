"""How many client updates a second the cohort's one computation makes, against a loop over clients with PyG layers.

    python benchmarks/cohort.py [--clients 100] [--vertices 20] [--threads 2] [--repeats 20] [--ragged]

Both train every client's GCN (32-64-5) by one full-batch Adam step a round, from a global model that never changes,
and keep each client's Adam state from round to round.  The loop deep-copies the global model for each client, gives a
`torch.optim.Adam` the client's moments (by reference, no copy), and runs forward, backward and step.  Its second row
is spared the normalisation of the adjacency, which the cohort derives only once a graph as well.  Rounds of all are
taken in turn, in one process; the median is printed, and the weights must agree to 1e-4 after the last round.
"""

import argparse
import copy
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from fedsim.algorithm import Fit, Job
from fedsim.data.graph import Graph, graph_of
from fedsim.learn.models.gcn import GCN
from fedsim.learn.optimiser import Adam
from fedsim.learn.task import bind
from fedsim.learn.tasks.node_classification import NodeClassification
from fedsim.learn.training import Trainer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch_geometric.nn import GCNConv
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

FEATURES, HIDDEN, CLASSES, RATE = 32, 64, 5, 0.01
Weights = list[torch.Tensor]


class Network(torch.nn.Module):
    """The same two layers out of PyG's parts."""

    def __init__(self, normalise: bool) -> None:
        super().__init__()
        self.first = GCNConv(FEATURES, HIDDEN, normalize=normalise)
        self.second = GCNConv(HIDDEN, CLASSES, normalize=normalise)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        """Return the logits."""
        return self.second(torch.relu(self.first(x, edges, weight)), edges, weight)


def drawn(vertices: int, generator: torch.Generator) -> Graph:
    """Return a random graph of about four edges a vertex, three quarters of its vertices for training."""
    ends = torch.randint(vertices, (2, 2 * vertices), generator=generator)
    edges = torch.unique(torch.cat([ends, ends.flip(0)], dim=1), dim=1)
    edges = edges[:, edges[0] != edges[1]]
    x = torch.randn(vertices, FEATURES, generator=generator)
    y = torch.randint(CLASSES, (vertices,), generator=generator)
    return graph_of(x, edges, y, train=torch.arange(vertices) % 4 > 0)


def cohort(graphs: list[Graph], start: dict[str, Any]) -> Callable[[], list[Weights]]:
    """Return a round of fedsim's trainer."""
    task = bind(NodeClassification(), GCN(HIDDEN, 2, 0.0), FEATURES, CLASSES, 0, "cpu")
    trainer, memories = Trainer(Adam(RATE), 1), [dict[str, Any]() for _ in graphs]

    def loss(params: Any, graph: Graph, given: Any) -> torch.Tensor:
        return task.loss(params, graph)

    def round_() -> list[Weights]:
        jobs = [Job(k, "train", 0, None, graph, memories[k], k) for k, graph in enumerate(graphs)]
        trained = trainer.train([(job, Fit(start, loss)) for job in jobs])
        return [[p[layer][kind] for layer in p for kind in ("weight", "bias")] for p in trained]

    return round_


def loop(graphs: list[Graph], start: dict[str, Any], normalise: bool) -> Callable[[], list[Weights]]:
    """Return a round of the loop over clients."""
    model, kept = Network(normalise), [dict[int, Any]() for _ in graphs]
    with torch.no_grad():
        for layer, own in ((model.first, start["layer1"]), (model.second, start["layer2"])):
            layer.lin.weight.copy_(own["weight"].T)
            layer.bias.copy_(own["bias"])
    inputs = [
        (graph["edges"], None) if normalise else gcn_norm(graph["edges"], None, len(graph["y"])) for graph in graphs
    ]

    def one(graph: Graph, moments: dict[int, Any], edges: torch.Tensor, weight: torch.Tensor | None) -> Weights:
        own = copy.deepcopy(model)
        optimiser = torch.optim.Adam(own.parameters(), lr=RATE)
        for i, parameter in enumerate(own.parameters()):
            if moments:
                optimiser.state[parameter] = moments[i]
        train = graph["train"]
        F.cross_entropy(own(graph["x"], edges, weight)[train], graph["y"][train]).backward()
        optimiser.step()
        for i, parameter in enumerate(own.parameters()):
            moments[i] = optimiser.state[parameter]
        layers = (own.first, own.second)
        return [p.detach() for layer in layers for p in (layer.lin.weight.T, layer.bias)]

    def round_() -> list[Weights]:
        return [one(graph, kept[k], *inputs[k]) for k, graph in enumerate(graphs)]

    return round_


def timed(function: Callable[[], list[Weights]]) -> tuple[float, list[Weights]]:
    """Return the seconds that a call takes, and its result."""
    began = time.perf_counter()
    result = function()
    return time.perf_counter() - began, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100, help="clients that train in a round")
    parser.add_argument("--vertices", type=int, default=20, help="vertices of each client")
    parser.add_argument("--threads", type=int, default=2, help="torch threads, for all alike")
    parser.add_argument("--repeats", type=int, default=20, help="rounds that are timed; the median counts")
    parser.add_argument("--ragged", action="store_true", help="clients of half to one and a half times as many")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(0)
    sizes = torch.full((options.clients,), options.vertices)
    if options.ragged:
        low, high = options.vertices // 2, options.vertices * 3 // 2
        sizes = torch.randint(low, high + 1, (options.clients,), generator=generator)
    graphs = [drawn(int(size), generator) for size in sizes]
    start = GCN(HIDDEN, 2, 0.0).init(FEATURES, CLASSES, generator)
    rounds = {
        "fedsim, one computation": cohort(graphs, start),
        "PyG loop": loop(graphs, start, normalise=True),
        "PyG loop, graph normalised before": loop(graphs, start, normalise=False),
    }
    seconds: dict[str, list[float]] = {name: [] for name in rounds}
    trained: dict[str, list[Weights]] = {}
    for repeat in range(options.repeats + 2):
        for name, round_ in rounds.items():
            took, trained[name] = timed(round_)
            if repeat >= 2:  # the first rounds derive layouts and warm the allocator
                seconds[name].append(took)
    vertices, edges = int(sizes.sum()), sum(graph["edges"].shape[1] for graph in graphs)
    print(f"{options.clients} clients, {vertices} vertices and {edges} directed edges in all, one step of Adam each,")
    print(f"GCN {FEATURES}-{HIDDEN}-{CLASSES}, {options.threads} threads, median of {options.repeats} rounds")
    print(f"\n{'':36}{'ms/round':>10}{'updates/s':>12}{'ratio':>8}{'differs by':>13}")
    mine, own = statistics.median(seconds["fedsim, one computation"]), trained["fedsim, one computation"]
    for name, times in seconds.items():
        took = statistics.median(times)
        pairs = [pair for one, other in zip(own, trained[name], strict=True) for pair in zip(one, other, strict=True)]
        apart = max(float((a - b).abs().max()) for a, b in pairs)
        print(f"{name:36}{took * 1e3:10.2f}{options.clients / took:12.0f}{took / mine:8.1f}{apart:13.1e}")
        if apart > 1e-4:
            raise SystemExit(f"the weights of {name!r} differ by {apart}, more than 1e-4")


if __name__ == "__main__":
    main()
