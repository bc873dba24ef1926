"""Connections and transports in whole runs: the seconds of an exchange by hand, and what does not fit together."""

import pytest

from fedsim import __main__ as command_line
from fedsim.core.record import Recorder
from fedsim.point.build.assemble import build
from fedsim.scenario.text import yaml_file

TEXT = """
name: carriage
clients: {{count: 2, speed: 1 GFLOP/s}}
network: {{latency: 50 ms, uplink: 8 Mbit/s, downlink: 8 Mbit/s{network}}}
protocol: {protocol}
algorithm: {{name: traffic, down: 2 kB, up: 3 kB, operations: 1e9}}
"""
TRIP, WORK = 0.1, 1.0
EXCHANGE = ", connection: {kind: exchange}"
PUSH = ", connection: {kind: kept, request: push}"
FLOWER = ", transport: {name: flower_supernodes, poll: 0 s, start: 1.6 s}"
TREE = ", topology: {name: tree, edges: 1, uplink: 8 Mbit/s, downlink: 8 Mbit/s, latency: 25 ms}"
GRPC = ", transport: {name: grpc, call: 40 ms, per_megabyte: 0 s, overhead: 60 B}"
PEERS = ", topology: {name: peers, graph: ring}"
SYNC = "{name: sync, rounds: 2, participation: 1}"


def written(folder, network="", protocol=SYNC):
    (folder / "moved.csv").write_text("start_s,client,direction,bytes\n0,0,up,9\n")
    path = folder / "carriage.yaml"
    path.write_text(TEXT.format(network=network, protocol=protocol))
    return path


def transfers(path):
    scenario, _ = yaml_file.load(path, [])
    recorder = Recorder()
    world, _, _, _, done, _ = build(next(iter(scenario.points())).scenario, path.parent, recorder)
    world.env.run(until=done)
    world.end()
    world.ledger.close()
    return recorder.tables()["transfers"].to_pandas()


@pytest.mark.parametrize(
    ("network", "first", "second"),
    [
        ("", (2 * TRIP, 1.5 * TRIP), (2 * TRIP, 1.5 * TRIP)),
        (EXCHANGE, (2 * TRIP, 0.5 * TRIP), (2 * TRIP, 0.5 * TRIP)),
        (EXCHANGE + FLOWER, (2 * TRIP + 2.0, 0.5 * TRIP + 1.8), (2 * TRIP + 2.0, 0.5 * TRIP + 1.8)),
        (", connection: {kind: kept}", (2 * TRIP, 0.5 * TRIP), (TRIP, 0.5 * TRIP)),
        (PUSH, (2 * TRIP, 0.5 * TRIP), (0.5 * TRIP, 0.5 * TRIP)),
        (PUSH + FLOWER, (2 * TRIP + 2.0, 0.5 * TRIP + 1.8), (0.5 * TRIP + 2.0, 0.5 * TRIP + 1.8)),
    ],
)  # fmt: skip
def test_both_exchanges_of_a_client_take_their_round_trips_bytes_and_delays(tmp_path, network, first, second):
    """Messages of a few packets have no stall; each client has its links to itself."""
    rows = transfers(written(tmp_path, network))
    own = rows[(rows["src"] == 1) | (rows["dst"] == 1)].sort_values("sent")
    took = own["arrived"] - own["sent"] - own["wire_bytes"] / 1e6
    assert took.tolist() == pytest.approx([*first, *second])
    assert own["wire_bytes"].tolist() == (own["nbytes"] + 52 * -(-own["nbytes"] // 1448)).tolist()
    between = own["sent"].to_numpy()[1::2] - own["arrived"].to_numpy()[::2]
    assert between == pytest.approx([WORK, WORK])


@pytest.mark.parametrize(
    ("network", "trip", "first", "second"),
    [
        ("", TRIP, (3, 2.5), (3, 2.5)),
        (EXCHANGE, TRIP, (3, 0.5), (3, 0.5)),
        (", connection: {kind: kept}", TRIP, (3, 0.5), (1, 0.5)),
        (", connection: {kind: kept}" + TREE.replace("8 Mbit/s", "80 Gbit/s"), TRIP + 0.05, (3, 0.5), (1, 0.5)),
    ],
)  # fmt: skip
def test_exchanges_over_grpc_take_a_channels_round_trip_more_and_its_frames(tmp_path, network, trip, first, second):
    """The ledger holds the bytes against the meters at the end."""
    rows = transfers(written(tmp_path, network + GRPC))
    own = rows[(rows["src"] == 1) | (rows["dst"] == 1)].sort_values("sent")
    carried = own["nbytes"] + 5 + 9 + 60
    assert own["wire_bytes"].tolist() == (carried + 52 * -(-carried // 1448)).tolist()
    took = own["arrived"] - own["sent"] - own["wire_bytes"] / 1e6 - 0.04
    assert took.tolist() == pytest.approx([trips * trip for trips in (*first, *second)])


def test_an_edge_answers_the_cloud_on_its_connection(tmp_path):
    protocol = "{name: hierarchical, rounds: 1, participation: 1}"
    found = [transfers(written(tmp_path, TREE + more, protocol)) for more in ("", EXCHANGE)]
    fresh, exchange = (rows[(rows["kind"] == "share") & (rows["src"] == -2)].iloc[0] for rows in found)
    shorter = (fresh["arrived"] - fresh["sent"]) - (exchange["arrived"] - exchange["sent"])
    assert shorter == pytest.approx(2 * 0.025)


@pytest.mark.parametrize(
    ("network", "protocol", "message"),
    [
        (", connection: {request: push}", SYNC, "network.connection: request: push is about connections that"),
        (", connection: {kind: exchange, idle_restart: no}", SYNC, "idle_restart: false is about"),
        (", connection: {kind: exchange}, topology: {name: peers, graph: ring}", "{name: gossip, rounds: 2}",
         "network.connection.kind: 'exchange' is one connection for a request and its reply, and 'gossip' has none"),
        (", connection: {kind: exchange}", "{name: replay, transfers: moved.csv}", "and 'replay' has none: take fresh"),
        (FLOWER, "{name: replay, transfers: moved.csv}", "'flower_supernodes' carries what clients are asked"),
        (FLOWER + TREE, SYNC, "network.transport: 'flower_supernodes' has one server"),
        (GRPC + PEERS, "{name: gossip, rounds: 2}", "network.transport: 'grpc' has a channel between each"),
        (", transport: {name: grpc, poll: 1 s}", "{name: replay, transfers: moved.csv}", "the protocol asks none"),
        (", transport: {name: grpc, frame: 1 kB}", SYNC, "frame: '1 kB': must be at least 16384"),
        (", transport: {name: grpc, renewed: bytes}", SYNC, "renewed: is about a window of a fixed size"),
        (", transport: {name: flower_supernodes, pole: 3 s}", SYNC, "has no option 'pole'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused_before_the_run(tmp_path, capsys, network, protocol, message):
    assert command_line.main([str(written(tmp_path, network, protocol)), "--dry-run"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert message in said
    assert "carriage.yaml, line" in said
