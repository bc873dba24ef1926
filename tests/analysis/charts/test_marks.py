"""Every chart of a report shows what its table says: marks are read back from the drawn scene, panel by panel."""

import re

import pandas as pd
import pytest
from drawn_marks import UNITS, marks, shown
from synthetic_sweep import write_sweep

from analysis.axes import number, short
from analysis.measures.summarise import summarise
from analysis.read.stored import tables
from analysis.report import report_context, write

pytestmark = pytest.mark.long

LATENCY, SHARE = "network.latency", "protocol.participation"
SEEDS = (0, 1, 2)
READ = """
    bytes_by_direction bytes_by_fate bytes_by_step bytes_to_target clients_score clients_took clients_uploads
    forgetting heat_bytes_moved heat_bytes_to_target heat_score heat_seconds_to_target leaders_moved
    leaders_time link_use ranking score_along score_bytes score_time seconds_to_target timeline
    trade_bytes trade_time updates_per_period waiting
"""
HARDEST = {LATENCY: "1 s", SHARE: "0.1"}
ON = {"algorithm": "algorithm", "latency": LATENCY, "participation": SHARE}  # what marks say, and the table's columns


class Drawn:
    """A report of three seeds in four conditions: its charts' descriptions, what the page draws, and its tables."""

    def __init__(self, folder):
        self.folder, self.specs, self.charts = folder, {}, {}

    def table(self, name):
        return pd.read_csv(self.folder / "tables" / f"{name}.csv", dtype={LATENCY: str, SHARE: str}).copy()

    def marks(self, name, kind, *, of_page=False):
        return [mark for mark in marks(shown(self.charts[name]) if of_page else self.specs[name]) if mark.kind == kind]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = write_sweep(
        tmp_path_factory.mktemp("runs") / "sweep", ("fedavg", "power"), ("10 ms", "1 s"), ("0.1", "1.0"), SEEDS
    )
    summary = pd.read_csv(folder / "summary.csv", dtype=str)
    slow = (summary[SHARE] == "1.0") & (summary[LATENCY] == "1 s") & (summary["algorithm"] == "power")
    slow &= summary["seed"] == "2"
    scores = folder / "points" / summary.loc[slow, "run"].item() / "scores.parquet"
    kept = pd.read_parquet(scores)
    kept.assign(value=kept["value"] / 2).to_parquet(scores)  # one seed of three does not reach the target
    row = summarise(tables(scores.parent), "global", "accuracy", 0.6)
    for name in ("score", "seconds_to_target", "bytes_to_target", "periods_at_target", "target_at_first"):
        summary.loc[slow, name] = "" if row[name] is None else str(row[name])
    summary.loc[summary[LATENCY] == "1 s", "updates_per_period"] = "3.0"
    summary.to_csv(folder / "summary.csv", index=False)
    found = Drawn(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_context, "draw", lambda spec, path: found.specs.update({path.name: spec}) or "")
        page = write.page
        patch.setattr(write, "page", lambda *parts: found.charts.update(parts[3]) or page(*parts))
        write.write([folder])
    return found


def rows_of(mark, table, on):
    """The rows of a table that a mark is of: those of its panel, with the names and places that it says."""
    here = table
    for label in mark.panel:
        for axis in (LATENCY, SHARE):
            if label.startswith(f"{short(axis)} "):
                here = here[here[axis] == label.partition(" ")[2]]
        if label.startswith("budget ") and "budget" in here:
            here = here[here["budget"] == label.partition(" ")[2]]
        if label in set(table.get("algorithm", ())):
            here = here[here["algorithm"] == label]
    for title, column in on.items():
        said = mark.says.get(title, "any")
        if said != "any" and column in here:
            own = here[column].map(lambda value: value if isinstance(value, float | int) else number(value))
            near = own.sub(said).abs() <= 5e-3 * abs(said) + 1e-9 if isinstance(said, float) else here[column] == said
            here = here[near]
    return here


def agree(found, table, values, on=None):
    """Every mark says what its rows of the table hold, and every row with values has one mark.

    Within 0.8 % of the largest: what changes by less than that along an axis is drawn once, and tooltips are rounded.
    """
    on = ON if on is None else ON | on
    hits = pd.Series(0, index=table.index)
    assert found
    for mark in found:
        rows = rows_of(mark, table, on)
        assert len(rows), mark
        for title, column in values.items():
            apart = (rows[column] - mark.says[title]).abs()
            assert (apart <= 8e-3 * table[column].abs().max()).all(), (mark, [*rows[column]])
        hits[rows.index] += 1
    known = table[[*values.values()]].notna().all(axis=1)
    assert (hits[known] == 1).all(), table[known & (hits != 1)]


def each_run(hollow, points, title):
    """There is a dot for the score of each run, in its own panel and in no other."""
    assert hollow
    dots = {}
    for mark in hollow:
        key = (*mark.panel, mark.says["algorithm"], mark.says.get("participation"))
        dots.setdefault(key, []).append(mark)
    for marks_there in dots.values():
        rows = rows_of(marks_there[0], points, ON)
        rows = rows[rows[LATENCY] == rows[LATENCY].iloc[0]]  # it may be the same at every latency, and is drawn once
        assert sorted(mark.says[title] for mark in marks_there) == pytest.approx(sorted(rows["score"]), rel=1e-4)


def filled(found):
    return [mark for mark in found if mark.filled]


def test_times_and_bytes_to_the_target(drawn):
    table = drawn.table("summary")
    for cost, title in (("seconds", "simulated time to 60 %"), ("bytes", "bytes moved to 60 %")):
        reached = table[table["reached"] > 0]
        agree(drawn.marks(f"{cost}_to_target", "symbol"), reached, {title: f"{cost}_to_target"})
        told = [mark.text for mark in drawn.marks(f"{cost}_to_target", "text") if mark.text]
        assert {"2 of 3 runs"} <= set(told)


def test_the_ranking_and_each_run_in_its_own_panel(drawn):
    agree(filled(drawn.marks("ranking", "symbol")), drawn.table("ranking"), {"accuracy": "mean"})
    points = drawn.table("runs")
    hollow = [mark for mark in drawn.marks("ranking", "symbol") if not mark.filled]
    each_run(hollow, points, "accuracy")


@pytest.mark.parametrize("axis", [LATENCY, SHARE])
def test_levels_along_an_axis_at_the_places_that_were_run(drawn, axis):
    name = f"score_along_{axis}"
    table, chart = drawn.table(name), name.replace(".", "_")
    agree(filled(drawn.marks(chart, "symbol")), table, {"y": "mean"})
    # at the value itself: nothing is moved aside
    assert {mark.says[short(axis)] for mark in drawn.marks(chart, "symbol")} == {*map(number, table[axis])}


def test_hollow_dots_along_an_axis_are_those_of_their_place(drawn):
    points = drawn.table("runs")
    found = drawn.marks("score_along_protocol_participation", "symbol")
    hollow = [mark for mark in found if not mark.filled and "budget rounds" in mark.panel]
    each_run(hollow, points, "unit")


@pytest.mark.parametrize(("name", "cost", "title"), [
    ("trade_time", "sim_seconds", "simulated time"), ("trade_bytes", "bytes_moved", "bytes moved on the wire"),
])  # fmt: skip
def test_trade_offs_and_one_front_a_latency(drawn, name, cost, title):
    table = drawn.table("summary")
    table = table.assign(choice=table["algorithm"] + ", participation " + table[SHARE])
    agree(drawn.marks(name, "symbol", of_page=True), table, {title: cost, "accuracy": "score"}, {"choice": "choice"})
    front = "frontier_time" if name == "trade_time" else "frontier_bytes"
    for _, rows in table.groupby(LATENCY):
        for _, row in rows.iterrows():
            better = rows[(rows["score"] >= row["score"]) & (rows[cost] <= row[cost])]
            better = better[(better["score"] > row["score"]) | (better[cost] < row[cost])]
            assert row[front] == better.empty
    lines = drawn.specs[name]["datasets"]["rows"]
    for place, row in table.iterrows():
        told = [
            one for one in lines if one["choice"] == row["choice"] and one["column"] in ("", f"latency {row[LATENCY]}")
        ]
        assert [one["frontier"] for one in told] == [row[front]], place


@pytest.mark.parametrize(("name", "x"), [("score_time", "time"), ("score_bytes", "moved")])
def test_curves_end_at_the_mean_of_the_last_scores(drawn, name, x):
    curves = drawn.table("curves")
    by = [LATENCY, SHARE, "algorithm"]
    last = curves.groupby([*by, "seed"]).tail(1).groupby(by, as_index=False)[["score", "time", "moved"]].mean()
    title = "simulated time" if x == "time" else "bytes moved on the wire"
    ended = {}
    for mark in drawn.marks(name, "symbol", of_page=True):
        key = (mark.panel, mark.says["algorithm"])
        ended[key] = max(ended.get(key, mark), mark, key=lambda one: one.says[title])
    agree([*ended.values()], last, {"accuracy": "score"})


@pytest.mark.parametrize(("name", "cost"), [("leaders_time", "time"), ("leaders_moved", "moved")])
def test_leads_over_budgets(drawn, name, cost):
    table = drawn.table("budgets")
    table = table[table["cost"] == cost]
    if LATENCY in table and table[LATENCY].notna().any():
        table = table.assign(condition=[f"latency {one}" for one in table[LATENCY]])
    title = {"time": "simulated time", "moved": "bytes moved on the wire"}[cost]
    found = drawn.marks(name, "rect")
    assert len(found) <= len(table)
    for mark in found:
        rows = table[table["condition"] == mark.says["condition"]] if "condition" in table else table
        rows = rows[(rows["from"] - mark.says[title]).abs() <= 1e-3 * rows["from"]]
        assert set(rows["algorithm"]) == {mark.says["algorithm"]}, mark


def test_scores_on_each_period_under_the_hardest_condition(drawn):
    table = drawn.table("forgetting")
    here = table[(table[LATENCY] == HARDEST[LATENCY]) & (table[SHARE] == HARDEST[SHARE])]
    on = {"tested on period": "tested", "after learning period": "learned"}
    agree(drawn.marks("forgetting", "rect"), here, {"score": "value"}, on)
    assert drawn.specs["forgetting"]["title"]["subtitle"].startswith("At latency 1 s, participation 0.1. ")
    choices = drawn.charts["forgetting"]["usermeta"]["choices"]
    assert sorted(choices) == sorted(
        f"latency {a}, participation {b}" for a in ("10 ms", "1 s") for b in ("0.1", "1.0")
    )


@pytest.mark.parametrize(("value", "title"), [("score", "accuracy"), ("bytes_moved", "bytes")])
def test_heat_maps(drawn, value, title):
    table = drawn.table("summary")
    scaled = table.assign(own=table[value] / unit_of(drawn, f"heat_{value}"))
    agree(drawn.marks(f"heat_{value}", "rect"), scaled, {title: "own"})


@pytest.mark.parametrize("cost", ["seconds", "bytes"])
def test_heat_maps_of_targets_colour_only_what_every_run_reached(drawn, cost):
    table = drawn.table("summary")
    every = table[table["reached"] == table["n"]]
    every = every.assign(own=every[f"{cost}_to_target"] / unit_of(drawn, f"heat_{cost}_to_target"))
    coloured = [
        mark for mark in drawn.marks(f"heat_{cost}_to_target", "rect") if isinstance(mark.says.get(cost), float)
    ]
    cells = drawn.marks(f"heat_{cost}_to_target", "text")
    agree(coloured, every, {cost: "own"})
    some = table[(table["reached"] > 0) & (table["reached"] < table["n"])]
    assert len(some)
    partly = [mark for mark in cells if " of " in mark.text]
    assert {mark.text for mark in partly} == {f"{row['reached']} of {row['n']}" for _, row in some.iterrows()}
    for mark in partly:
        assert set(rows_of(mark, table, ON).index) <= {*some.index}


def unit_of(drawn, name):
    """The unit that a chart's title names, in SI units."""
    unit = re.search(r" \((\w+)\)$", drawn.specs[name]["title"]["text"])
    return UNITS[unit[1]] if unit else 1.0


@pytest.mark.parametrize(("what", "across", "up"), [
    ("score", "share of clients, worst first", "accuracy"),
    ("uploads", "share of clients, fewest first", "share of uploads"), ("took", "share of the run", "share of clients"),
])  # fmt: skip
def test_curves_over_the_clients(drawn, what, across, up):
    table = drawn.table(f"clients_{what}")
    agree(drawn.marks(f"clients_{what}", "symbol", of_page=True), table, {up: "value"}, {across: "at"})


@pytest.mark.parametrize(("name", "on"), [
    ("bytes_by_direction", {"direction": "direction"}), ("bytes_by_step", {"kind": "kind"}),
    ("bytes_by_fate", {"fate": "fate"}),
])  # fmt: skip
def test_bars_of_bytes(drawn, name, on):
    found, table = drawn.marks(name, "rect"), drawn.table(name)
    if name == "bytes_by_fate":
        for step in table["kind"].unique():
            own = [mark for mark in found if f"step {step}" in mark.panel]
            agree(own, table[table["kind"] == step], {"bytes on the wire": "bytes"}, on)
    else:
        agree(found, table, {"bytes on the wire": "bytes"}, on)


def test_one_update_of_the_hardest_run(drawn):
    table = drawn.table("timeline")
    first = drawn.charts["timeline"]["usermeta"]["choices"][0]
    assert first.startswith("latency 1 s, participation 0.1, algorithm ")
    here = table[(table[LATENCY] == "1 s") & (table[SHARE] == "0.1") & (table["algorithm"] == first.split()[-1])]
    here = here.assign(who=[f"client {client}" for client in here["client"]])
    on = {"client": "who", "what": "what", "update": "version", "from": "start", "duration": "seconds"}
    agree(
        drawn.marks("timeline", "rect", of_page=True), here, {"from": "start", "to": "end", "duration": "seconds"}, on
    )


def test_waiting_on_one_scale(drawn):
    agree(drawn.marks("waiting", "rect"), drawn.table("waiting"), {"waiting": "held"})
    assert "x" not in drawn.specs["waiting"].get("resolve", {}).get("scale", {})


def test_use_of_the_links_update_by_update(drawn):
    table = drawn.table("link_use")
    here = table[(table[LATENCY] == HARDEST[LATENCY]) & (table[SHARE] == HARDEST[SHARE])]
    found = drawn.marks("link_use", "rect", of_page=True)
    assert len(found) == len(here)
    for link in ("ingress", "egress"):
        own = [mark for mark in found if f"server {link}" in mark.panel]
        agree(own, here[here["link"] == link], {"rate": "rate", "to": "end"}, {"to": "end"})
    ends = drawn.table("runs")["updates"].iloc[0]
    assert set(here.groupby(["algorithm", "link"]).size()) == {ends}


@pytest.mark.parametrize("axis", [LATENCY, SHARE])
def test_updates_per_period_beside_the_score(drawn, axis):
    name, table = f"updates_per_period_{axis.replace('.', '_')}", drawn.table("summary")
    for side, column, scale in (
        ("updates per period", "updates_per_period", 1.0),
        ("accuracy at the end (%)", "score", 100.0),
    ):
        found = [mark for mark in drawn.marks(name, "symbol") if side in mark.panel]
        agree(found, table.assign(y=table[column] * scale), {"y": "y"})


def test_every_chart_is_read_back(drawn):
    assert {re.sub(r"_(network_latency|protocol_participation)$", "", name) for name in drawn.specs} == {*READ.split()}


def test_lines_that_cover_each_other_are_named_and_others_are_not(drawn):
    told = {name: re.findall(r"Identical: ([^.]*)", spec["title"]["subtitle"]) for name, spec in drawn.specs.items()}
    uploads = drawn.table("clients_uploads").pivot_table(
        index=[LATENCY, SHARE, "at"], columns="algorithm", values="value"
    )
    same = bool((uploads["fedavg"] - uploads["power"]).abs().max() < 1e-9)
    assert (told["clients_uploads"] == ["fedavg = power"]) == same
    assert told["score_time"] == []
