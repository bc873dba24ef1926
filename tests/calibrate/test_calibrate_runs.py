"""Whole runs: a simulated run is calibrated from as if it had been measured, and the scenario repeats it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_points
import yaml

from fedsim.__main__ import main as run_fedsim
from fedsim.calibrate import fleet_fit, network, speeds, tables
from fedsim.calibrate.__main__ import main

LINKS = """client,uplink_mbps,downlink_mbps,rtt_ms,gflops
0,1,4,30,10
1,2,8,100,5
2,5,20,20,2
3,10,10,200,10
"""
TRAFFIC = {
    "name": "traffic",
    "clients": {"table": "links.csv"},
    "network": {"server": {"ingress": "1 Gbit/s", "egress": "1 Gbit/s"}},
    "protocol": {"name": "sync", "rounds": 4, "participation": 1.0},
    "algorithm": {"name": "traffic", "down": "300 kB", "up": "50 kB", "operations": 1e9},
}
KINDS = [
    {"kind": "fresh"},
    {"kind": "exchange"},
    {"kind": "kept"},
    {"kind": "kept", "request": "push"},
    {"kind": "kept", "idle_restart": False},
]


@pytest.fixture
def traffic(tmp_path):
    """Run a scenario of traffic with changed keys of its network, and return the folder of its point."""
    (tmp_path / "links.csv").write_text(LINKS)

    def run(protocol=None, algorithm=None, **network):
        plain = TRAFFIC | {"network": TRAFFIC["network"] | network}
        plain |= {"protocol": protocol or plain["protocol"], "algorithm": algorithm or plain["algorithm"]}
        (tmp_path / "traffic.yaml").write_text(yaml.safe_dump(plain))
        return simulated(tmp_path / "traffic.yaml", tmp_path / "run")

    return run


def simulated(scenario, out):
    assert run_fedsim([str(scenario), "--out", str(out), "--jobs", "1", "--no-report", "--fresh"]) == 0
    return tables.point_of(out)


def table(path):
    return np.genfromtxt(path, delimiter=",", names=True)


def seconds(folder):
    times = np.unique(pq.read_table(folder / "updates.parquet")["time"].to_numpy())
    return np.diff(times, prepend=0.0)


def repeated(folder, tmp_path, *flags):
    """Calibrate from a point, run the scenario that was written, and return the seconds of rounds of both."""
    assert main([str(folder), "--out", str(tmp_path / "c.csv"), "--force", *flags]) == 0
    return seconds(folder), seconds(simulated(tmp_path / "c.yaml", tmp_path / "again"))


@pytest.mark.parametrize("congestion_control", ["cubic", "bbr"])
@pytest.mark.parametrize("connection", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_true_links_predict_every_message_of_a_run(traffic, connection, congestion_control):
    """The oracle of the forward model: the network itself, event by event."""
    measured = tables.read_run(traffic(connection=connection, congestion_control=congestion_control))
    true = table(measured.scenario.clients.table)
    values = np.stack([true["rtt_ms"] / 1e3, true["uplink_mbps"] * 1e6, true["downlink_mbps"] * 1e6], axis=1)
    none = np.zeros(len(measured.moved), dtype=bool)
    fleet = fleet_fit.Fleet(values, np.zeros((4, 2)), [("", "", "")] * 4, none)
    predicted = fleet.predicted(network.forward(measured.scenario), measured.moved)
    assert len(measured.moved) == 32
    assert predicted == pytest.approx(measured.moved.seconds, rel=1e-9)


def test_naive_networks_too(traffic, tmp_path):
    first, again = repeated(traffic(model="naive"), tmp_path)
    assert again == pytest.approx(first, rel=0.02)


def test_kept_connections_tell_the_links_from_messages_of_one_size(traffic, tmp_path):
    folder = traffic(connection={"kind": "kept"})
    assert repeated(folder, tmp_path)[1] == pytest.approx(seconds(folder), rel=0.01)
    found, true = table(tmp_path / "c.csv"), table(tmp_path / "links.csv")
    # Of client 0, 30 ms are too small a part of seconds to be identifiable.
    assert found["rtt_ms"][1:] == pytest.approx(true["rtt_ms"][1:], rel=0.02)
    assert found["uplink_mbps"][1:] == pytest.approx(true["uplink_mbps"][1:], rel=0.02)
    assert found["gflops"] == pytest.approx(true["gflops"], rel=1e-5)


def test_fresh_ones_do_not_and_repeat_the_run_all_the_same(traffic, tmp_path, capsys):
    folder = traffic()
    first, again = repeated(folder, tmp_path)
    shown = capsys.readouterr().out
    lines = shown.partition("answers")[2].splitlines()
    assert [line.split()[1] for line in lines[1:5]] == ["-"] * 4  # no round trip
    assert "ping times would tell them (--known TABLE with client, rtt_ms), or a run with" in " ".join(shown.split())
    assert again == pytest.approx(first, rel=0.02)


def test_round_trips_that_are_known_give_true_rates(traffic, tmp_path):
    folder = traffic()
    (tmp_path / "pings.csv").write_text("client,rtt_ms\n0,30\n1,100\n2,20\n3,200\n")
    first, again = repeated(folder, tmp_path, "--known", str(tmp_path / "pings.csv"))
    assert again == pytest.approx(first, rel=0.01)
    found, true = table(tmp_path / "c.csv"), table(tmp_path / "links.csv")
    assert found["rtt_ms"].tolist() == true["rtt_ms"].tolist()
    assert found["uplink_mbps"][:3] == pytest.approx(true["uplink_mbps"][:3], rel=0.01)  # 50 kB over 200 ms say little
    assert found["downlink_mbps"] == pytest.approx(true["downlink_mbps"], rel=0.01)


@pytest.mark.long
def test_a_run_that_learns_and_whose_clients_come_and_go(tmp_path):
    point = small_points.point(
        network__effects=[{"name": "churn", "online": "3 s", "offline": "1 s"}], clients__count=6
    )
    small_points.run(point, made(tmp_path / "0123456789ab"), tmp_path, lambda progress: None)
    first, again = repeated(tmp_path / "0123456789ab", tmp_path)
    (effect,) = yaml.safe_load((tmp_path / "c.yaml").read_text())["network"]["effects"]
    assert (effect["name"], effect["table"], effect["unlisted"]) == ("churn", "c_online.csv", "online")
    assert (tmp_path / "c_online.csv").is_file()
    assert again == pytest.approx(first, rel=0.02)


def made(folder):
    folder.mkdir()
    return folder


def test_a_deadline_whose_slow_clients_are_late(traffic, tmp_path):
    folder = traffic(protocol={"name": "deadline", "rounds": 4, "participation": 1.0, "wait": "2 s"})
    fates = set(pq.read_table(folder / "transfers.parquet")["fate"].to_pylist())
    assert "late" in fates
    first, again = repeated(folder, tmp_path)
    assert again == pytest.approx(first, rel=0.02)


def test_losses_are_fitted_where_asked_for(traffic, tmp_path, capsys):
    folder = traffic(effects=[{"name": "loss", "up": "2 %"}])
    assert main([str(folder), "--out", str(tmp_path / "a.csv")]) == 0
    assert "--losses fits such losses" in capsys.readouterr().out
    assert "loss_up" not in (tmp_path / "a.csv").read_text()
    assert main([str(folder), "--out", str(tmp_path / "b.csv"), "--losses"]) == 0
    assert table(tmp_path / "b.csv")["loss_up"] == pytest.approx(0.02, rel=0.01)


def test_the_first_half_predicts_the_second(traffic, tmp_path, capsys):
    folder = traffic(protocol={"name": "sync", "rounds": 6, "participation": 1.0}, connection={"kind": "kept"})
    assert main([str(folder), "--out", str(tmp_path / "c.csv"), "--until", "50%"]) == 0
    lines = " ".join(capsys.readouterr().out.split())
    assert "(predicted): 2" in lines
    after = lines.split("(predicted): ")[1].split(" written")[0]
    assert after.split(",")[0].endswith("0 % (90 %: 0 %)")
    assert "rounds 0 % (90 %: 0 %)" in after


def test_operations_of_jobs_are_those_of_the_scenario(traffic, tmp_path):
    measured = tables.read_run(traffic())
    worked, note = speeds.with_operations(measured, None, tmp_path)
    assert not note
    assert worked.operations == pytest.approx(np.full(16, 1e9), rel=1e-9)


def test_speeds_that_no_job_tells_stay_those_of_the_runs_own_table(traffic, tmp_path, capsys):
    folder = traffic(algorithm={"name": "traffic", "down": "300 kB", "up": "50 kB"})
    assert main([str(folder), "--out", str(tmp_path / "c.csv")]) == 0
    assert "speeds are not fitted: no finished job is recorded" in " ".join(capsys.readouterr().out.split())
    assert table(tmp_path / "c.csv")["gflops"].tolist() == [10, 5, 2, 10]


def test_operations_follow_the_periods_that_a_client_has_met(tmp_path):
    """Classes arrive every two updates, so that a job works on more and more; speeds stay what they were."""
    folder = made(tmp_path / "0123456789ab")
    small_points.run(small_points.point(), folder, tmp_path, lambda progress: None)
    measured = tables.read_run(folder)
    worked, _ = speeds.with_operations(measured, folder / "arrivals.parquet", tmp_path)
    found = speeds.fitted(worked, 5)
    assert speeds.predicted(worked, found) == pytest.approx(worked.end - worked.start, rel=1e-6)
    assert len({*np.round(worked.operations[worked.client == worked.client[0]])}) > 1


def test_messages_that_did_not_arrive_are_left_out_and_late_ones_are_not(traffic):
    folder = traffic()
    whole = tables.read_run(folder)
    rows = pq.read_table(folder / "transfers.parquet").to_pandas()
    fates = ["delivered", "late", "discarded", "cut", "lost"]
    rows["fate"] = [fates[number % 5] for number in range(len(rows))]
    rows.loc[0, "src"], rows.loc[1, "dst"] = -2, 77  # an edge aggregator, and nobody
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / "transfers.parquet")
    measured = tables.read_run(folder)
    assert len(measured.moved) == len(whole.moved) - 2
    assert measured.moved.whole.sum() == sum(fate in fates[:3] for fate in rows["fate"][2:])
    assert "2 messages between others" in measured.notes[0]


def test_jobs_that_were_interrupted_are_left_out(tmp_path):
    effects = [{"name": "churn", "online": "2 s", "offline": "1 s"}]
    folder = made(tmp_path / "0123456789ab")
    changes = {"network__effects": effects, "clients__speed": "200 kFLOP/s", "training__local_steps": 3}
    small_points.run(small_points.point(**changes), folder, tmp_path, lambda progress: None)
    measured = tables.read_run(folder)
    spans = pq.read_table(folder / "spans.parquet").to_pandas()
    trained = spans[spans["what"] == "train"]
    away = {*zip(measured.offline.client.tolist(), measured.offline.start.tolist(), strict=True)}
    cut = {*zip(trained["client"].tolist(), trained["end"].tolist(), strict=True)} & away
    assert cut
    assert not cut & {*zip(measured.worked.client.tolist(), measured.worked.end.tolist(), strict=True)}
    assert len(measured.worked) >= len(trained) - len(cut) - 5
