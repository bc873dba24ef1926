"""Citations among papers of computer science on arXiv (Hu et al., "Open Graph Benchmark", NeurIPS 2020).

169,343 nodes in 40 classes by subject; 128 features, the mean of a title's and an abstract's word vectors.
Citations are read in both directions.  Years and the public split by year are not read: the masks are empty.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedsim.data.dataset import Dataset, undirected
from fedsim.data.files.published import prepared
from fedsim.data.graph import Graph, graph_of, sparse_if_worth

URL = "https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
RAW = "ogbn_arxiv/raw"  # the benchmark's own folder, named so once its archive is unpacked
EDGES, FEATURES, LABELS = "edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz"


@dataclass(frozen=True)
class OgbnArxiv(Dataset):
    """Three compressed tables without a header under `ogbn_arxiv/raw/`."""

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; the seed does not matter."""
        urls = {name: f"{URL}#arxiv/raw/{name}" for name in (EDGES, FEATURES, LABELS)}
        return prepared(root / RAW, urls, _read)


def _read(folder: Path) -> Graph:
    """Return the graph of the tables in a folder.

    A row of each: the source and target of an edge; a node's features; a node's label.
    Raises ValueError if they do not fit one another.
    """
    edges = np.loadtxt(folder / EDGES, dtype=np.int64, delimiter=",", ndmin=2)
    x = np.loadtxt(folder / FEATURES, dtype=np.float32, delimiter=",", ndmin=2)
    y = np.loadtxt(folder / LABELS, dtype=np.int64, delimiter=",", ndmin=2)
    if y.shape != (len(x), 1):
        raise ValueError(f"{FEATURES} has {len(x)} rows, so {LABELS} must have as many, of one number each")
    if edges.shape[1] != 2 or edges.min() < 0 or edges.max() >= len(x):
        raise ValueError(f"{EDGES} must have two numbers a row, from 0 to {len(x) - 1}, the rows of {FEATURES}")
    ends = torch.from_numpy(edges.T.copy())
    return graph_of(sparse_if_worth(torch.from_numpy(x)), undirected(ends, len(x)), torch.from_numpy(y[:, 0].copy()))
