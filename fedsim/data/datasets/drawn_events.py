"""Drawn stand-ins with the sizes of two graphs of the Temporal Graph Benchmark (Huang et al., NeurIPS 2023,
Table 1).

| | tgbl_coin | tgbn_reddit |
|---|---|---|
| nodes | 638,486 accounts | 11,068 users, 698 subreddits |
| events | 22,809,486 transfers | 27,174,118 posts |
| distinct seconds | 1,295,720 | 21,889,537 |
| recorded | April to October 2022 | 2005 to 2019 |
| surprise | 0.120 | 0.013 |

They are for measuring cost: events are drawn by popularity and repetition alone
(fedsim/data/time/popularity.py), since no law of the originals' is published beyond their sizes and least
degrees (10 events an account, 1,000 posts a user).  **Scores on them say nothing about scores on the
originals**; most users of a drawn tgbn_reddit post in the same subreddit, and on a small share of it every
pair soon occurs, so that its surprise is lower.  The events are written once as a CSV file in the format of
`tgb` under ~/.cache/fedsim, for each seed, and read from there as a user's own file is; tgbn_reddit has
labels, the subreddit in which a user posts most.  A tenth of tgbl_coin takes 60 MB of disk, the whole 600 MB.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
from pydantic import Field

from fedsim.core import seeds
from fedsim.core.arrays import Ints
from fedsim.data.datasets.tgb import COLUMNS, LABELS, Tgb
from fedsim.data.files.published import cache
from fedsim.data.graph import Graph
from fedsim.data.time import popularity
from fedsim.data.time.popularity import Popularity
from fedsim.data.time.temporal import Featureless


@dataclass(frozen=True)
class Shape:
    """What is published of a graph; times are in seconds since 1970."""

    sources: int
    targets: int  # 0: the sources themselves
    events: int
    ticks: int
    span: tuple[int, int]
    surprise: float
    least: int  # events of a source, or of a node


SHAPES = {
    "tgbl_coin": Shape(638_486, 0, 22_809_486, 1_295_720, (1_648_771_200, 1_667_260_800), 0.120, 10),
    "tgbn_reddit": Shape(11_068, 698, 27_174_118, 21_889_537, (1_104_537_600, 1_546_300_800), 0.013, 1000),
}


@dataclass(frozen=True)
class DrawnEvents(Featureless):
    """For example `{name: drawn_events, like: tgbl_coin, scale: 0.01}`."""

    like: Literal["tgbl_coin", "tgbn_reddit"] = "tgbl_coin"  # whose size and popularity it has
    scale: Annotated[float, Field(ge=1e-4, le=1)] = 1.0  # share of the original's nodes, events and distinct seconds
    drawn: int | None = None  # seed of the drawing; null: the run's

    def topology(self, root: Path, seed: int) -> Graph:
        """Return the graph of `drawn`, or of that seed."""
        file = self.file(seed if self.drawn is None else self.drawn)
        labels = file.with_name(LABELS_FILE) if SHAPES[self.like].targets else None
        return Tgb(file=file, labels=labels).topology(root, seed)

    def file(self, seed: int) -> Path:
        """Return the file of events, drawn and written where it is missing."""
        folder = cache() / "drawn_events" / f"{self.like}-{self.scale:g}-{seed}"
        path = folder / "events.csv"
        if not path.is_file():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                self.write(Path(work) / "new", seed)
                try:
                    Path(work, "new").replace(folder)
                except OSError:  # another process was faster
                    if not path.is_file():
                        raise
        return path

    def write(self, folder: Path, seed: int) -> None:
        """Write the events, and the labels if there are any, into a new folder."""
        folder.mkdir()
        ends, times = self.events(seed)
        table = pd.DataFrame(dict(zip(COLUMNS, (*ends, times), strict=True)))
        table.to_csv(folder / "events.csv", index=False, chunksize=1_000_000)
        if SHAPES[self.like].targets:
            posts = table.groupby([COLUMNS[0], COLUMNS[1]], sort=True).size().reset_index(name="weight")
            posts.insert(0, "timestamp", int(times[-1]))
            posts.columns = pd.Index(LABELS)
            posts.to_csv(folder / LABELS_FILE, index=False)

    def events(self, seed: int) -> tuple[Ints, Ints]:
        """Return pairs of nodes (2, E) and their seconds (E,), ascending."""
        shape, rng = SHAPES[self.like], seeds.generator(seed, "data.drawn_events")
        sources, count = max(2, round(shape.sources * self.scale)), round(shape.events * self.scale)
        targets = max(2, round(shape.targets * self.scale)) if shape.targets else 0
        own = popularity.weights(sources, shape.least, count if targets else 2 * count)
        who = Popularity(own, popularity.zipf(targets, count) if targets else own, bool(targets))
        ends = popularity.pairs(who, count, shape.surprise, rng)
        return ends, popularity.instants(count, round(shape.ticks * self.scale), shape.span, rng)


LABELS_FILE = "labels.csv"
