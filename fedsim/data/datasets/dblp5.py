"""DBLP5: short for the graph `DBLP5` of `dblp`."""

from dataclasses import dataclass
from typing import Literal

from fedsim.data.datasets.dblp import Dblp


@dataclass(frozen=True, kw_only=True)
class Dblp5(Dblp):
    """Co-authorship among 6,606 authors in ten years.  Its file lies under `DBLP5/raw/`."""

    graph: Literal["DBLP5"] = "DBLP5"  # which graph of the collection
