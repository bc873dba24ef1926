"""Cora: the graph `Cora` of `planetoid`, under a short name of its own."""

from dataclasses import dataclass
from typing import Literal

from fedsim.data.datasets.planetoid import Planetoid


@dataclass(frozen=True)
class Cora(Planetoid):
    """Citations among 2,708 papers of seven fields.  Its files lie under `Cora/raw/`."""

    graph: Literal["Cora"] = "Cora"  # which graph of the collection
