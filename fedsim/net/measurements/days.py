"""Measured days: when phones were idle, charging and on Wi-Fi, and how far a country's clocks are ahead of UTC.

Three days of 440 phones in January and February 2020 (`tables/NOTICES.txt`), sampled every half hour; 146 of
them are never available and have no row.  The three days are a circle, cut into days at `CUT`, the hour at
which the fewest stretches are under way, so that nights stay whole.

Users of one keyboard app; stretches and gaps of less than half an hour are mostly missed, so that stretches
are too few and too long, while shares of time are unbiased.  Whether the recorded clock is each phone's own
is not stated; it is taken to be.  A country has one clock here, that of its largest city, all year in
standard time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from fedsim.core import table
from fedsim.core.arrays import Bools, Floats, Ints
from fedsim.core.table import Column

FOLDER = Path(__file__).parent / "tables"
COLUMNS = (
    Column("phone", whole=True, low=0),
    Column("on_h", low=0),
    Column("off_h", low=0),
)
PHONES, DAYS = 440, 3
HOUR = 3600.0
DAY, SAMPLE = 24 * HOUR, HOUR / 2
CUT = 15 * HOUR  # time of day
SAMPLES = round(DAY / SAMPLE)


@dataclass(frozen=True)
class Days:
    """Measured days, `DAYS` of each phone in a row: whether it is available at first, and when that changes.

    Day d has the changes from `starts[d]` to `starts[d + 1]`, in seconds after its beginning and above 0,
    ascending.
    """

    first: Bools  # (days,)
    starts: Ints  # (days + 1,)
    changes: Floats
    comers: Ints  # the phones that are ever available


@cache
def measured() -> Days:
    """Return the days of all phones."""
    columns = table.read(FOLDER / "phone_stretches.csv", COLUMNS)
    online = np.zeros((PHONES, DAYS * SAMPLES), dtype=bool)
    begins, ends = (np.rint(columns[name] * HOUR / SAMPLE).astype(np.int64) for name in ("on_h", "off_h"))
    for phone, begin, end in zip(columns["phone"].tolist(), begins.tolist(), ends.tolist(), strict=True):
        online[phone, begin:end] = True
    days = np.roll(online, -round(CUT / SAMPLE), axis=1).reshape(PHONES * DAYS, SAMPLES)
    day, sample = np.nonzero(days[:, 1:] != days[:, :-1])
    starts = np.searchsorted(day, np.arange(PHONES * DAYS + 1))
    changes = SAMPLE * (sample + 1).astype(np.float64)
    return Days(days[:, 0], starts.astype(np.int64), changes, np.unique(columns["phone"]))


@cache
def ahead() -> Mapping[str, float]:
    """Return the seconds by which each country's clocks are ahead of UTC, for all countries with measured links."""
    offsets = (Column("country", text=True), Column("utc_offset_h", low=-12, high=14))
    columns = table.read(FOLDER / "utc_offsets.csv", offsets)
    return dict(zip(columns["country"].tolist(), (columns["utc_offset_h"] * HOUR).tolist(), strict=True))
