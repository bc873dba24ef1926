"""The tables of docs/sparse_participation.md hold what the recorded runs say, counted without fedsim's measures."""

from collections import defaultdict
from itertools import pairwise
from math import log10, sqrt
from pathlib import Path
from statistics import fmean, stdev

import pyarrow.parquet as pq
import pytest

from analysis.claims.file import read

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docs/sparse_participation.parquet"
SPENT = {"rounds": "updates", "bytes": "bytes", "time": "seconds"}
SHARES = (0.01, 0.02, 0.05, 0.1, 0.3, 1.0)
T = 2.7764451051977987  # Student's t with four degrees of freedom at 97.5 %
CHOSEN = {"a draw", "late ones cut"}  # by the protocol: these are compared for the same bytes and time


@pytest.fixture(scope="module")
def runs():
    """Return the rows of each run in order of time, by data, method, cause, participation and seed."""
    found = defaultdict(list)
    for row in pq.read_table(FILE).to_pylist():
        found[row["data"], row["method"], row["cause"], row["participation"], row["seed"]].append(row)
    return {key: sorted(rows, key=lambda row: row["updates"]) for key, rows in found.items()}


def table(name):
    (one,) = [table for table in read() if table.table == name]
    return [[*row.cells] for row in one.rows]


def budget(runs, data, cause, name):
    """Return the least that any run had spent when it was last scored."""
    alike = [
        rows[-1][SPENT[name]]
        for (of, _, why, *_), rows in runs.items()
        if of == data and (why == cause or (name != "rounds" and {why, cause} <= CHOSEN))
    ]
    return min(spent for spent in alike if spent > 0)


def scores(runs, data, method, cause, name):
    """Return each seed's last score within the budget, by participation."""
    most, found = budget(runs, data, cause, name), defaultdict(dict)
    for (*_, share, seed), rows in runs.items():
        if rows[0]["data"] == data and rows[0]["method"] == method and rows[0]["cause"] == cause:
            within = [row["accuracy"] for row in rows if row[SPENT[name]] <= most]
            if within:
                found[share][seed] = within[-1]
    return found


def guessing(runs, data):
    """Return the highest score of any seed's most frequent label."""
    return max(rows[0]["chance"] for (of, *_), rows in runs.items() if of == data)


def shown(found, guessed):
    """Yield mean and half the interval at each share, the mean over the logarithm, and where half the gain is lost."""
    for share in SHARES:
        values = [*found[share].values()]
        if len(values) < 5:
            yield "–"
        else:
            yield f"{100 * fmean(values):.1f} ±{100 * T * stdev(values) / sqrt(5):.1f}"
    whole = [seed for seed in range(5) if all(seed in found[share] for share in SHARES)]
    steps = [*pairwise(SHARES)]
    areas = [sum((found[a][seed] + found[b][seed]) / 2 * (log10(b) - log10(a)) for a, b in steps) / 2 for seed in whole]
    yield f"{100 * fmean(areas):.1f}" if areas else "–"
    gains = {share: fmean(found[share].values()) - guessed for share in SHARES}
    fails = [share for share in SHARES if gains[share] < max(gains.values()) / 2]
    yield ", ".join(f"{100 * share:g} %" for share in fails) or "–"


def test_methods_are_as_recorded(runs):
    rows = table("sparse_methods")
    assert len(rows) == 2 * 3 * 5
    for place, method, *cells in rows:
        data, name = place.split(", ")
        assert cells == [*shown(scores(runs, data, method, "a draw", name), guessing(runs, data))], (place, method)


def test_causes_are_as_recorded(runs):
    rows = table("sparse_causes")
    assert len(rows) == 2 * 3 * 4
    for place, cause, *cells in rows:
        data, name = place.split(", ")
        assert cells == [*shown(scores(runs, data, "FedAvg", cause, name), guessing(runs, data))], (place, cause)


def test_the_record_is_whole(runs):
    causes = {(method, cause) for _, method, cause, *_ in runs}
    assert len(causes) == 5 + 3
    assert len(runs) == 2 * len(causes) * len(SHARES) * 5
