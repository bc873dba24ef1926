"""One small graph, and how it is written in every format that `dataset: file` reads."""

import csv
import warnings

import networkx as nx
import numpy as np
import torch


def drawn(nodes=12, seed=0, features=3, classes=3):
    """Arrays of a small graph, its edges in one direction each and none twice."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(a, b) for a in range(nodes) for b in range(a + 1, nodes)])
    chosen = pairs[np.sort(rng.permutation(len(pairs))[: 2 * nodes])]
    turn = rng.permutation(nodes) % 4
    return {
        "x": rng.standard_normal((nodes, features)).astype(np.float32),
        "edge_index": chosen.T.copy(),
        "y": rng.permutation(nodes) % classes,
        "train_mask": turn < 2, "val_mask": turn == 2, "test_mask": turn == 3,
    }  # fmt: skip


def named(arrays):
    """Ids, which are texts that are no numbers, and rows of a table of nodes."""
    ids = [f"paper {number * 7 % 100:02d}" for number in range(len(arrays["y"]))]
    split = np.select([arrays[f"{name}_mask"] for name in ("train", "val", "test")], ["train", "val", "test"], "")
    rows = [
        {"id": ids[v], "label": int(arrays["y"][v]), "split": str(split[v])}
        | {f"f{column}": float(value) for column, value in enumerate(arrays["x"][v])}
        for v in range(len(ids))
    ]
    return ids, rows


def write(folder, arrays, kind):
    """Write the arrays into the folder and return the data set's part."""
    ids, rows = named(arrays)
    path = folder / f"graph.{kind.removeprefix('data.')}"
    if kind == "npz":
        np.savez(path, **arrays)
    elif kind == "pt":
        torch.save({name: torch.as_tensor(array) for name, array in arrays.items()}, path)
    elif kind == "data.pt":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch_geometric.data import Data
        torch.save(Data(**{name: torch.as_tensor(array) for name, array in arrays.items()}), path)
    elif kind == "graphml":
        graph = nx.Graph()
        graph.add_nodes_from((row["id"], {key: row[key] for key in row if key != "id"}) for row in rows)
        graph.add_edges_from((ids[a], ids[b]) for a, b in arrays["edge_index"].T)
        nx.write_graphml(graph, path)
    else:
        path = folder / "edges.csv"
        table(path, [{"source": ids[a], "target": ids[b]} for a, b in arrays["edge_index"].T])
        table(folder / "nodes.csv", rows)
        return {"name": "file", "file": str(path), "nodes": str(folder / "nodes.csv")}
    return {"name": "file", "file": str(path)}


def table(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
