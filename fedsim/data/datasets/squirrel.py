"""Squirrel: short for the graph `squirrel` of `wikipedia`."""

from dataclasses import dataclass
from typing import Literal

from fedsim.data.datasets.wikipedia import Wikipedia


@dataclass(frozen=True)
class Squirrel(Wikipedia):
    """5,201 linked pages in five classes by traffic.  Its files lie under `squirrel/geom_gcn/raw/`."""

    graph: Literal["squirrel"] = "squirrel"  # which graph of the collection
