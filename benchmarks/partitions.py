"""What partitions are worth and what they take: cut edges, balance, mix of labels, nodes moved, real seconds.

    python benchmarks/partitions.py [--nodes 10000] [--degree 10] [--clients 10] [--steps 6] [--only NAME ...]

The graph is a block model of that size and, where FEDSIM_DATA names a folder of real graphs, Cora too.  Its nodes
arrive in a random order, half of them at first and the rest in equal steps; a snapshot holds the edges among those
that have arrived.  Measures are means over the snapshots, nodes moved and seconds are sums.  `entries` are the
adjacency entries that CoLearn reads, its work; the other partitions are libraries that do not tell.
Writes OUT.svg and OUT.png beside the table.
"""

import argparse
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch
from cuts import measure, moved

import fedsim  # noqa: F401 -- by which analysis is found from any folder
from analysis.charts.drawing import draw
from analysis.charts.panels import finished
from fedsim.core import seeds
from fedsim.data.datasets.planetoid import Planetoid
from fedsim.data.datasets.synthetic import Synthetic
from fedsim.data.graph import Graph
from fedsim.data.partition import Partition
from fedsim.data.partitions.colearn import CoLearn
from fedsim.data.partitions.label_skew import LabelSkew
from fedsim.data.partitions.louvain import Louvain
from fedsim.data.partitions.metis import Metis
from fedsim.data.partitions.random import Random

PARTITIONS: dict[str, Partition] = {
    "colearn": CoLearn(),
    "colearn, anew": CoLearn(repartition=True),
    "colearn, tau 0": CoLearn(tau=0.0),
    "colearn, balance first": CoLearn(stages="balance_first"),
    "colearn, label first": CoLearn(stages="label_first"),
    "louvain": Louvain(deal="round_robin", each_snapshot=True),
    "louvain, scikit-network": Louvain(package="scikit-network", deal="round_robin", each_snapshot=True),
    "metis": Metis(each_snapshot=True),
    "label skew": LabelSkew(each_snapshot=True),
    "random": Random(),
}
MEASURES = {
    "cut": "cut edges",
    "cov": "CoV of edges",
    "entropy": "label entropy (bit)",
    "moved": "nodes moved",
    "seconds": "seconds",
}


def growing(graph: Graph, steps: int) -> list[Graph]:
    order = seeds.generator(0, "benchmark").permutation(len(graph["y"]))
    found = []
    for end in np.linspace(len(order) / 2, len(order), steps).astype(int):
        arrived = torch.zeros(len(order), dtype=torch.bool)
        arrived[torch.from_numpy(order[:end])] = True
        edges = graph["edges"][:, arrived[graph["edges"]].all(0)]
        found.append(Graph(**{**graph, "edges": edges, "arrived": arrived}))
    return found


def row(name: str, snapshots: list[Graph], clients: int) -> dict[str, Any]:
    partition = PARTITIONS[name]
    began = time.perf_counter()
    own = partition.follow(snapshots, clients, seeds.generator(0, "data.partition"))
    seconds = time.perf_counter() - began
    cuts = [measure(graph, mine) for graph, mine in zip(snapshots, own, strict=True)]
    steps = [*partition.steps(snapshots, clients)] if isinstance(partition, CoLearn) else []
    return {
        "partition": name,
        "cut": np.mean([one.cut_ratio for one in cuts]),
        "cov": np.mean([one.edge_cov for one in cuts]),
        "entropy": np.mean([one.entropy for one in cuts]),
        "moved": sum(moved(before, after) for before, after in pairwise(own)),
        "seconds": seconds,
        "entries": sum(step.scanned for step in steps) if steps else None,
        "stage moves": sum(step.moves for step in steps) if steps else None,
    }


def figure(rows: pd.DataFrame, path: Path) -> None:
    long = rows.melt(["graph", "partition"], [*MEASURES], "measure", "value").replace({"measure": MEASURES})
    order = list(PARTITIONS)
    bars = alt.Chart().mark_bar(color="#0072B2").encode(
        x=alt.X("value:Q", title=None, axis=alt.Axis(tickCount=4)),
        y=alt.Y("partition:N", sort=order, title=None),
    )  # fmt: skip
    chart = (
        alt.layer(bars, data=alt.NamedData(name="rows"))
        .properties(width=130, height=170)
        .facet(
            column=alt.Column("measure:N", sort=[*MEASURES.values()], title=None),
            row=alt.Row("graph:N", title=None),
        )
        .resolve_scale(x="independent")
    )
    draw(finished(chart, long, "Partitions of growing graphs", "means over snapshots; moves and seconds summed"), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10000)
    parser.add_argument("--degree", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--only", nargs="*", choices=[*PARTITIONS], default=[*PARTITIONS], help="these (default: all)")
    parser.add_argument("--out", type=Path, default=Path("partitions"))
    given = parser.parse_args()
    graphs = {"block model": Synthetic(nodes=given.nodes, degree=given.degree, features=4).load(Path(), 0)}
    if root := os.environ.get("FEDSIM_DATA"):
        graphs["Cora"] = Planetoid("Cora").load(Path(root), 0)
    found = []
    for graph, whole in graphs.items():
        snapshots = growing(whole, given.steps)
        print(f"{graph}: {len(whole['y'])} nodes, {whole['edges'].shape[1] // 2} edges, {given.steps} snapshots")
        found += [{"graph": graph, **row(name, snapshots, given.clients)} for name in given.only]
    rows = pd.DataFrame(found)
    print(rows.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep="-"))
    figure(rows, given.out)


if __name__ == "__main__":
    main()
