"""Five graphs whose edges join unlike nodes (Platonov et al., "A critical look...", ICLR 2023).

The masks are the first of ten public splits.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedsim.data.dataset import Dataset
from fedsim.data.files.published import published
from fedsim.data.graph import Graph

URL = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"


@dataclass(frozen=True)
class Heterophilous(Dataset):
    """One file under `<graph>/raw/`, the graph's name in small letters with underscores."""

    # which graph of the collection
    graph: Literal["Roman-empire", "Amazon-ratings", "Minesweeper", "Tolokers", "Questions"]

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; the seed does not matter."""
        name = self.graph.lower().replace("-", "_")
        urls = {f"{name}.npz": f"{URL}/{name}.npz"}
        return published(
            root, f"{name}/raw", urls, lambda pyg, folder: pyg.HeterophilousGraphDataset(folder, self.graph)
        )
