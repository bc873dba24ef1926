"""What it cost to reach a target, recomputed from a run's tables row by row, beside what its summary says."""

import csv
import json
import math
from collections import defaultdict
from statistics import fmean

import pandas as pd
import pytest
import small_points

from analysis.measures.each_period import each_period
from fedsim import __main__ as command_line

TARGET = 0.22
DATA = {"name": "synthetic", "nodes": 160, "classes": 6, "features": 10, "degree": 4.0}
STREAMS = {
    "by updates": {"name": "class_incremental", "classes": 2, "every": "2 updates"},
    "own clocks": {"name": "class_incremental", "classes": 2, "every": "poisson(1 s)", "offset": "uniform(0 s, 1 s)"},
    "one period": "static",
}
PEERS = {"name": "peers", "graph": "ring"}
TREE = {"name": "tree", "edges": 2, "uplink": "50 Mbit/s", "downlink": "50 Mbit/s", "latency": "5 ms"}
SYNC = {"name": "sync", "rounds": 12, "participation": 0.6}
STAR = [
    SYNC,
    {"name": "deadline", "rounds": 12, "clients": 3, "wait": "2 s", "over": 1.4},
    {"name": "buffered", "rounds": 14, "clients": 3, "buffer": 2},
    {"name": "isolated", "rounds": 12, "participation": 0.6},
]
CASES = {
    "star": {"grid": {"protocol": STAR}},
    "tree": {
        "protocol": {"name": "hierarchical", "rounds": 8, "edge_rounds": 2, "participation": 1.0},
        "network__topology": TREE,
    },
    "peers": {"protocol": {"name": "gossip", "rounds": 10}, "network__topology": PEERS},
    "restarts": {
        "protocol": SYNC,
        "network__effects": [{"name": "restart", "at": ["1500 ms", "5 s"], "length": "300 ms", "checkpoint": 3}],
    },
    "ends early": {"protocol": {**SYNC, "rounds": 40}, "measure__until": "2500 ms"},
    "scored by the clock": {"protocol": SYNC, "measure__every": "700 ms"},
    "on validation data": {"protocol": SYNC, "measure__splits": ["val"]},  # of which there is no fixed test
}


def swept(folder, stream, target_on, **changes):
    """Run a sweep from the command line; return each finished row of its summary.csv with its point's tables."""
    measure = {"metrics": ["accuracy"], "splits": ["test"], "target": TARGET, "target_on": target_on}
    inner = {key.partition("__")[2]: changes.pop(key) for key in [*changes] if key.startswith("measure__")}
    measure |= inner
    scenario = small_points.scenario(data__dataset=DATA, data__stream=stream, measure=measure, **changes)
    folder.mkdir()
    (folder / "targets.yaml").write_text(json.dumps(scenario.plain()), encoding="utf-8")  # JSON is YAML too
    asked = [str(folder / "targets.yaml"), "--jobs", "1", "--no-report", "--out", str(folder / "out")]
    assert command_line.main(asked) == 0
    with (folder / "out" / "summary.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    return [
        (
            row,
            {name: small_points.table(folder / "out" / "points" / row["run"], name) for name in small_points.TABLES},
        )
        for row in rows
    ]


class Told:
    """A run told scoring by scoring: who had met what by then, and the scores of each period, from the tables alone."""

    def __init__(self, tables, split="test"):
        self.transfers = tables["transfers"]
        whole = [r for r in tables["scores"] if (r["model"], r["split"]) == ("global", "all_periods")]
        self.whole = {}
        for time, version in sorted({(row["time"], row["version"]) for row in whole}):
            own = defaultdict(list)
            for row in whole:
                if (row["time"], row["version"]) == (time, version):
                    own[row["period"]].append((row["value"], row["weight"]))
            each = [sum(a * w for a, w in rows) / sum(w for _, w in rows) for rows in own.values()]
            self.whole[time, version] = fmean(each)
        rows = [r for r in tables["scores"] if (r["model"], r["split"], r["metric"]) == ("global", split, "accuracy")]
        tested = {row["client"] for row in rows}
        arrivals = [row for row in tables["arrivals"] if row["client"] in tested]
        # prequential rows are taken at an arrival, of what arrives there
        self.scorings, self.met_at = [], {}
        for time, version in sorted({(row["time"], row["version"]) for row in rows}):
            met = defaultdict(set)
            for one in arrivals:
                if one["time"] < time or (one["time"] == time and one["version"] < version):
                    met[one["client"]].add(one["period"])
            sums = defaultdict(lambda: [0.0, 0, set()])
            for row in rows:
                if (row["time"], row["version"]) == (time, version) and row["period"] in met[row["client"]]:
                    total = sums[row["period"]]
                    total[0] += row["value"] * row["weight"]
                    total[1] += row["weight"]
                    total[2].add(row["client"])
            if sums:
                self.scorings.append((time, dict(met), {p: (a / b, who) for p, (a, b, who) in sums.items()}))
                self.met_at[time, version] = self.periods(met)
        self.last = self.scorings[-1][1]
        self.arrived = {(one["client"], one["period"]): one["time"] for one in arrivals}

    def moved(self, time):
        return sum(row["wire_bytes"] for row in self.transfers if row["arrived"] <= time)

    def periods(self, met):
        return fmean(len(own) for own in met.values() if own)

    def on_fixed_test(self):
        for (time, version), value in self.whole.items():
            if value >= TARGET:
                return time, self.moved(time), self.met_at.get((time, version), 0.0)
        return None

    def on_all_met(self):
        for time, met, values in self.scorings:
            if met == self.last and fmean(value for value, _ in values.values()) >= TARGET:
                return time, self.moved(time), self.periods(met)
        return None

    def by_period(self):
        """Return seconds, bytes and periods met of each period; None for one that never gets there."""
        found, whose = {}, defaultdict(set)
        for _, _, values in self.scorings:
            for period, (_, who) in values.items():
                whose[period] |= who
        for period, clients in sorted(whose.items()):
            since, found[period] = [self.arrived[client, period] for client in clients], None
            for time, met, values in self.scorings:
                if period in values and values[period][1] == clients and values[period][0] >= TARGET:
                    moved = fmean(self.moved(time) - self.moved(begin) for begin in since)
                    found[period] = fmean(time - begin for begin in since), moved, self.periods(met)
                    break
        return found

    def on_each_period(self):
        found = [*self.by_period().values()]
        return None if None in found else tuple(fmean(column) for column in zip(*found, strict=True))

    def first_crossing(self):
        """Return when the score over the periods met so far is there, which is no time to the target."""
        for time, _, values in self.scorings:
            if fmean(value for value, _ in values.values()) >= TARGET:
                return time
        return None


RULES = {"all_periods": Told.on_fixed_test, "met_periods": Told.on_all_met, "each_period": Told.on_each_period}


def check(row, tables, split="test"):
    told = Told(tables, split)
    expected = told.on_all_met() if len(told.by_period()) == 1 else RULES[row["target_on"]](told)
    assert float(row["periods"]) == pytest.approx(told.periods(told.last))
    found = [row[name] for name in ("seconds_to_target", "bytes_to_target", "periods_at_target")]
    if expected is None:
        assert found == ["", "", ""]
    else:
        assert [float(value) for value in found] == pytest.approx(expected)
    frames = [pd.DataFrame(tables[name]) for name in ("scores", "arrivals", "transfers")]
    found = (
        each_period(*frames, TARGET, "global", split=split) if len(frames[2]) else None
    )  # under `isolated` nothing travels
    for period, values in told.by_period().items() if found is not None else ():
        (own,) = found[found["period"] == period][["seconds", "bytes", "periods"]].values.tolist()
        assert own == pytest.approx(values or (math.nan,) * 3, nan_ok=True)
    return told, expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "stream", "target_on"),
    [
        *((case, stream, "all_periods") for case in CASES for stream in ("by updates", "own clocks")),
        *(("star", stream, "each_period") for stream in ("by updates", "own clocks")),
        ("star", "one period", "all_periods"),
    ],
)
def test_the_summary_tells_what_the_tables_say(tmp_path, case, stream, target_on):
    reached = []
    split = CASES[case].get("measure__splits", ["test"])[0]
    for row, tables in swept(tmp_path / "run", STREAMS[stream], target_on, **CASES[case]):
        assert row["target_on"] == ("met_periods" if split == "val" and target_on == "all_periods" else target_on)
        told, expected = check(row, tables, split)
        reached.append(expected is not None)
        if stream == "one period":
            assert (expected or (None,))[0] == told.first_crossing()
    if case != "ends early":
        assert any(reached), "a target that nobody reaches compares nothing"


def test_a_target_counts_on_the_test_of_all_periods_from_the_first_scoring_on(tmp_path):
    (one,) = swept(tmp_path / "run", STREAMS["by updates"], "all_periods", protocol=SYNC)
    told, expected = check(*one)
    assert one[0]["target_on"] == "all_periods"
    assert len(told.whole) == 12  # it is scored though the scenario does not list it
    assert expected == told.on_fixed_test()
    assert expected[0] < min(time for time, met, _ in told.scorings if met == told.last)  # before all have arrived
    assert float(one[0]["score"]) == pytest.approx([*told.whole.values()][-1])


def test_without_a_fixed_test_a_score_on_the_first_period_alone_reaches_nothing(tmp_path):
    case = {"protocol": SYNC, "measure__splits": ["val"]}
    (one,) = swept(tmp_path / "run", STREAMS["by updates"], "all_periods", **case)
    told, expected = check(*one, "val")
    assert not told.whole  # validation data may be looked at, test data not
    assert one[0]["target_on"] == "met_periods"
    assert float(one[0]["periods"]) == 3
    first = min(time for time, met, _ in told.scorings if met == told.last)
    assert expected[0] >= first
    assert float(one[0]["target_at_first"]) == (expected[0] == first)


def test_a_period_that_never_arrives_within_the_run_is_tested_all_the_same(tmp_path):
    stream = {**STREAMS["by updates"], "every": "9 updates"}
    (one,) = swept(tmp_path / "run", stream, "all_periods", protocol=SYNC)
    told, expected = check(*one)
    assert float(one[0]["periods"]) == 2  # the third of three would have arrived after 18 updates
    assert float(one[0]["score"]) == pytest.approx([*told.whole.values()][-1])
    assert expected == told.on_fixed_test()


def test_without_a_target_nothing_more_is_scored(tmp_path):
    row = small_points.run_in(tmp_path / "run")
    splits = {one["split"] for one in small_points.table(tmp_path / "run", "scores")}
    assert (row["target_on"], splits) == (None, {"test", "val"})


def test_how_soon_the_score_over_what_has_been_met_is_back_is_in_the_summary(tmp_path):
    (one,) = swept(tmp_path / "run", STREAMS["by updates"], "all_periods", protocol=SYNC)
    told, _ = check(*one)
    moments = sorted({time for time in told.arrived.values() if time > 0})
    met = [(time, fmean(value for value, _ in values.values())) for time, _, values in told.scorings]
    back = [next((time for time, value in met if time > moment and value >= TARGET), None) for moment in moments]
    took = [time - moment for time, moment in zip(back, moments, strict=True) if time is not None]
    assert (int(float(one[0]["arrivals"])), int(float(one[0]["never_recovered"]))) == (2, back.count(None))
    assert float(one[0]["recovery_seconds"]) == pytest.approx(fmean(took))
