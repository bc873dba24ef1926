"""The fleet: what the table, the scenario's draws and the profile say of each client, in this order."""

import numpy as np
import pytest

from fedsim.clock.world import Streams
from fedsim.core.errors import UserError
from fedsim.net.measurements import profiles
from fedsim.point.build import fleet
from fedsim.point.checks import check
from fedsim.scenario.text import yaml_file

HEAD = "client,uplink_mbps,downlink_mbps,rtt_ms,jitter_ms,loss_up,loss_down,gflops,up_burst_bytes,down_burst_bytes,"
HEAD += "up_buffer_bytes,down_buffer_bytes\n"


@pytest.fixture
def load(tmp_path):
    def made(table=None, **sections):
        lines = ["name: small", "protocol: {name: sync, rounds: 1, participation: 1.0}"]
        lines.append("algorithm: {name: traffic, down: 1 kB, up: 1 kB}")
        lines += [f"{key}: {value}" for key, value in sections.items()]
        if table is not None:
            (tmp_path / "clients.csv").write_text(table)
        (tmp_path / "small.yaml").write_text("\n".join(lines))
        return yaml_file.load(tmp_path / "small.yaml")[0]

    return made


def test_a_table_expresses_every_row_of_the_nodes(load):
    table = HEAD + "1,5,50,40,2,0.01,0.02,3,1000,2000,64000,\n0,1,10,100,0,0,0,1,,,,128000\n"
    scenario = load(table, clients="{table: clients.csv}", network="{}")
    assert fleet.size(scenario) == 2
    rows = fleet.rows(scenario, Streams(0))
    nodes = fleet.nodes(rows)
    assert nodes.uplink.tolist() == [1e6, 5e6]
    assert nodes.downlink.tolist() == [1e7, 5e7]
    assert nodes.latency.tolist() == [0.05, 0.02]  # one way: half the round trip
    assert nodes.jitter.tolist() == [0.0, 0.002]
    assert (nodes.loss_up.tolist(), nodes.loss_down.tolist()) == ([0, 0.01], [0, 0.02])
    assert (nodes.up_burst.tolist(), nodes.down_burst.tolist()) == ([0, 1000], [0, 2000])
    assert np.array_equal(nodes.up_buffer, [np.nan, 64000], equal_nan=True)
    assert np.array_equal(nodes.down_buffer, [128000, np.nan], equal_nan=True)
    assert rows["speed"].tolist() == [1e9, 3e9]


def test_what_the_table_does_not_tell_comes_from_the_draws_and_they_stay_the_same(load):
    drawn = {"clients": "{count: 4, speed: 'lognormal(1 GFLOP/s, 1)'}"}
    network = "{latency: 'uniform(1 ms, 9 ms)', uplink: 'lognormal(5 Mbit/s, 1)', downlink: 9 Mbit/s}"
    without = fleet.rows(load(**drawn, network=network), Streams(7))
    clients = "{count: 4, speed: 'lognormal(1 GFLOP/s, 1)', table: clients.csv}"
    table = "client,uplink_mbps,rtt_ms\n2,33,\n0,,60\n"
    told = fleet.rows(load(table, clients=clients, network=network), Streams(7))
    assert told["uplink"][2] == 33e6
    assert told["latency"][0] == 0.03
    for key in ("uplink", "latency", "downlink", "speed"):
        same = np.ones(4, bool)
        same[{"uplink": [2], "latency": [0]}.get(key, [])] = False
        assert (told[key][same] == without[key][same]).all()


def test_an_explicit_key_wins_over_the_profile(load):
    scenario = load(clients="{count: 50}", network="{profile: lte, uplink: 1 Mbit/s}")
    rows = fleet.rows(scenario, Streams(0))
    assert set(rows["uplink"]) == {1e6}
    plain = profiles.rows({"lte": 1.0}, 50, Streams(0)("network.profile"))
    assert (rows["downlink"] == plain["downlink"]).all()
    assert (rows["loss_up"] > 0).all()


def test_a_mixture_of_profiles(load):
    scenario = load(clients="{count: 10}", network="{profile: {fibre: 0.5, iot: 50 %}}")
    assert (fleet.rows(scenario, Streams(0))["uplink"] < 1e6).sum() == 5


def test_constants_of_the_transfer_model_can_be_set(load):
    network = "{profile: lte, congestion_control: bbr, tls_rtts: 1, tcp: {initial_window: 4, deterministic: true}}"
    model = fleet.transfer_model(load(clients="{count: 1}", network=network))
    assert (model.initial_window, model.deterministic, model.congestion_control, model.tls_rtts) == (4, True, "bbr", 1)


BAD = [
    ("client,uplink_mbps\n0,1\n", "{profile: lte, tcp: {initial_windw: 4}}", "network.tcp.initial_windw", "mean"),
    ("client,uplink_mbps\n0,1\n", "{profile: lte, tcp: {mtu: big}}", "network.tcp.mtu", "write a number with a unit"),
    ("client,uplink_mbps\n0,1\n", "{profile: ltee}", "network.profile", "ltee"),
    ("client,uplink_mbps\n0,1\n", "{uplink: 1 Mbit/s, latency: 1 ms}", "network.downlink", "'downlink_mbps'"),
    ("client,rtt_ms\n0,\n", "{uplink: 1 Mbit/s, downlink: 1 Mbit/s}", "network.latency", "'rtt_ms'"),
    ("client,rtt_ms\n0,5\n1,\n", "{uplink: 1 Mbit/s, downlink: 1 Mbit/s}", "network.latency",
     "is missing for client 1; give it, or a value 'rtt_ms' in clients.table"),
    ("client,uplink_mbs\n0,1\n", "{profile: lte}", "clients.table", "line 1: there is no column 'uplink_mbs'"),
    ("client,uplink_mbps\n0,-1\n", "{profile: lte}", "clients.table", "line 2: column 'uplink_mbps'"),
    ("client,loss_up\n0,1\n", "{profile: lte}", "clients.table", "line 2: column 'loss_up'"),
    ("client,loss_up\n0,1\n", "{profile: lte}", "clients.table", "at least 0 and below 1"),
    ("client,uplink_mbps\n0,0\n", "{profile: lte}", "clients.table", "line 2: column 'uplink_mbps': 0 is out of range"),
    ("client,gflops\n0,0\n", "{profile: lte}", "clients.table", "line 2: column 'gflops': 0 is out of range"),
    ("client,gflops\n0,1\n1,\n", "{profile: lte}", "clients.speed", "has no value for client 1"),
    ("client\n0\n0\n", "{profile: lte}", "clients.table", "line 3: client 0 is in line 2 too"),
    ("client\n0\n5\n", "{profile: lte}", "clients.table", "line 3: client 5: the table lists 2 clients"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "network", "key", "message"), BAD)
def test_a_mistake_names_key_file_and_line(load, table, network, key, message):
    scenario = load(table, clients="{table: clients.csv}", network=network)
    problems = check.points([*scenario.points()])
    assert [problem.key for problem in problems] == [key]
    assert message in problems[0].message
    if key == "clients.table":
        assert "clients.csv" in problems[0].message


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"clients": "{speed: 1 GFLOP/s}", "network": "{profile: lte}"}, "clients.count: is missing"),
        ({"clients": "{count: 2}", "network": "{uplink: 1 Mbit/s, downlink: 1 Mbit/s}"}, "network.latency: is missing"),
        ({"clients": "{table: nowhere.csv}", "network": "{profile: lte}"}, "there is no such file"),
    ],
)
def test_what_nothing_gives_is_missing(load, sections, message):
    with pytest.raises(UserError, match=message):
        load(**sections)


def test_constants_that_do_not_go_together_are_reported_with_their_key(load):
    scenario = load(clients="{count: 1}", network="{profile: lte, congestion_control: bbr, tcp: {rtt_bias: 0.5}}")
    problems = check.points([*scenario.points()])
    assert [problem.key for problem in problems] == ["network.tcp"]
    assert "rtt_bias" in problems[0].message


@pytest.mark.parametrize(
    "network",
    [
        "{latency: 1 ms, uplink: 'lognormal(5 Mbit/s, 1)', downlink: 9 Mbit/s",
        "{profile: lte",
        "{profile: {measured: {country: US}}",
    ],
)
def test_a_factor_changes_all_access_rates_and_nothing_else(load, network):
    table = HEAD + "1,5,50,40,2,0.01,0.02,3,1000,2000,64000,\n"
    clients = "{table: clients.csv, count: 4, speed: 1 GFLOP/s}"
    own, half = (
        fleet.rows(load(table, clients=clients, network=f"{network}{more}}}"), Streams(0))
        for more in ("", ", rate_factor: 0.5")
    )
    for key in own:
        np.testing.assert_array_equal(half[key], own[key] * (0.5 if key in ("uplink", "downlink") else 1))
    assert own["uplink"][1] == 5e6


@pytest.mark.parametrize("factor", ["0", "-1", ".inf", ".nan"])
def test_a_factor_that_makes_no_sense_is_refused(load, factor):
    with pytest.raises(UserError, match=r"network\.rate_factor"):
        load(
            clients="{count: 1}",
            network=f"{{latency: 1 ms, uplink: 1 Mbit/s, downlink: 1 Mbit/s, rate_factor: {factor}}}",
        )


def test_a_factor_that_makes_a_rate_infinite_is_refused(load):
    scenario = load(
        clients="{count: 2}", network="{latency: 1 ms, uplink: 1e300 bit/s, downlink: 1 Mbit/s, rate_factor: 1e15}"
    )
    with pytest.raises(UserError, match=r"network\.rate_factor.* larger than numbers can be"):
        fleet.rows(scenario, Streams(0))
