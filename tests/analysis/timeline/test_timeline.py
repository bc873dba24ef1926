"""Timelines: rows nest, times and arrows are those of the run, and writing one changes nothing."""

import gzip
import json
from collections import Counter, defaultdict
from itertools import pairwise

import pandas as pd
import pytest
from hypothesis import given, settings
from scenario_texts import TRAFFIC
from whole_runs import scenarios, see, with_files

from analysis.__main__ import main as analyse
from analysis.read import stored
from analysis.timeline import counters, events, hosts, write
from fedsim.__main__ import main
from fedsim.clock.server import ServerHost
from fedsim.point.results import folders

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return with_files(tmp_path_factory.mktemp("traced"))


def span(event):
    """Start and end of a slice in nanoseconds."""
    return round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)


def by_row(trace):
    found = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


def check_rows(trace):
    """The slices of a row are disjoint, every row has a name, and a client's rows leave no moment untold."""
    names = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    rows = by_row(trace)
    assert {*rows} <= names
    for slices in rows.values():
        ordered = sorted(map(span, slices))
        assert all(before[1] <= after[0] for before, after in pairwise(ordered))
    last = max((span(event)[1] for slices in rows.values() for event in slices), default=0)
    clients = defaultdict(int)
    for (group, row), slices in rows.items():
        if group == events.CLIENTS and row % hosts.LANES == 0 and len(names & {(group, row + 1)}) == 0:
            clients[row] += sum(end - start for start, end in map(span, slices))
    assert set(clients.values()) <= {last}


def check_times(trace, tables):
    """Every transfer, span and update is there once, at its second."""
    shown = Counter((e["name"].split(" ")[0], *span(e)) for s in by_row(trace).values() for e in s)
    expected = Counter()
    for row in tables["transfers"].itertuples():
        down = row.dst >= 0 > row.src or (row.src == -1)
        way = "send" if min(row.src, row.dst) >= 0 else "download" if down else "upload"
        expected[way, round(row.sent * 1e9), round(row.arrived * 1e9)] += 1
    asleep = (tables["spans"]["what"] == "offline") & ~tables["spans"]["client"].isin(hosts.seen(tables))
    for row in tables["spans"][(tables["spans"]["what"] != "left") & ~asleep].itertuples():
        expected[row.what, round(row.start * 1e9), round(row.end * 1e9)] += 1
    ends = [round(time * 1e9) for time in tables["updates"]["time"]]
    for start, end, step in zip([0, *ends], ends, tables["updates"]["step"], strict=False):
        expected[step, start, end] += 1
    waiting = {key for key in shown if key[0] == "waiting"}
    assert Counter({key: count for key, count in shown.items() if key not in waiting}) == expected


@settings(deadline=None, max_examples=20)
@given(plain=scenarios())
def test_rows_nest_and_show_the_tables_whatever_the_protocol(plain, folder):
    folded, before, accept = [], ServerHost.update, ServerHost.take

    def update(self, replies, step="train"):
        folded.append(sorted(reply.client for reply in replies))
        return before(self, replies, step)

    def accepted(self, replies, step):
        folded.append(sorted(reply.client for reply in replies))
        return accept(self, replies, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerHost, "update", update)
        patch.setattr(ServerHost, "take", accepted)
        see(plain, folder)
    tables = stored.tables(folder)
    trace = write.timeline(tables)
    check_rows(trace)
    check_times(trace, tables)
    found = defaultdict(list)
    for upload, update_ in write.folded_by(tables["transfers"], tables["updates"]):
        found[update_].append(int(tables["transfers"]["src"][upload]))
    if plain["protocol"]["name"] in ("sync", "deadline", "buffered", "one_shot"):
        assert [sorted(found[number]) for number in range(len(tables["updates"]))] == folded[: len(tables["updates"])]
    elif plain["protocol"]["name"] != "hierarchical":
        assert not found
    check_flows(trace, sum(map(len, found.values())))


def check_flows(trace, count):
    """Each arrow goes from the end of an upload to that of an update, not back in time."""
    rows = by_row(trace)
    ends = defaultdict(dict)
    for event in trace["traceEvents"]:
        if event["ph"] in ("s", "f"):
            ends[event["id"]][event["ph"]] = event
    assert len(ends) == count
    for both in ends.values():
        assert both["s"]["ts"] <= both["f"]["ts"]
        for phase, name in (("s", "upload"), ("f", "to version")):
            event = both[phase]
            moment = round(event["ts"] * 1000)
            inside = [e for e in rows[event["pid"], event["tid"]] if span(e)[0] <= moment <= span(e)[1]]
            assert any(name in e["name"] for e in inside)


def table(**columns):
    return pd.DataFrame(columns)


def test_a_counter_says_how_many_are_under_way_and_how_fast(monkeypatch):
    moved = table(sent=[0.0, 1.0, 2.0], arrived=[2.0, 3.0, 2.0], src=[0, 1, 2], dst=[-1] * 3, wire_bytes=[500_000] * 3)
    found = defaultdict(list)
    for event in counters.counters(moved):
        found[event["name"]].append((event["ts"], event["args"]["value"]))
    assert found == {
        "clients up: under way": [(0, 1), (1e6, 2), (2e6, 1), (3e6, 0)],
        "clients up: Mbit/s": [(0, 2), (1e6, 4), (2e6, 2), (3e6, 0)],
    }
    monkeypatch.setattr(counters, "POINTS", 3)
    few = [e["args"]["value"] for e in counters.counters(moved) if e["name"].endswith("way")]
    assert few == [1, 2, 0]


def test_of_many_clients_every_so_many_th_is_drawn_and_the_file_says_so():
    assert hosts.drawn([3, 5, 8, 9, 12, 14, 20], 3) == [3, 8, 12]
    assert hosts.drawn([3, 5], 3) == [3, 5]
    seen = list(range(0, 30, 3))
    moved = table(
        sent=[0.0] * 10, arrived=[1.0] * 10, src=[-1] * 10, dst=seen, kind=["train"] * 10, version=[0] * 10,
        nbytes=[1] * 10, wire_bytes=[1] * 10, fate=["delivered"] * 10,
    )  # fmt: skip
    spans = table(client=[0, 1], start=[1.0, 0.0], end=[2.0, 5.0], what=["train", "offline"])
    updates = table(time=[], version=[], step=[], asked=[], folded=[], lost=[], late=[], staleness=[])
    arrivals = table(time=[], client=[], period=[], version=[])
    made = write.timeline({"transfers": moved, "spans": spans, "updates": updates, "arrivals": arrivals}, limit=5)
    rows = {row // hosts.LANES for group, row in by_row(made) if group == events.CLIENTS}
    assert rows == {0, 6, 12, 18, 24}  # and not client 1, who only slept
    assert made["otherData"]["clients"].startswith("5 of 10 ")


def test_trace_leaves_the_tables_and_the_id_alone_and_can_be_made_later(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.yaml").write_text(TRAFFIC)
    words = ["scenario.yaml", "--jobs", "1", "--no-report"]
    assert main([*words, "--out", "plain"]) == main([*words, "--out", "traced", "--trace"]) == 0
    plain, traced = (
        sorted(p.relative_to(tmp_path / d) for p in (tmp_path / d).rglob("*.*")) for d in ("plain", "traced")
    )
    extra = [path for path in traced if path not in plain]
    assert [path.name for path in extra] == ["trace.json.gz"] * 2
    for path in plain:
        if path.suffix == ".parquet":
            assert (tmp_path / "plain" / path).read_bytes() == (tmp_path / "traced" / path).read_bytes()
    before = [(tmp_path / "traced" / path).read_bytes() for path in extra]
    assert all(json.loads(gzip.decompress(data))["displayTimeUnit"] == "ms" for data in before)
    capsys.readouterr()
    assert analyse(["plain", "--trace"]) == 0
    assert sorted(capsys.readouterr().out.split()) == [f"plain/{path}" for path in extra]
    assert [(tmp_path / "plain" / path).read_bytes() for path in extra] == before
    (tmp_path / "traced" / extra[0]).unlink()
    assert main([*words, "--out", "traced", "--trace"]) == 0  # what is finished and has none gets one
    assert (tmp_path / "traced" / extra[0]).read_bytes() == before[0]


def test_a_point_that_cannot_be_traced_is_reported_and_the_others_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.yaml").write_text(TRAFFIC)
    words = ["scenario.yaml", "--jobs", "1", "--no-report"]
    assert main(words) == 0
    one, other = sorted(path.parent for path in (tmp_path / "runs").rglob("row.json"))
    (one / "spans.parquet").write_bytes(b"not a table")
    folders.write_sums(one)  # otherwise the point would be run again
    assert main([*words, "--trace"]) == 1
    told = f"{one.name} could not be logged by Timeline: runs/traffic/points/{one.name}/spans.parquet: cannot be read"
    assert told in capsys.readouterr().out
    assert (other / write.NAME).is_file()
