"""One pass through all points: how many are read together changes nothing, nor in which order they stand."""

import pandas as pd
import pytest
from synthetic_sweep import write_sweep

from analysis.measures import digest, tables
from analysis.measures.communication import totals
from analysis.measures.summarise import summarise
from analysis.read import stored
from analysis.read.load import load

BY = ["protocol.participation", "algorithm"]
FRAMES = (
    "booked",
    "clients",
    "curves",
    "periods",
    "forgetting",
    "partitions",
    "targets",
    "waits",
    "held_out",
    "computing",
    "times",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Four conditions of two seeds, of which the second stands behind all of the first."""
    folder = write_sweep(
        tmp_path_factory.mktemp("runs") / "few", algorithms=("fedavg", "power"), latencies=("10 ms",),
        participations=("0.1", "1.0"),
    )  # fmt: skip
    summary = pd.read_csv(folder / "summary.csv", dtype="str")
    summary.sort_values("seed", kind="stable").to_csv(folder / "summary.csv", index=False)
    return load([folder])


@pytest.mark.long
def test_points_read_together_or_apart_give_the_same(runs, monkeypatch):
    points = runs.points
    assert points["seed"].tolist() == ["0"] * 4 + ["1"] * 4
    whole = digest.digest(runs, points, BY)
    monkeypatch.setattr(digest, "MOST_ROWS", 1)  # each point by itself
    parts = digest.digest(runs, points, BY)
    for name in FRAMES:
        pd.testing.assert_frame_equal(getattr(parts, name), getattr(whole, name))


def test_what_is_kept_is_what_the_tables_say(runs):
    points = tables.finished(runs)
    kept = digest.digest(runs, points, BY)
    for row in points.to_dict("records"):
        point = row["run"]
        found = stored.tables(runs.folders[point])
        told = summarise(found, "global", "accuracy", 0.6)
        mine = {name: getattr(kept, name).loc[lambda rows, point=point: rows["run"] == point] for name in FRAMES[:5]}
        assert mine["booked"]["wire"].sum() == totals(found["transfers"])["bytes_moved"]
        assert mine["clients"]["wire"].sum() == mine["booked"]["wire"].sum()
        assert mine["curves"]["score"].iloc[-1] == told["score"]
        last = mine["forgetting"]["learned"] == mine["forgetting"]["learned"].max()
        assert mine["forgetting"][last]["value"].mean() == pytest.approx(told["am"])
        assert mine["periods"]["prequential"].mean() == pytest.approx(told["prequential"])
        assert (mine["booked"][BY] == [row[name] for name in BY]).all(axis=None)
    assert kept.times["transfers"].sum() == (kept.booked.query("fate == 'delivered'")["transfers"]).sum()
    assert kept.computing.index.equals(points.index)
