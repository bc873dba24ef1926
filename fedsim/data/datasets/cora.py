"""Cora: short for the graph `Cora` of `planetoid`."""

from dataclasses import dataclass
from typing import Literal

from fedsim.data.datasets.planetoid import Planetoid


@dataclass(frozen=True)
class Cora(Planetoid):
    """Citations among 2,708 papers of seven fields.  Its files lie under `Cora/raw/`."""

    graph: Literal["Cora"] = "Cora"  # which graph of the collection
