"""How fast a cohort trains on large, ragged clients and wide features, and how near that is to what memory allows.

    FEDSIM_DATA=... python benchmarks/wide.py [--threads 2] [--repeats 7] [--only ragged]

Both sides train every client from a global model that never changes and keep its Adam state from round to round:
fedsim's trainer in one computation, the other side in a loop over deep copies out of PyG's layers (loop.py).  Rounds
are taken in turn, in one process; medians are printed.

The limit is the time in which the machine moves the bytes that nobody can spare: Adam reads parameters, gradients and
two moments and writes all but the gradients; the first layer reads its weights and features and writes its values, and
back again.  The bandwidth is that of adding two large tensors, measured here with the same threads.

Where a gradient is zero but for rounding, Adam's step has the size of its rate and the sign of the rounding.  A few
weights of the loop itself move by more than 1e-4 in double precision.  So all weights but one in 10,000 must agree to
1e-4 after the first round; the largest difference is printed.
"""

import argparse
import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from loop import Network, Weights, drawn, loop, timed, to_state_dict

from fedsim.core.seeds import Streams
from fedsim.data.graph import Graph
from fedsim.data.graphs.split import SplitOptions, split_all
from fedsim.data.partition import cut
from fedsim.learn.algorithm import Fit, Job
from fedsim.learn.engine import layout, tree
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.model import Model
from fedsim.learn.models.gat import GAT
from fedsim.learn.models.gcn import GCN
from fedsim.learn.task import bind
from fedsim.learn.tasks.node_classification import NodeClassification
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

RATE, LARGE, CLOSE, FEW = 0.01, 2**25, 1e-4, 1e-4


@dataclass(frozen=True)
class Work:
    """One row of the table: clients, their model, and Adam's steps in a round."""

    name: str
    graphs: list[Graph]
    model: Model
    classes: int
    steps: int

    @property
    def features(self) -> int:
        """Return the width of the features."""
        return self.graphs[0]["x"].shape[1]

    def least_bytes(self, numbers: int) -> float:
        """Return the bytes that a round must move, of clients with that many parameters each."""
        clients, hidden = len(self.graphs), self.model.hidden
        of_adam = 7 * 4 * clients * numbers
        values = sum(layout.of(graph).nodes for graph in self.graphs) * hidden
        of_features = sum(map(feature_bytes, self.graphs))
        of_layer = 2 * (4 * clients * self.features * hidden + 4 * values + of_features)
        return float(self.steps * (of_adam + of_layer))


def feature_bytes(graph: Graph) -> int:
    """Return the bytes of a client's features; sparse ones need an index of four bytes each."""
    return layout.of(graph).nonzeros * (8 if graph["x"].layout == torch.sparse_csr else 4)


def ragged() -> Work:
    """Return random clients of 60 to 340 nodes."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(60, 341, (100,), generator=generator).tolist()
    graphs = [drawn(size, 64, 10, generator) for size in sizes]
    return Work("ragged, GCN 64-64-10", graphs, GCN(64, 2, 0.0), 10, 1)


def published(name: str, partition: str, clients: int, model: Model, root: Path) -> Work:
    """Return clients of a published graph, 60 % of whose nodes train."""
    rng = Streams(0)
    graph = find.build("dataset", Part(name=name)).load(root, 0)
    owners = find.build("partition", Part(name=partition)).assign(graph, clients, rng("data.partition"))
    graphs = split_all(cut(graph, owners), SplitOptions(0.6, 0.2), rng)
    label = f"{name}, {partition}, {type(model).__name__} {model.hidden}"
    return Work(label, graphs, model, int(graph["y"].max()) + 1, 3)


def works(root: Path) -> dict[str, Callable[[], Work]]:
    """Return what is measured, by its name on the command line."""
    return {
        "ragged": ragged,
        "cora-gat": lambda: published("cora", "louvain", 20, GAT(64, 2, 0.0), root),
        "pubmed-gcn": lambda: published("pubmed", "louvain", 100, GCN(64, 2, 0.0), root),
        "pubmed-gat": lambda: published("pubmed", "louvain", 100, GAT(16, 2, 0.0), root),
    }


def cohort(work: Work, start: dict[str, Any]) -> Callable[[], list[Any]]:
    """Return a round of fedsim's trainer."""
    task = bind(NodeClassification(), work.model, work.features, work.classes, 0, "cpu")
    trainer, memories = Trainer(Adam(RATE), work.steps), [dict[str, Any]() for _ in work.graphs]

    def loss(params: Any, graph: Graph, given: Any) -> torch.Tensor:
        return task.loss(params, graph)

    def round_() -> list[Any]:
        jobs = [Job(k, "train", 0, None, graph, memories[k], k) for k, graph in enumerate(work.graphs)]
        return trainer.train([(job, Fit(start, loss)) for job in jobs])

    return round_


def copies(work: Work, start: dict[str, Any]) -> Callable[[], list[Weights]]:
    """Return a round of the loop over clients."""
    widths = [work.features, work.model.hidden, work.classes]
    build = partial(Network, widths, attend=isinstance(work.model, GAT))
    return partial(loop(work.graphs, build, RATE, work.steps), to_state_dict(start), range(len(work.graphs)))


def bandwidth() -> float:
    """Return the bytes a second that adding two tensors of 128 MiB into a third moves."""
    one, other, total = (torch.ones(LARGE) for _ in range(3))
    torch.add(one, other, out=total)
    return 12 * LARGE / min(timed(lambda: torch.add(one, other, out=total))[0] for _ in range(7))


def compared(mine: list[Any], theirs: list[Weights]) -> float:
    """Return the largest difference.  Raises SystemExit where too many weights differ."""
    pairs = [(to_state_dict(one), other) for one, other in zip(mine, theirs, strict=True)]
    apart = torch.cat([(one[name] - other[name]).abs().flatten() for one, other in pairs for name in one])
    if (far := int((apart > CLOSE).sum())) > FEW * len(apart):
        raise SystemExit(f"{far} of {len(apart)} weights differ by more than {CLOSE}")
    return float(apart.max())


def measure(work: Work, repeats: int) -> str:
    """Return the row of one work."""
    generator = torch.Generator().manual_seed(1)
    start = work.model.init(work.features, work.classes, generator)
    ours, theirs = cohort(work, start), copies(work, start)
    gap = compared(ours(), theirs())
    took: tuple[list[float], list[float]] = ([], [])
    speeds = []
    for repeat in range(repeats + 1):
        for times, round_ in zip(took, (ours, theirs), strict=True):
            seconds = timed(round_)[0]
            if repeat:  # the allocator is warm
                times.append(seconds)
        speeds.append(bandwidth())
    mine, other = map(statistics.median, took)
    speed, least = statistics.median(speeds), work.least_bytes(tree.count(start))
    sizes = [layout.of(graph).nodes for graph in work.graphs]
    about = f"{work.name}, {len(sizes)} of {min(sizes)}-{max(sizes)} nodes, {work.steps} steps"
    return (
        f"{about:62}{mine * 1e3:9.1f}{other * 1e3:10.1f}{other / mine:7.1f}{gap:10.1e}{least / 1e6:8.0f}"
        f"{speed / 1e9:7.1f}{least / speed * 1e3:8.1f}{100 * least / speed / mine:6.0f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="torch threads, for both alike")
    parser.add_argument("--repeats", type=int, default=7, help="rounds that are timed; the median counts")
    root = os.environ.get("FEDSIM_DATA")
    parser.add_argument("--only", nargs="*", choices=list(works(Path())), help="these rows (default: all)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{options.threads} threads, median of {options.repeats} rounds\n")
    print(f"{'':62}{'ms':>9}{'loop ms':>10}{'ratio':>7}{'differs':>10}{'MB':>8}{'GB/s':>7}{'limit':>8}{'near':>8}")
    for name, load in works(Path(root or "")).items():
        if options.only and name not in options.only:
            continue
        if name != "ragged" and root is None:
            print(f"{name}: not measured, set FEDSIM_DATA to a folder that holds Cora/raw and PubMed/raw")
            continue
        print(measure(load(), options.repeats), flush=True)


if __name__ == "__main__":
    main()
