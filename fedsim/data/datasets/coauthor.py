"""Co-authorship graphs, CS and Physics (Shchur et al., "Pitfalls of Graph Neural Network Evaluation", 2018).

Features are keywords of papers, made binary by PyG.  There is no public split, so the masks are empty.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedsim.data.dataset import Dataset
from fedsim.data.files.published import published
from fedsim.data.graph import Graph

URL = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"

SHORT = {"CS": "cs", "Physics": "phy"}


@dataclass(frozen=True)
class Coauthor(Dataset):
    """One file under `<graph>/raw/`."""

    graph: Literal["CS", "Physics"]  # which graph of the collection

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; the seed does not matter."""
        name = f"ms_academic_{SHORT[self.graph]}.npz"
        urls = {name: f"{URL}/{name}"}
        return published(root, f"{self.graph}/raw", urls, lambda pyg, folder: pyg.Coauthor(folder, self.graph))
