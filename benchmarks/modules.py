"""Whole rounds of FedAvg with a plain torch module, through clock, network and records, against a bare loop.

    python benchmarks/modules.py [--clients 20] [--participation 1.0] [--steps 5] [--rounds 20] [--only gin]

fedsim simulates each round's messages as in rounds.py, trains every participant's module by a few steps of Adam, folds
the replies and records what moved.  The bare loop has one resident module and one `torch.optim.Adam(fused=True)`, which
is the computation that fedsim's own makes: for each client it loads the server's weights and buffers, sets the client's
Adam state, takes the same steps on the client's training rows, and reads weights and buffers; the server averages by
the same numbers of rows.  It knows no network, no jobs and no messages.

The perceptron, the convolutional network and the transformer (nets.py) learn from handwritten digits that are dealt out
at random; PyG's GIN learns from parts of a synthetic graph.  Nothing is scored, since the loop scores nothing.  Rounds
are taken in turn in one process on one thread; the median of processor time is printed, and how many times as long
fedsim takes.  At the end weights and buffers must be within 5 % of the way that they have gone: where a gradient is
nothing but rounding, Adam makes a whole step of it.
"""

import argparse
import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from loop import Weights, average, timed
from rounds import RATE, SPLIT, next_round, plain

from fedsim.core.record import Recorder
from fedsim.data.graph import Graph
from fedsim.point.build.assemble import Built, build
from fedsim.scenario.schema import Scenario

TOLERANCE = 0.05  # of the way from the first weights to the last
DIGITS = "digit_images"
GRAPH = {"name": "synthetic", "nodes": 2000, "classes": 5, "features": 32, "degree": 40.0, "homophily": 0.2}
GIN = {"name": "torch_geometric.nn.GIN", "hidden_channels": 64, "num_layers": 2}
CASES: dict[str, tuple[Any, Any]] = {
    "perceptron": (DIGITS, "nets.Perceptron"),
    "convolutions": (DIGITS, "nets.Convolutions"),
    "transformer": (DIGITS, "nets.Transformer"),
    "gin": (GRAPH, GIN),
}


def scenario(options: argparse.Namespace, dataset: Any, model: Any, rounds: int) -> Scenario:
    """Return the scenario of one module."""
    data = {"dataset": dataset, "partition": "random", "split": SPLIT}
    training = {"optimiser": "adam", "lr": RATE / 10, "local_steps": options.steps}
    protocol = {"name": "sync", "rounds": rounds, "participation": options.participation}
    return Scenario.model_validate(plain(options.clients, data, model=model, training=training, protocol=protocol))


def bare(module: torch.nn.Module, graphs: Sequence[Graph], steps: int) -> Callable[[Weights, np.ndarray], Weights]:
    """Return a round of the loop: from the global state dict and who takes part to the mean state dict."""
    module.train()
    owned = [*module.parameters()]
    optimiser = torch.optim.Adam(owned, lr=RATE / 10, fused=True)
    moments: list[list[dict[str, Any]]] = [[{} for _ in owned] for _ in graphs]
    state = module.state_dict()  # the module's own tensors
    rows = [graph["train"].nonzero().squeeze(1) for graph in graphs]
    labels = [graph["y"][own] for graph, own in zip(graphs, rows, strict=True)]
    linked = bool(graphs[0]["edges"].shape[1])
    inputs = [graph["x"] if linked else graph["x"][own] for graph, own in zip(graphs, rows, strict=True)]

    def logits(client: int) -> Any:
        if linked:
            return module(inputs[client], graphs[client]["edges"])[rows[client]]
        return module(inputs[client])

    def one(weights: Weights, client: int) -> Weights:
        with torch.no_grad():
            for name, value in weights.items():
                state[name].copy_(value)
        for parameter, kept in zip(owned, moments[client], strict=True):
            optimiser.state[parameter] = kept
        for _ in range(steps):
            optimiser.zero_grad()
            F.cross_entropy(logits(client), labels[client]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        return {name: value.clone() for name, value in state.items()}

    def round_(weights: Weights, cohort: np.ndarray) -> Weights:
        trained = [one(weights, client) for client in cohort.tolist()]
        mean = average(trained, [len(graphs[client]["y"]) for client in cohort.tolist()])
        return {name: mean[name] if value.is_floating_point() else value for name, value in weights.items()}

    return round_


def reached(built: Built) -> Weights:
    """Return the server's weights and buffers."""
    state = built.world.server.state.value
    return {**state["model"], **state.get("buffers", {})}


def distance(one: Weights, other: Weights) -> float:
    """Return the Euclidean distance of two state dicts of the same names."""
    return math.sqrt(sum(float((one[name] - other[name]).double().square().sum()) for name in one))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=20, help="clients that there are")
    parser.add_argument("--participation", type=float, default=1.0, help="share of them that a round asks")
    parser.add_argument("--steps", type=int, default=5, help="local steps of a job")
    parser.add_argument("--rounds", type=int, default=20, help="rounds that are timed; the median counts")
    parser.add_argument("--only", choices=[*CASES], help="one of the modules")
    options = parser.parse_args()
    warm = math.ceil(3 / options.participation)
    print(
        f"{options.clients} clients, {options.steps} steps of Adam each, median of {options.rounds} rounds after {warm}"
    )
    print(f"\n{'':14}{'weights':>9}{'fedsim ms':>11}{'bare ms':>9}{'ratio':>7}{'apart':>10}")
    for name in [options.only] if options.only else [*CASES]:
        measure(name, options, warm)


def measure(name: str, options: argparse.Namespace, warm: int) -> None:
    """Print the row of one module."""
    built = build(scenario(options, *CASES[name], warm + options.rounds + 1), Path(), Recorder())
    world = built.world
    first = weights = {name: value.clone() for name, value in reached(built).items()}
    seconds: tuple[list[float], list[float]] = [], []
    model: Any = built.learner.algorithm.task.model
    module: torch.nn.Module = model.resident.module
    gc.freeze()  # as `fedsim.point.run` does for a whole run; the loop is spared as much
    other: Callable[[Weights, np.ndarray], Weights] | None = None
    for number in range(warm + options.rounds):
        mine, cohort = timed(partial(next_round, world), clock=time.process_time)
        if other is None:
            graphs = [data for client in world.clients if (data := built.learner.clients[client].data) is not None]
            other = bare(deepcopy(module), graphs, options.steps)
        theirs, weights = timed(partial(other, weights, cohort), clock=time.process_time)
        if number >= warm:
            seconds[0].append(mine)
            seconds[1].append(theirs)
    mine, theirs = map(statistics.median, seconds)
    gap = distance(weights, reached(built)) / distance(weights, first)
    count = sum(p.numel() for p in module.parameters())
    print(f"{name:14}{count:9}{mine * 1e3:11.1f}{theirs * 1e3:9.1f}{mine / theirs:7.2f}{gap:10.1e}")
    if gap > TOLERANCE:
        raise SystemExit(f"that is more than {TOLERANCE}")


if __name__ == "__main__":
    main()
