"""Face-to-face contacts in a primary school (Stehlé et al., PLoS ONE 2011; SocioPatterns).

125,773 contacts of 20 seconds each among 242 pupils and teachers on two days; the labels are the ten school
classes and "Teachers", in alphabetical order.  A contact is an event at the second at which it was published.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fedsim.data.graph import Graph
from fedsim.data.time.temporal import PublishedEvents, events

FILE = "primaryschool.csv"
URL = "http://www.sociopatterns.org/wp-content/uploads/2015/09/primaryschool.csv.gz"


@dataclass(frozen=True)
class PrimarySchool(PublishedEvents):
    """One tab-separated table under `PrimarySchool/raw/`: second, two persons, their two classes."""

    raw, urls = "PrimarySchool/raw", {FILE: URL}

    def read(self, folder: Path) -> Graph:
        """Return the graph; nodes are in the order of the persons' numbers.

        Raises ValueError if a person is in two classes.
        """
        table = pd.read_csv(folder / FILE, sep="\t", header=None, names=["time", "i", "j", "of_i", "of_j"])
        people, number = np.unique(table[["i", "j"]].to_numpy(dtype=np.int64), return_inverse=True)
        ends = number.reshape(-1, 2).T
        groups, label = np.unique(table[["of_i", "of_j"]].to_numpy(dtype=str), return_inverse=True)
        y = np.zeros(len(people), dtype=np.int64)
        y[ends] = label.reshape(-1, 2).T
        if (y[ends] != label.reshape(-1, 2).T).any():
            raise ValueError(f"{FILE} has a person in two of the {len(groups)} classes")
        return events(ends, table["time"].to_numpy(dtype=np.float64), len(people), y)
