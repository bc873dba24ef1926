"""Trust ratings on Bitcoin-OTC (Kumar et al., "Edge Weight Prediction in Weighted Signed Networks", ICDM 2016).

35,592 ratings among 5,881 traders, from November 2010 to January 2016, as the SNAP collection has them.  A rating is an
event, read in both directions; its value is not read.  Times are seconds since 1970 as published, whatever the time
zone of the machine.  Windows of 13.8 days (`step: 13.8 d`) are the 138 snapshots that are common in the literature.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.data.graph import Graph
from fedsim.data.published import prepared
from fedsim.data.temporal import Featureless, events

RAW, FILE = "BitcoinOTC/raw", "soc-sign-bitcoinotc.csv"
URL = "https://snap.stanford.edu/data/soc-sign-bitcoinotc.csv.gz"


@dataclass(frozen=True)
class BitcoinOtc(Featureless):
    """One table without a header under `BitcoinOTC/raw/`: source, target, rating, second."""

    def topology(self, root: Path) -> Graph:
        """Return the graph; vertices are in the order of the traders' numbers."""
        return prepared(root, RAW, {FILE: URL}, _read)


def _read(above: Path) -> Graph:
    table = np.loadtxt(above / RAW / FILE, delimiter=",", ndmin=2)
    known, number = np.unique(table[:, :2].astype(np.int64), return_inverse=True)
    return events(number.reshape(-1, 2).T, table[:, 3], len(known))
