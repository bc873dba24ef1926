"""Amazon Computers: short for the graph `Computers` of `amazon`."""

from dataclasses import dataclass
from typing import Literal

from fedsim.data.datasets.amazon import Amazon


@dataclass(frozen=True)
class Computers(Amazon):
    """13,752 products of ten kinds, bought together.  Its file lies under `Computers/raw/`."""

    graph: Literal["Computers"] = "Computers"  # which graph of the collection
