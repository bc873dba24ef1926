"""PubMed: short for the graph `PubMed` of `planetoid`."""

from dataclasses import dataclass
from typing import Literal

from fedsim.data.datasets.planetoid import Planetoid


@dataclass(frozen=True)
class Pubmed(Planetoid):
    """Citations among 19,717 papers on three kinds of diabetes.  Its files lie under `PubMed/raw/`."""

    graph: Literal["PubMed"] = "PubMed"  # which graph of the collection
