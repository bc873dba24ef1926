"""Coauthor Physics: short for the graph `Physics` of `coauthor`."""

from dataclasses import dataclass
from typing import Literal

from fedsim.data.datasets.coauthor import Coauthor


@dataclass(frozen=True)
class Physics(Coauthor):
    """34,493 authors of five fields who wrote together.  Its file lies under `Physics/raw/`."""

    graph: Literal["Physics"] = "Physics"  # which graph of the collection
