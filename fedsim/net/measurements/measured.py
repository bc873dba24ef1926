"""Measured access links: clients drawn from the distributions of download, upload and round trip in 157 countries.

The tables are percentiles of M-Lab's NDT tests of October 2025 (`tables/NOTICES.txt`).  A client's three
values are joined by a Gaussian copula: normal scores with the wanted rank correlations are read off each
table, linearly in the logarithm of the value against the normal score, and held beyond its first and last
percentile.  Rank correlations are assumptions: the source has marginal distributions only.

Tests, not users, and fixed, Wi-Fi and mobile links together; at most about 1 Gbit/s; round trips to a nearby
server. Uploads below about 0.2 Mbit/s are mostly tests that stalled, so a floor cuts the distribution there
(links as slow as that are lost with them).  Not modelled: jitter, loss, and how a link changes with time.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np

from fedsim.core import portable, table
from fedsim.core.arrays import Floats, Strings
from fedsim.core.table import Column
from fedsim.core.units import RATE, nearest

FILE = Path(__file__).parent / "tables" / "access_links.csv"
VALUES = {"download_mbps": 1e6, "upload_mbps": 1e6, "rtt_ms": 1e-3}  # columns that are drawn, and their units in SI
COLUMNS = (Column("country", text=True), Column("quantile"), *map(Column, VALUES))
OTHERS = Column("other", text=True, required=False)
DOWN_UP, RATES_RTT, FLOOR = 0.7, -0.3, 200e3
ALIASES = {"UK": "GB", "EL": "GR"}  # in use, but not ISO 3166
NORMAL = NormalDist()
GRAIN = 12  # decimals of the root of the correlations
HIGHEST = float(np.nextafter(1.0, 0.0))


@dataclass(frozen=True)
class CountryLinks:
    """One country's links: the normal scores of its percentiles, and the logarithms of the values there."""

    scores: Floats
    down: Floats  # of bit/s
    up: Floats  # of bit/s
    rtt: Floats  # of seconds

    def below(self, floor: float) -> float:
        """Return the share of uploads below `floor` bit/s, 0 below the first percentile and 1 from the last on."""
        log = math.log(floor)
        if log >= self.up[-1]:
            return 1.0
        return NORMAL.cdf(float(np.interp(log, self.up, self.scores))) if log > self.up[0] else 0.0


@cache
def _tables() -> Mapping[str, CountryLinks]:
    columns, _ = table.read_lines(FILE, COLUMNS, lambda name: OTHERS)
    quantiles, inverse = np.unique(columns["quantile"], return_inverse=True)
    scores = np.array([NORMAL.inv_cdf(quantile / 100) for quantile in quantiles.tolist()])[inverse]
    logs = [portable.log(columns[name] * unit) for name, unit in VALUES.items()]
    rows = {country: columns["country"] == country for country in np.unique(columns["country"]).tolist()}
    return {country: CountryLinks(*(column[own] for column in (scores, *logs))) for country, own in rows.items()}


def countries() -> tuple[str, ...]:
    """Return the codes of the countries with tables, in alphabetical order."""
    return tuple(_tables())


def links(country: str) -> CountryLinks:
    """Return a country's links.  Raises ValueError, with similar codes, if there are none."""
    if country in _tables():
        return _tables()[country]
    near = ALIASES.get(country.upper()) or nearest(country, countries())
    mean = f"; did you mean {near!r}?" if near else "."
    alike = [code for code in countries() if country and code[0] == country[0].upper()]
    those = f"; those with {alike[0][0]} are {', '.join(alike)}" if alike else ""
    raise ValueError(
        f"no links were measured in {country!r}{mean} "
        f"There are tables of {len(countries())} countries by their codes of two letters (ISO 3166){those}"
    )


def gaussian(down_up: float, rates_rtt: float) -> Floats:
    """Return the correlations of normal scores (down, up, rtt) that have these rank correlations.

    Raises ValueError if no three quantities can be correlated so.
    """
    ranks = np.array([[1, down_up, rates_rtt], [down_up, 1, rates_rtt], [rates_rtt, rates_rtt, 1]], dtype=np.float64)
    correlations: Floats = 2 * np.sin(np.pi * ranks / 6)
    if np.linalg.eigvalsh(correlations)[0] < -1e-12:
        raise ValueError(
            f"rank correlations of {down_up:g} between rates and of {rates_rtt:g} between rates and round trip "
            "contradict each other; take 'rates_rtt' nearer to 0, or 'down_up' nearer to 1"
        )
    return correlations


def check_floor(floor: float, country: str) -> None:
    """Raise ValueError if a country has no uploads above the floor."""
    if links(country).below(floor) >= 1:
        raise ValueError(f"99 % of uploads in {country} are below {RATE.text(floor)}; take a lower floor, or null")


def rows(
    where: Strings,
    rng: np.random.Generator,
    down_up: float = DOWN_UP,
    rates_rtt: float = RATES_RTT,
    floor: float | None = FLOOR,
) -> dict[str, Floats]:
    """Return latency (s, one way), uplink and downlink (bit/s) of clients in these countries, each (K,).

    A client's normal scores depend on its number only: neither on how many clients there are nor on their
    countries. Raises ValueError as `links`, `gaussian` and `check_floor` do.
    """
    values, vectors = np.linalg.eigh(gaussian(down_up, rates_rtt))
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T  # symmetric, so without a choice of signs
    # NumPy rounds these products by processor: a coarser grain, and sums that are written out, are alike on all
    scores = (rng.standard_normal((len(where), 3))[:, :, None] * np.round(root, GRAIN)).sum(1)
    columns = {key: np.zeros(len(where)) for key in ("latency", "uplink", "downlink")}
    for country in np.unique(where).tolist():
        clients, its = np.flatnonzero(where == country), links(country)
        down, up, rtt = scores[clients].T
        if floor is not None:
            check_floor(floor, country)
            up = _above(up, its.below(floor))
        columns["downlink"][clients] = portable.exp(np.interp(down, its.scores, its.down))
        columns["uplink"][clients] = portable.exp(np.interp(up, its.scores, its.up))
        columns["latency"][clients] = portable.exp(np.interp(rtt, its.scores, its.rtt)) / 2
    return columns


def _above(scores: Iterable[float], share: float) -> Floats:
    """Return the scores with which values are drawn from the distribution without its lowest share."""
    shares = (min(share + (1 - share) * NORMAL.cdf(score), HIGHEST) for score in scores)
    return np.array([NORMAL.inv_cdf(each) for each in shares])
