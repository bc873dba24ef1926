"""Wikipedia pages chameleon and squirrel, five classes by traffic (Pei et al., "Geom-GCN", ICLR 2020).

After Rozemberczki et al., 2021.  Links are read in both directions, self links are dropped; the masks are the
first of ten public splits.  Both graphs hold duplicate nodes, which favours models that memorise
neighbourhoods (Platonov et al., ICLR 2023); they are not removed here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedsim.data.dataset import Dataset
from fedsim.data.files.published import published
from fedsim.data.graph import Graph

URL = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/f1fc0d14b3b019c562737240d06ec83b07d16a8f"


@dataclass(frozen=True)
class Wikipedia(Dataset):
    """Files under `<graph>/geom_gcn/raw/`."""

    graph: Literal["chameleon", "squirrel"]  # which graph of the collection

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; the seed does not matter."""
        tables = ("out1_node_feature_label.txt", "out1_graph_edges.txt")
        splits = [f"{self.graph}_split_0.6_0.2_{number}.npz" for number in range(10)]
        urls = {name: f"{URL}/new_data/{self.graph}/{name}" for name in tables}
        urls |= {name: f"{URL}/splits/{name}" for name in splits}
        return published(
            root, f"{self.graph}/geom_gcn/raw", urls, lambda pyg, folder: pyg.WikipediaNetwork(folder, self.graph)
        )
