"""Co-purchase graphs, Computers and Photo (Shchur et al., "Pitfalls of Graph Neural Network Evaluation",
2018).

Features are binary words of reviews; some nodes are isolated.  There is no public split, so the masks are
empty.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedsim.data.dataset import Dataset
from fedsim.data.files.published import published
from fedsim.data.graph import Graph

URL = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"


@dataclass(frozen=True)
class Amazon(Dataset):
    """One file under `<graph>/raw/`."""

    graph: Literal["Computers", "Photo"]  # which graph of the collection

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; the seed does not matter."""
        name = f"amazon_electronics_{self.graph.lower()}.npz"
        urls = {name: f"{URL}/{name}"}
        return published(root, f"{self.graph}/raw", urls, lambda pyg, folder: pyg.Amazon(folder, self.graph))
