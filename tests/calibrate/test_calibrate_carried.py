"""Runs that Flower carried: what it takes is no link and no speed, and what it hides is not shown."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_points
from fitted_links import FRESH, moved, together, with_seconds

from fedsim.calibrate import fit, fleet_fit, network, report, speeds, tables
from fedsim.calibrate.__main__ import main
from fedsim.calibrate.fit import DOWN, UP
from fedsim.calibrate.fleet_fit import STATED
from fedsim.calibrate.measured import Spans, Worked
from fedsim.net.transports.flower_supernodes import FlowerSupernodes
from fedsim.point.build.parts import Parts
from fedsim.scenario.text import yaml_file

LINKS = [(0.02, 5e6, 20e6), (0.02, 8e6, 10e6), (0.02, 4e6, 30e6)]
FAST = [(0.002, 1e9, 1e9)] * 3  # this machine's own
STATEMENT = np.tile((0.002, 100e6, 100e6), (3, 1))
NOTHING, LOSSES = np.full((3, 3), np.nan), np.zeros((3, 2))
WIDE = {True: np.inf, False: np.inf}


def carried(links, sizes, seed=0, noise=1.5, repeats=10):
    """Messages that took 8 s more down, and 2 s more up, and waited for polls."""
    rows = [moved(link, sizes, client=client, repeats=repeats) for client, link in enumerate(links)]
    joint, rng = together(*rows), np.random.default_rng(seed)
    waits = rng.uniform(-noise, noise, len(joint)) * np.where(joint.upload, 0.2, 1.0)
    return with_seconds(joint, joint.seconds + np.where(joint.upload, 2.0, 8.0) + waits)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_constant_is_not_counted_as_a_low_rate(seed):
    messages = carried(FAST, [300_000], seed)
    found = fleet_fit.fitted(FRESH, messages, WIDE, NOTHING, LOSSES, STATEMENT)
    assert {mark for marks in found.marks for mark in marks} == {STATED}
    assert found.values == pytest.approx(STATEMENT)
    assert found.carrier == pytest.approx((8.0, 2.0), abs=0.35)
    off = np.abs(found.predicted(FRESH, messages) / messages.seconds - 1)
    assert np.median(off) < 0.12


def test_a_client_that_was_lost_has_the_scenarios_link():
    messages = carried(FAST, [300_000])
    messages = messages.take((messages.client == 0) | ((messages.client == 1) & ~messages.upload))
    found = fleet_fit.fitted(FRESH, messages, WIDE, NOTHING, LOSSES, STATEMENT)
    assert found.values == pytest.approx(STATEMENT)
    assert found.marks[1:] == [(STATED,) * 3] * 2


def test_messages_of_several_sizes_tell_the_rates_all_the_same():
    messages = carried(LINKS, [3_000, 20_000_000], noise=0.5)
    found = fleet_fit.fitted(FRESH, messages, WIDE, NOTHING, LOSSES, STATEMENT)
    true = np.array(LINKS)
    assert found.values[:, UP] == pytest.approx(true[:, UP], rel=0.05)
    assert found.values[:, DOWN] == pytest.approx(true[:, DOWN], rel=0.15)
    assert not {marks[UP] for marks in found.marks} & fleet_fit.UNKNOWN
    assert found.carrier == pytest.approx((8.0, 2.0), abs=0.3)


def test_the_scenario_gets_what_the_carrier_takes():
    scenario = small_points.scenario(network={**small_points.PLAIN["network"], "transport": "flower_supernodes"})
    made = Parts(network.with_carrier(scenario, 0.1, 8.0, 2.0)).transport
    assert made == FlowerSupernodes(start=6.2, collect=1.3)  # 8 - 1.5 - 0.4 + 0.1, and 2 - 0.3 - 0.4
    plain = network.with_carrier(small_points.scenario(), 0.0, 1.0, 0.2)  # quicker than polls alone
    assert Parts(plain).transport == FlowerSupernodes(start=0.0, collect=0.0)


def jobs(operations, speed, constant=0.0, noise=0.0):
    count = len(operations)
    start, rng = 10.0 * np.arange(count), np.random.default_rng(0)
    seconds = (np.array(operations) / speed + constant) * np.exp(rng.normal(0, noise, count))
    return Worked(np.zeros(count, dtype=np.int64), start, start + seconds, np.array(operations, dtype=float))


def test_jobs_of_one_length_tell_no_speed_where_each_is_a_process():
    one, stated = jobs([1e8] * 10, 5e9, constant=0.08, noise=0.2), np.array([5e9])
    found = speeds.fitted(one, 1, stated)
    assert not found.identifiable.any()
    assert found.values.tolist() == [5e9]
    assert np.median(speeds.predicted(one, found) / (one.end - one.start)) == pytest.approx(1, abs=0.05)
    assert speeds.fitted(jobs([1e8] * 10, 5e9), 1).identifiable.all()  # simulated: all of it is work


def test_jobs_of_different_lengths_tell_the_speed():
    several = jobs([1e8, 1e10, 4e10] * 4, 5e9, constant=0.08, noise=0.05)
    found = speeds.fitted(several, 1, np.array([1e9]))
    assert found.identifiable.all()
    assert found.values == pytest.approx([5e9], rel=0.1)


def test_jobs_whose_seconds_say_nothing_show_no_speed():
    wild = jobs([1e8] * 4, 5e9, noise=2.0)
    assert not speeds.fitted(wild, 1).identifiable.any()


def test_what_is_not_told_is_not_shown_and_what_would_tell_it_is_said(tmp_path):
    small_points.run_in(tmp_path / "0123456789ab")
    measured = tables.read_run(tmp_path / "0123456789ab")
    messages = carried(FAST, [300_000])
    measured = replace(
        measured, clients=3, moved=messages, started=Spans(np.zeros(9, dtype=int), np.zeros(9), np.full(9, 6.5))
    )
    fleet = fleet_fit.fitted(FRESH, messages, WIDE, NOTHING, LOSSES, STATEMENT)
    fast = speeds.fitted(measured.worked.take(np.zeros(len(measured.worked), dtype=bool)), 3, np.full(3, 5e9))
    predicted = fleet.predicted(FRESH, messages)
    table = [*report.clients(measured, fleet, fast, predicted, 80, True)]
    assert table[1].split()[1:5] == ["-"] * 4
    assert any(line.startswith("-  not identifiable") for line in table)
    told = "\n".join(report.remedies(measured, fleet, fast, messages))
    assert "--known TABLE with client, rtt_ms" in told
    assert "uplinks that are not shown: beside these, messages of 3 MB up to 10 Mbit/s and of 30 MB" in told
    assert "starting a process 6.5 s, median of 9" in report.carrier(measured.started, np.inf, *fleet.carrier)


def test_large_errors_are_written_as_such():
    assert report._percent(3.84) == "384 %"
    assert [report._percent(one) for one in (0.0123, 0.129, 1e-7, np.nan)] == ["1.2 %", "13 %", "0 %", "-"]


def test_a_constant_is_never_negative():
    upload = np.array([True, True, False])
    found = fit.constants(upload, np.array([1.0, 1.0, 5.0]), np.array([2.0, 4.0, 3.0]))
    assert found.tolist() == [2.0, 2.0, 0.0]


def test_a_run_over_flower_is_repeated_with_its_own_start(tmp_path, capsys):
    """Read as if it had been measured: its scenario states the default, and its processes took longer."""
    carrier = {"name": "flower_supernodes", "start": "9.5 s", "collect": "2 s"}
    protocol = {"name": "sync", "rounds": 12, "participation": 1.0}
    small_points.run_in(
        tmp_path / "0123456789ab", network={**small_points.PLAIN["network"], "transport": carrier}, protocol=protocol
    )
    folder = tmp_path / "0123456789ab"
    spans = pq.read_table(folder / "spans.parquet").to_pandas()
    starts = spans[spans["what"] == "train"].assign(what="start")
    starts["end"], starts["start"] = starts["start"], starts["start"] - 9.5
    pq.write_table(pa.Table.from_pandas(pd.concat([spans, starts]), preserve_index=False), folder / "spans.parquet")
    text = (folder / "scenario.yaml").read_text()
    assert "start: 9.5 s" in text
    (folder / "scenario.yaml").write_text(
        text.replace("start: 9.5 s", "start: 6 s").replace("collect: 2", "collect: 1")
    )
    assert main([str(folder), "--out", str(tmp_path / "c.csv"), "--until", "50%"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "(starting a process 9.5 s" in shown
    found = Parts(yaml_file.load(tmp_path / "c.yaml")[0]).transport
    assert found.start == pytest.approx(9.5, abs=0.4)  # of some polls, uniform between 0 and 3 s
    assert found.collect == pytest.approx(2.0, abs=0.1)
