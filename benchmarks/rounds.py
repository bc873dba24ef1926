"""Whole rounds of FedAvg through fedsim, clock, network and records included, against three that have none of these.

    python benchmarks/rounds.py [--clients 100] [--nodes 20] [--participation 1.0] [--ragged] [--threads 1]
                                [--rounds 20]

fedsim simulates each round's messages (latency 20 ms, uplinks of 10 and downlinks of 50 Mbit/s, a server of 10 Gbit/s
both ways), trains every participant's GCN by one full-batch Adam step, folds the replies and records what moved.  The
others train the same clients from the same model on the same graphs, keep each client's Adam state, and average by the
same numbers of nodes; they simulate no network:

- The deep-copy loop (benchmarks/loop.py, PyG's layers) copies a network and makes an optimiser for each client.
- The resident loop (benchmarks/bare.py) has one model without PyG, one optimiser, and graphs normalised beforehand.
- The stacked computation (the same file) trains all of them by batched products, written by hand for this GCN.

The clients' graphs are random parts of one synthetic graph, dense enough that about four neighbours of a node are
its own client's.  With `--ragged` a Dirichlet partition deals clients of about 60 to 400 nodes, for a GCN 64-64-10.
Nothing is scored, since the loop scores nothing.  Rounds are taken in turn in one process, after enough of them that
nearly every client has been met; the median is printed, of processor time where there is one thread.  The models must
agree to 1e-3 at the end: where a gradient is nothing but rounding Adam makes a whole step of it, so that the difference
depends on the processor's kernels.
"""

import argparse
import gc
import math
import statistics
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bare import Round, resident, stacked
from loop import Network, Weights, apart, average, loop, timed, to_state_dict

from fedsim.core.record import Recorder
from fedsim.data.graph import Graph
from fedsim.point.build.assemble import Built, build
from fedsim.scenario.schema import Scenario

RATE = 0.01
TOLERANCE = 1e-3
NEVER = "1000000000 updates"
SPLIT = {"train": 0.5, "val": 0.2, "test": 0.3}


def plain(clients: int, data: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return FedAvg of a GCN on these data, by one Adam step over fast links and never scored, with changes."""
    return {
        "name": "benchmark",
        "data": data,
        "model": {"name": "gcn", "hidden": 64, "dropout": 0},
        "training": {"optimiser": "adam", "lr": RATE},
        "clients": {"count": clients, "speed": "1 GFLOP/s"},
        "network": {
            "latency": "20 ms",
            "uplink": "10 Mbit/s",
            "downlink": "50 Mbit/s",
            "server": {"ingress": "10 Gbit/s", "egress": "10 Gbit/s"},
        },
        "protocol": {"name": "sync", "rounds": 1000, "participation": 1.0},
        "algorithm": "fedavg",
        "measure": {"every": NEVER},
        "device": "cpu",
        **changes,
    }


def scenario(options: argparse.Namespace, rounds: int) -> Scenario:
    """Return the scenario of these options."""
    partition: object = "random"
    features, classes, each = 32, 5, options.nodes
    if options.ragged:
        features, classes, each, partition = 64, 10, 200, {"name": "dirichlet", "alpha": 1.0}
    # a random part of 1/K of the nodes keeps 1/K of a node's neighbours; larger degrees would only take memory
    dataset = {"name": "synthetic", "nodes": options.clients * each, "classes": classes, "features": features}
    dataset |= {"degree": min(4 * options.clients, 400), "homophily": 0.2}
    data = {"dataset": dataset, "partition": partition, "split": SPLIT}
    protocol = {"name": "sync", "rounds": rounds, "participation": options.participation}
    return Scenario.model_validate(plain(options.clients, data, protocol=protocol, threads=options.threads))


def next_round(world: Any) -> np.ndarray:
    """Run the clock to the server's next update; return who took part, in the order of folding."""
    before, version = int(world.clients.last_asked.max()), world.server.version
    while world.server.version == version:
        world.env.step()
    took_part: np.ndarray = np.flatnonzero(world.clients.last_asked > before)
    return took_part


def model(built: Built) -> Any:
    """Return the server's model."""
    return built.world.server.state.value["model"]


def rivals(graphs: Sequence[Graph], widths: Sequence[int], weights: Weights) -> dict[str, Round]:
    """Return the rounds of the others, by name."""
    copies = loop(graphs, partial(Network, widths), RATE)

    def averaged(weights: Weights, cohort: Sequence[int]) -> Weights:
        return average(copies(weights, cohort), [len(graphs[client]["y"]) for client in cohort])

    return {
        "PyG loop, deep copies": averaged,
        "bare loop, one resident model": resident(graphs, weights, RATE),
        "bare stacked computation": stacked(graphs, weights, RATE),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100, help="clients that there are")
    parser.add_argument("--nodes", type=int, default=20, help="nodes of each client")
    parser.add_argument("--participation", type=float, default=1.0, help="share of them that a round asks")
    parser.add_argument("--ragged", action="store_true", help="clients of about 60 to 400 nodes, GCN 64-64-10")
    parser.add_argument("--threads", type=int, default=1, help="torch threads, for both alike")
    parser.add_argument("--rounds", type=int, default=20, help="rounds that are timed; the median counts")
    options = parser.parse_args()
    warm = math.ceil(3 / options.participation)
    built = build(scenario(options, warm + options.rounds + 1), Path(), Recorder())
    world = built.world
    seconds: dict[str, list[float]] = {"fedsim, whole rounds": []}
    others: dict[str, Round] = {}
    weights: dict[str, Weights] = {}
    clock = time.process_time if options.threads == 1 else time.perf_counter
    gc.freeze()  # as `fedsim.point.run` does for a whole run; the others are spared as much
    first = to_state_dict(model(built))
    for number in range(warm + options.rounds):
        took, cohort = timed(partial(next_round, world), clock=clock)
        graphs = [data for client in world.clients if (data := built.learner.clients[client].data) is not None]
        if not others:
            widths = [graphs[0]["x"].shape[1], 64, 10 if options.ragged else 5]
            others = rivals(graphs, widths, first)
            weights, seconds = dict.fromkeys(others, first), seconds | {name: [] for name in others}
        if number >= warm:
            seconds["fedsim, whole rounds"].append(took)
        for name, other in others.items():
            took, weights[name] = timed(partial(other, weights[name], cohort.tolist()), clock=clock)
            if number >= warm:
                seconds[name].append(took)
    sizes, edges = [len(graph["y"]) for graph in graphs], sum(graph["edges"].shape[1] for graph in graphs)
    print(f"{len(cohort)} of {options.clients} clients a round, of {min(sizes)} to {max(sizes)} nodes; {sum(sizes)} ")
    print(f"nodes and {edges} directed edges in all, GCN {'-'.join(map(str, widths))}, one step of Adam each,")
    print(f"{options.threads} threads, median of {options.rounds} rounds after {warm}")
    print(f"\n{'':30}{'ms/round':>10}{'updates/s':>12}{'ratio':>8}")
    mine = statistics.median(seconds["fedsim, whole rounds"])
    for name, times in seconds.items():
        took = statistics.median(times)
        print(f"{name:30}{took * 1e3:10.2f}{len(cohort) / took:12.0f}{took / mine:8.1f}")
    gap = max(apart(to_state_dict(model(built)), other) for other in weights.values())
    print(f"\nthe models differ by {gap:.1e} after {warm + options.rounds} rounds")
    if gap > TOLERANCE:
        raise SystemExit(f"that is more than {TOLERANCE}")


if __name__ == "__main__":
    main()
