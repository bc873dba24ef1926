"""DBLP3: short for the graph `DBLP3` of `dblp`."""

from dataclasses import dataclass
from typing import Literal

from fedsim.data.datasets.dblp import Dblp


@dataclass(frozen=True, kw_only=True)
class Dblp3(Dblp):
    """Co-authorship among 4,257 authors in ten years.  Its file lies under `DBLP3/raw/`."""

    graph: Literal["DBLP3"] = "DBLP3"  # which graph of the collection
