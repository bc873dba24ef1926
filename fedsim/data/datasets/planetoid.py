"""Citation graphs Cora, CiteSeer and PubMed (Sen et al., AI Magazine 2008), in the files of Yang et al. (ICML
2016).

Raw features: binary words, in PubMed TF-IDF.  The masks are the public split: 20 nodes a class, 500 and
1,000.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedsim.data.dataset import Dataset
from fedsim.data.files.pickles import refuse_code
from fedsim.data.files.published import published
from fedsim.data.graph import Graph

URL = "https://github.com/kimiyoung/planetoid/raw/master/data"


@dataclass(frozen=True)
class Planetoid(Dataset):
    """Files under `<graph>/raw/`."""

    graph: Literal["Cora", "CiteSeer", "PubMed"]  # which graph of the collection

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph; the seed does not matter."""
        parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
        names = [f"ind.{self.graph.lower()}.{part}" for part in parts]
        urls = {name: f"{URL}/{name}" for name in names}

        def read(pyg: Any, folder: str) -> Any:
            for name in names[:-1]:  # the last is a text
                refuse_code(Path(folder) / self.graph / "raw" / name)
            return pyg.Planetoid(folder, self.graph)

        return published(root, f"{self.graph}/raw", urls, read)
