"""Labelled graphs over about ten years, as arrays (Xu et al., "Spatio-Temporal Attentive RNN ...", IJCAI
2019).

The form in which DBLP3, DBLP5, Brain and Reddit were published: one NumPy archive, supplied by the user.
Snapshot k is the seconds from k to k + 1, so `steps` is the number of snapshots; all nodes are there from the
start, an edge lives over the snapshots that have it, and features are those of the snapshot.  Adjacencies are
read in both directions, their weights are not read.  Files that can only be read by executing their content
(pickles) are refused.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedsim.core.table import FilePath
from fedsim.data.files.published import prepared
from fedsim.data.graph import Graph, with_keys
from fedsim.data.time.temporal import UNLABELLED, DynamicDataset, recorded


@dataclass(frozen=True)
class StarArrays(DynamicDataset):
    """An archive of `adjs` (T, N, N), `attmats` (N, T, F), one-hot `labels` (N, C); zeros: unlabelled."""

    file: FilePath  # the archive (.npz)

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; neither argument matters."""
        path = self.file.resolve()
        return prepared(path.parent, {path.name: ""}, lambda folder: _read(folder / path.name))


def _read(path: Path) -> Graph:
    """Return the graph.  Raises ValueError or KeyError if arrays do not fit one another or are missing."""
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:  # NumPy leaves a torn file of a name open
        adjacency, features, labels = file["adjs"], file["attmats"], file["labels"]
    count, nodes = adjacency.shape[0], adjacency.shape[-1]
    shapes = adjacency.shape, features.shape[:-1], labels.shape[:-1]
    if adjacency.ndim != 3 or shapes != ((count, nodes, nodes), (nodes, count), (nodes,)):
        raise ValueError(
            f"adjs is {adjacency.shape}, attmats {features.shape}, labels {labels.shape}; "
            "they must be (T, N, N), (N, T, F) and (N, C)"
        )
    number, source, target = np.nonzero(adjacency)
    y = np.where(labels.any(1), labels.argmax(1), UNLABELLED).astype(np.int64)
    graph = recorded(np.stack([source, target]), number, nodes, count, 1.0, y)
    frames = torch.from_numpy(np.ascontiguousarray(features.swapaxes(0, 1), dtype=np.float32))
    framed = torch.arange(count, dtype=torch.float64)
    return with_keys(graph, {"x": frames[-1].clone(), "frames": frames, "framed": framed})
