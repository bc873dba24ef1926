"""Roman-empire: short for the graph `Roman-empire` of `heterophilous`."""

from dataclasses import dataclass
from typing import Literal

from fedsim.data.datasets.heterophilous import Heterophilous


@dataclass(frozen=True)
class RomanEmpire(Heterophilous):
    """22,662 words of one article, by order and syntax, in 18 roles; one file under `roman_empire/raw/`."""

    graph: Literal["Roman-empire"] = "Roman-empire"  # which graph of the collection
