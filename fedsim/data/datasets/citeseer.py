"""CiteSeer: short for the graph `CiteSeer` of `planetoid`."""

from dataclasses import dataclass
from typing import Literal

from fedsim.data.datasets.planetoid import Planetoid


@dataclass(frozen=True)
class Citeseer(Planetoid):
    """Citations among 3,327 papers of six fields.  Its files lie under `CiteSeer/raw/`."""

    graph: Literal["CiteSeer"] = "CiteSeer"  # which graph of the collection
