"""Trust ratings on Bitcoin-OTC (Kumar et al., "Edge Weight Prediction in Weighted Signed ...", ICDM 2016).

35,592 ratings among 5,881 traders, from November 2010 to January 2016, as the SNAP collection has them.  A
rating is an event, read in both directions; its value is not read.  Times are seconds since 1970 as
published, whatever the time zone of the machine.  Windows of 13.8 days (`step: 13.8 d`) are the 138 snapshots
that are common in the literature.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.data.graph import Graph
from fedsim.data.time.temporal import PublishedEvents, events

FILE = "soc-sign-bitcoinotc.csv"


@dataclass(frozen=True)
class BitcoinOtc(PublishedEvents):
    """One table without a header under `BitcoinOTC/raw/`: source, target, rating, second."""

    raw, urls = "BitcoinOTC/raw", {FILE: "https://snap.stanford.edu/data/soc-sign-bitcoinotc.csv.gz"}

    def read(self, folder: Path) -> Graph:
        """Return the graph; nodes are in the order of the traders' numbers."""
        table = np.loadtxt(folder / FILE, delimiter=",", ndmin=2)
        known, number = np.unique(table[:, :2].astype(np.int64), return_inverse=True)
        return events(number.reshape(-1, 2).T, table[:, 3], len(known))
