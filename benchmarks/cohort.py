"""How many client updates a second the cohort's one computation makes, against a loop over clients with PyG layers.

    python benchmarks/cohort.py [--clients 100] [--nodes 20] [--threads 2] [--repeats 20] [--ragged]

Both train every client's GCN (32-64-5) by one full-batch Adam step a round, from a global model that never changes,
and keep each client's Adam state from round to round.  The loop deep-copies the global model for each client, gives a
`torch.optim.Adam` the client's moments (by reference, no copy), and runs forward, backward and step.  Its second row
is spared the normalisation of the adjacency, which the cohort derives only once a graph as well.  Rounds of all are
taken in turn, in one process; the median is printed, and the weights must agree to 1e-4 after the last round.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from loop import Network, Weights, apart, drawn, loop, timed, to_state_dict

from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Fit, Job
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gcn import GCN
from fedsim.learn.task import bind
from fedsim.learn.tasks.node_classification import NodeClassification

FEATURES, HIDDEN, CLASSES, RATE = 32, 64, 5, 0.01


def cohort(graphs: list[Graph], start: dict[str, Any]) -> Callable[[], list[Any]]:
    """Return a round of fedsim's trainer."""
    task = bind(NodeClassification(), GCN(HIDDEN, 2, 0.0), FEATURES, CLASSES, 0, "cpu")
    trainer, memories = Trainer(Adam(RATE), 1), [dict[str, Any]() for _ in graphs]

    def loss(params: Any, graph: Graph, given: Any) -> torch.Tensor:
        return task.loss(params, graph)

    def round_() -> list[Any]:
        jobs = [Job(k, "train", 0, None, graph, memories[k], k) for k, graph in enumerate(graphs)]
        return trainer.train([(job, Fit(start, loss)) for job in jobs])

    return round_


def copies(graphs: list[Graph], start: dict[str, Any], normalise: bool) -> Callable[[], list[Weights]]:
    """Return a round of the loop over clients."""
    build = partial(Network, [FEATURES, HIDDEN, CLASSES], normalise=normalise)
    return partial(loop(graphs, build, RATE, normalise=normalise), to_state_dict(start), range(len(graphs)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100, help="clients that train in a round")
    parser.add_argument("--nodes", type=int, default=20, help="nodes of each client")
    parser.add_argument("--threads", type=int, default=2, help="torch threads, for all alike")
    parser.add_argument("--repeats", type=int, default=20, help="rounds that are timed; the median counts")
    parser.add_argument("--ragged", action="store_true", help="clients of half to one and a half times as many")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(0)
    sizes = torch.full((options.clients,), options.nodes)
    if options.ragged:
        low, high = options.nodes // 2, options.nodes * 3 // 2
        sizes = torch.randint(low, high + 1, (options.clients,), generator=generator)
    graphs = [drawn(int(size), FEATURES, CLASSES, generator) for size in sizes]
    start = GCN(HIDDEN, 2, 0.0).init(FEATURES, CLASSES, generator)
    rounds = {
        "fedsim, one computation": cohort(graphs, start),
        "PyG loop": copies(graphs, start, normalise=True),
        "PyG loop, graph normalised before": copies(graphs, start, normalise=False),
    }
    seconds: dict[str, list[float]] = {name: [] for name in rounds}
    trained: dict[str, list[Any]] = {}
    for repeat in range(options.repeats + 2):
        for name, round_ in rounds.items():
            took, trained[name] = timed(round_)
            if repeat >= 2:  # the first rounds derive layouts and warm the allocator
                seconds[name].append(took)
    nodes, edges = int(sizes.sum()), sum(graph["edges"].shape[1] for graph in graphs)
    print(f"{options.clients} clients, {nodes} nodes and {edges} directed edges in all, one step of Adam each,")
    print(f"GCN {FEATURES}-{HIDDEN}-{CLASSES}, {options.threads} threads, median of {options.repeats} rounds")
    print(f"\n{'':36}{'ms/round':>10}{'updates/s':>12}{'ratio':>8}{'differs by':>13}")
    mine = statistics.median(seconds["fedsim, one computation"])
    trained["fedsim, one computation"] = own = [to_state_dict(params) for params in trained["fedsim, one computation"]]
    for name, times in seconds.items():
        took = statistics.median(times)
        gap = max(apart(one, other) for one, other in zip(own, trained[name], strict=True))
        print(f"{name:36}{took * 1e3:10.2f}{options.clients / took:12.0f}{took / mine:8.1f}{gap:13.1e}")
        if gap > 1e-4:
            raise SystemExit(f"the weights of {name!r} differ by {gap}, more than 1e-4")


if __name__ == "__main__":
    main()
