"""Waves: a cohort that is asked at once has the very exchanges of one that is asked client by client."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.clock.cohort.events import EventsCohort
from fedsim.core.record import SERVER, Recorder
from fedsim.learner.live import Live
from fedsim.net.message import Message
from fedsim.point.build.assemble import build
from fedsim.scenario.text import yaml_file

CHURN = "{name: churn, online: 40 s, offline: 20 s}"
DROPOUT = "{name: dropout, rate: 0.02 Hz}"
RESTART = "{name: restart, every: 15 s, length: 2 s, checkpoint: 2}"
SYNC = "{name: sync, rounds: 6, participation: 0.5}"
DEADLINE = "{name: deadline, rounds: 6, participation: 0.5, wait: 9 s, over: 1.5}"
TEXT = """
name: waves
seed: {seed}
clients: {{count: 12, speed: "lognormal(2 GFLOP/s, 0.8)"}}
network:
  {links}
  model: {model}
  effects: [{effects}]
protocol: {protocol}
algorithm: {{name: traffic, down: {down} kB, up: {up} kB, operations: {operations}}}
measure: {{until: {until}}}
"""
OWN = "latency: lognormal(50 ms, 1)\n  uplink: lognormal(5 Mbit/s, 1)\n  downlink: lognormal(20 Mbit/s, 1)"
LOSSY = "profile: {fibre: 0.5, lte: 0.5}"
EXCHANGE = "\n  connection: {kind: exchange}"
FLOWER = "\n  transport: {name: flower_supernodes, poll: 2 s}"
GRPC = "\n  transport: {name: grpc, window: 64 KiB, poll: 500 ms}"
STREAMED = "\n  transport: {name: grpc, window: 256 KiB, renewed: bytes}"
runs = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 99),
        "links": st.sampled_from(
            [
                OWN,
                LOSSY,
                OWN + EXCHANGE,
                LOSSY + EXCHANGE,
                OWN + FLOWER,
                LOSSY + EXCHANGE + FLOWER,
                OWN + EXCHANGE + GRPC,
                LOSSY + GRPC,
                OWN + STREAMED,
            ]
        ),
        "model": st.sampled_from(["fluid", "fluid", "naive"]),
        "effects": st.sampled_from(["", CHURN, DROPOUT, RESTART, f"{CHURN}, {DROPOUT}, {RESTART}"]),
        "protocol": st.sampled_from([SYNC, DEADLINE]),
        "down": st.integers(0, 4000),
        "up": st.integers(1, 4000),
        "operations": st.just("10e9"),
        "until": st.sampled_from(["null", "30 s", "100 s"]),
    }
)


def tables(folder, options, waves, planned=True):
    """Run a scenario with waves or without; return its tables, the second at which it ended, and the waves begun.

    Without `planned` none of the waves is computed from closed formulas.
    """
    path = folder / "waves.yaml"
    path.write_text(TEXT.format(**options))
    scenario, _ = yaml_file.load(path, [])
    recorder = Recorder()
    built = build(next(iter(scenario.points())).scenario, folder, recorder)
    world, done = built.world, built.done
    begun = []
    join = world.clients.join
    world.clients.join = lambda clients, cohort: begun.append(cohort) or join(clients, cohort)
    if not planned:
        world.network.planner.fits = lambda *_: False
    if not waves:
        world.server.write_cohort = None
    until = scenario.measure.until.time if scenario.measure.until else None
    while not done.processed and world.env.peek() <= (np.inf if until is None else until):
        world.env.step()
    if until is not None and not done.processed and world.env.now < until:
        world.env.run(until=until)
    world.end()
    world.ledger.close()
    return recorder.tables(), world.env.now, begun


def same(first, second, keys):
    """Hold that two tables tell the same: times but for rounding, bytes but for one of what was cut."""
    first, second = (table.to_pandas().round(9).sort_values(keys, ignore_index=True) for table in (first, second))
    for column in first.columns:
        if column == "wire_bytes":
            assert np.allclose(first[column], second[column], rtol=0, atol=1)
        elif first[column].dtype == float:
            assert np.allclose(first[column], second[column], rtol=1e-8, atol=1e-8, equal_nan=True)
        else:
            pd.testing.assert_series_equal(first[column], second[column])


@settings(max_examples=12)
@given(runs)
def test_cohorts_tell_what_single_asks_tell(tmp_path_factory, options):
    folder = tmp_path_factory.mktemp("waves")
    (together, end, waves), (single, other_end, none) = (tables(folder, options, waves) for waves in (True, False))
    assert waves
    assert not none
    assert end == pytest.approx(other_end, rel=1e-9)
    same(together["transfers"], single["transfers"], ["src", "dst", "sent"])
    same(together["spans"], single["spans"], ["client", "what", "start"])
    same(together["updates"], single["updates"], ["time"])


SAME = "latency: 50 ms\n  uplink: 8 Mbit/s\n  downlink: 8 Mbit/s"  # many things happen in the same instant
NEAR = "latency: 0 s\n  uplink: lognormal(5 Mbit/s, 1)\n  downlink: 8 Mbit/s"
narrow = st.fixed_dictionaries(
    {
        "clients": st.sampled_from([SAME, NEAR, OWN, LOSSY, "profile: {lte: 0.5, iot: 0.5}"]),
        "ingress": st.sampled_from(["2 Mbit/s", "10 Mbit/s", "30 Mbit/s"]),
        "egress": st.sampled_from(["3 Mbit/s", "20 Mbit/s", "null"]),
        "control": st.sampled_from(["cubic", "reno", "bbr"]),
        "bias": st.sampled_from([0, 0.5]),
        "tls": st.integers(0, 1),
        "mean": st.sampled_from(["true", "false"]),
        "carried": st.sampled_from(["", "", EXCHANGE, EXCHANGE + FLOWER]),
    }
)
full_runs = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 99),
        "narrow": narrow,
        "effects": st.sampled_from(["", CHURN, DROPOUT, RESTART, f"{CHURN}, {DROPOUT}, {RESTART}"]),
        "protocol": st.sampled_from([SYNC, DEADLINE, DEADLINE.replace("1.5", "1.0")]),
        "down": st.integers(0, 4000),
        "up": st.integers(1, 4000),
        "operations": st.sampled_from(["0", "1e9", "10e9"]),
        "until": st.sampled_from(["null", "30 s", "100 s"]),
    }
)


@settings(max_examples=60)
@given(full_runs)
def test_over_full_links_waves_are_single_asks_to_the_last_bit(tmp_path_factory, options):
    """Sizes, latencies, ceilings, losses, work and interruptions at random: tables are equal byte for byte."""
    found = options.pop("narrow")
    if found["control"] == "bbr":
        found["bias"] = 0
    links = (
        "{clients}\n  server: {{ingress: {ingress}, egress: {egress}}}\n  congestion_control: {control}\n"
        "  tls_rtts: {tls}\n  tcp: {{rtt_bias: {bias}, deterministic: {mean}}}{carried}"
    ).format(**found)
    folder = tmp_path_factory.mktemp("waves")
    options |= {"links": links, "model": "fluid"}
    (together, end, waves), (single, other_end, none) = (tables(folder, options, ways, False) for ways in (True, False))
    assert all(isinstance(wave, EventsCohort) for wave in waves)
    assert waves
    assert not none
    assert end == other_end
    for name, table in together.items():
        assert table.equals(single[name]), name


LEARNING = """
name: waves
seed: 3
data:
  dataset: digits
  partition: {{name: dirichlet, alpha: 1.0}}
  stream: {{name: class_incremental, classes: 4, every: {every}}}
model: {{name: gcn, hidden: 4}}
training: {{optimiser: adam, lr: 0.01, local_steps: 1}}
clients: {{count: 6, speed: "lognormal(0.1 GFLOP/s, 0.8)"}}
network:
  {links}
  effects: [{effects}]
protocol: {protocol}
algorithm: fedavg
measure: {{every: 1 update, models: [global, local]}}
"""


@pytest.mark.parametrize("protocol", [SYNC, "{name: deadline, rounds: 6, participation: 0.5, wait: 2 s, over: 1.5}"])
def test_data_that_arrive_in_the_middle_of_a_wave_are_learnt_from(tmp_path, monkeypatch, protocol):
    """A period that reaches a client before its download does is the one that it trains on."""
    monkeypatch.setitem(globals(), "TEXT", LEARNING)
    options = {"protocol": protocol, "links": OWN, "effects": CHURN, "every": "0.1 s"}
    renewed = []
    withdrawn = Live.withdrawn
    monkeypatch.setattr(Live, "withdrawn", lambda self, *job: renewed.append(job) or withdrawn(self, *job))
    (together, end, waves), (single, other_end, _) = (tables(tmp_path, options, waves) for waves in (True, False))
    assert waves
    assert renewed
    assert end == pytest.approx(other_end, rel=1e-9)
    same(together["transfers"], single["transfers"], ["src", "dst", "sent"])
    same(together["spans"], single["spans"], ["client", "what", "start"])
    keys = ["time", "client", "period", "model", "split", "metric"]
    first, second = (found["scores"].to_pandas().round(6).sort_values(keys) for found in (together, single))
    assert len(first) == len(second) > 100
    assert np.abs(first["value"].to_numpy() - second["value"].to_numpy()).max() < 0.03  # one node, by rounding


NARROW = f"{OWN}\n  server: {{ingress: 300 kbit/s, egress: 500 kbit/s}}"


@pytest.mark.parametrize("privacy", ["", "privacy: {{secure_aggregation: true}}"])
def test_over_full_links_learners_score_the_same_to_the_last_bit(tmp_path, monkeypatch, privacy):
    """Jobs begin at the same moments and in the same order as those of single asks, also where data arrive."""
    monkeypatch.setitem(globals(), "TEXT", LEARNING + privacy)
    options = {"protocol": SYNC, "links": NARROW, "effects": CHURN, "every": "1 s"}
    (together, end, waves), (single, other_end, _) = (tables(tmp_path, options, ways, False) for ways in (True, False))
    assert all(isinstance(wave, EventsCohort) for wave in waves)
    assert len(waves) >= 6
    assert end == other_end
    assert len(together["scores"]) > 100
    for name, table in together.items():
        assert table.equals(single[name]), name


@pytest.mark.parametrize("planned", [True, False])
def test_phones_that_come_at_night_are_asked_in_waves_as_one_by_one(tmp_path, planned):
    """Jobs take about half an hour, so that phones leave in the middle of them, over three days."""
    options = {"seed": 4, "links": OWN if planned else NARROW, "model": "fluid", "down": 300, "up": 300}
    options |= {"effects": "{name: nights, never: false}", "protocol": "{name: sync, rounds: 99, participation: 1.0}"}
    options |= {"operations": "4e12", "until": "3 d"}
    (together, end, waves), (single, other_end, _) = (
        tables(tmp_path, options, ways, planned) for ways in (True, False)
    )
    assert len(waves) > 20
    assert end == pytest.approx(other_end, rel=1e-9)
    same(together["transfers"], single["transfers"], ["src", "dst", "sent"])
    same(together["spans"], single["spans"], ["client", "what", "start"])
    arrived = together["transfers"].to_pandas().query("fate == 'delivered'")
    downs, ups = (arrived["src"] == SERVER).sum(), (arrived["dst"] == SERVER).sum()
    assert downs > ups > 20  # some have left while they trained


def test_a_wave_shares_its_links_with_other_messages(tmp_path):
    """A message that is sent beside a wave slows it, and is slowed, as it would beside single asks."""
    options = {"seed": 1, "links": NARROW, "model": "fluid", "effects": "", "protocol": SYNC, "down": 300, "up": 300}
    options |= {"operations": "1e9", "until": "null"}
    found = []
    for ways in (True, False):
        path = tmp_path / "waves.yaml"
        path.write_text(TEXT.format(**options))
        scenario, _ = yaml_file.load(path, [])
        recorder = Recorder()
        world, _, _, _, done, _ = build(next(iter(scenario.points())).scenario, tmp_path, recorder)
        if not ways:
            world.server.write_cohort = None
        world.env.run(until=3)
        idle = next(client for client in world.clients if not world.clients.busy[client])
        world.network.send(Message.sized(idle, SERVER, "share", 200_000))
        world.env.run(until=done)
        world.end()
        world.ledger.close()
        found.append(recorder.tables()["transfers"])
    together, single = found
    assert together.equals(single)
    assert "share" in together["kind"].to_pylist()
