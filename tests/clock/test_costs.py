"""Costs of whole runs: a round computed by hand, books that balance, bytes that were lost, budgets, what is refused."""

import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_points import PLAIN, SYNC, files

from fedsim.clock import prices
from fedsim.core import seeds
from fedsim.core.errors import ScenarioError, UserError
from fedsim.core.record import SpanRow, TransferRow
from fedsim.net.measurements import energy
from fedsim.point.build import costing, fleet
from fedsim.point.checks.check import points as problems
from fedsim.point.results import folders
from fedsim.point.run import run
from fedsim.scenario.costs import Costs
from fedsim.scenario.schema import Scenario

KWH, GB = 3.6e6, 1e9
UNPRICED = "822b5811a5fa"
DEADLINE = {"name": "deadline", "rounds": 4, "participation": 0.6, "wait": "4 s", "over": 1.5}
HAND = {
    "name": "hand",
    "seed": 1,
    "clients": {"count": 3, "speed": "1 GFLOP/s"},
    "network": {"model": "naive", "latency": "50 ms", "uplink": "8 Mbit/s", "downlink": "16 Mbit/s"},
    "server": {"speed": "1 GFLOP/s", "cores": 2},
    "protocol": {"name": "sync", "rounds": 1, "participation": 1.0},
    "algorithm": {"name": "traffic", "down": "1 MB", "up": "500 kB", "operations": 2e9},
}
FIGURES = {
    "country": "FR",
    "idle": True,
    "devices": {"phone": {"watts": {"low": 2, "typical": 4, "high": 6}, "idle_watts": 0.5}},
    "links": {
        "wifi": {
            "up_joules_per_gb": 3000,
            "down_joules_per_gb": 1000,
            "watts": 0.25,
            "network_kwh_per_gb": {"low": 0.01, "typical": 0.03, "high": 0.05},
            "usd_per_gb": 2,
        }
    },
    "server": {
        "country": "SE", "watts": 300, "idle_watts": 100, "pue": 1.5, "usd_per_hour": 0.2, "usd_per_gb": 0.09,
    },
    "usd_per_kwh": 0.25,
    "grams_per_kwh": {"FR": 60, "SE": 40},
}  # fmt: skip


def ran(folder: Path, plain, **changes):
    (point,) = Scenario.model_validate({**plain, **changes}).points()
    folder.mkdir(parents=True)
    row = run(point, folder, folder, lambda progress: None)
    return row, {path.stem: pd.read_parquet(path) for path in folder.glob("*.parquet")}


def test_a_round_of_three_clients_costs_what_it_does_by_hand(tmp_path):
    row, tables = ran(tmp_path / "run", HAND, costs=FIGURES)
    down, up = 1_000_085, 500_085  # bytes of a message, of which 85 are the envelope
    down_s, up_s, job_s = 0.05 + down * 8 / 16e6, 0.05 + up * 8 / 8e6, 2e9 / 1e9
    serve_s = 3 * 500_000 / 2 / 1e9  # a multiply-add for every other byte of three replies
    end = down_s + job_s + up_s + serve_s
    assert row["sim_seconds"] == pytest.approx(end, rel=1e-14)

    computing = 3 * 4 * job_s
    idle = 3 * 0.5 * (end - job_s)
    link = 3 * (3000 / GB * up + 1000 / GB * down + 0.25 * (up_s + down_s))
    network = 3 * (up + down) * 0.03 * KWH / GB
    server = 1.5 * (100 * (end - serve_s / 2) + 300 * serve_s / 2)
    clients = computing + idle + link
    wanted = {
        "joules": clients + network + server,
        "joules_clients": clients, "joules_network": network, "joules_server": server,
        "joules_low": clients - 3 * 2 * job_s + network / 3 + server,
        "joules_high": clients + 3 * 2 * job_s + network * 5 / 3 + server,
        "grams": (clients + network) * 60 / KWH + server * 40 / KWH,
        "grams_clients": clients * 60 / KWH, "grams_network": network * 60 / KWH, "grams_server": server * 40 / KWH,
        "usd_clients": clients * 0.25 / KWH + 3 * (up + down) * 2 / GB,
        "usd_network": network * 0.25 / KWH,
        "usd_server": 0.2 * end / 3600 + 3 * down * 0.09 / GB,
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == pytest.approx(wanted, rel=1e-14)
    parts = tables["costs"].set_index(["payer", "part"])["joules"].to_dict()
    assert parts["clients", "computing"] == pytest.approx(computing, rel=1e-14)
    assert parts["clients", "idle"] == pytest.approx(idle, rel=1e-14)
    assert parts["clients", "link"] == pytest.approx(link, rel=1e-14)
    assert row["joules_to_target"] is None


@pytest.mark.parametrize("protocol", [SYNC, pytest.param(DEADLINE, marks=pytest.mark.long)])
def test_the_books_balance_and_bytes_that_were_lost_cost_energy(tmp_path, protocol):
    effects = [{"name": "churn", "online": "3 s", "offline": "1 s"}, {"name": "loss", "rate": "1 %"}]
    network = {**PLAIN["network"], "effects": effects, "uplink": "lognormal(40 kbit/s, 1)"}
    plain = {**PLAIN, "network": network, "protocol": protocol, "algorithm": "fedavg"}
    row, tables = ran(tmp_path / "run", plain, costs={"country": "DE", "link": "lte"}, measure={"target": 0.2})
    moved = tables["transfers"]
    assert {"cut", "late"} & set(moved["fate"])
    costs = tables["costs"]
    last = costs[costs["time"] == costs["time"].max()]
    for quantity in ("joules", "grams", "usd"):
        for suffix in ("", "_low", "_high"):
            assert math.fsum(last[quantity + suffix]) == pytest.approx(row[quantity + suffix], rel=1e-12)
        payers = [row[f"{quantity}_{payer}"] for payer in ("clients", "network", "server")]
        assert math.fsum(payers) == pytest.approx(row[quantity], rel=1e-12)
        assert row[f"{quantity}_low"] <= row[quantity] <= row[f"{quantity}_high"]
        totals = costs.groupby("time")[quantity].sum()
        assert totals.is_monotonic_increasing
        assert totals[row["seconds_to_target"]] == pytest.approx(row[f"{quantity}_to_target"], rel=1e-12)
    assert row["joules_network"] == pytest.approx(0.14 * KWH / GB * moved["wire_bytes"].sum(), rel=1e-12)
    work = tables["spans"].query("client >= 0 and what == 'train'")
    mine = last.set_index(["payer", "part"])["joules"]
    assert mine["clients", "computing"] == pytest.approx(3.6 * (work["end"] - work["start"]).sum(), rel=1e-12)


def test_costs_change_nothing_else(tmp_path):
    ran(tmp_path / "with", PLAIN, costs={"country": "US"})
    ran(tmp_path / "without", PLAIN)
    assert files(tmp_path / "with") == files(tmp_path / "without")
    assert not (tmp_path / "without/costs.parquet").exists()


def test_an_unpriced_scenario_keeps_its_id():
    """Written down before there was a section `costs`: results that exist must not be taken for others."""
    assert Scenario.model_validate(HAND).id() == UNPRICED
    assert Scenario.model_validate({**HAND, "costs": {"country": "US"}}).id() != UNPRICED


@pytest.mark.parametrize(
    ("costs", "key", "told"),
    [
        ({}, "costs.country", r"missing.*client 0"),
        ({"country": "USA"}, "costs.country", r"'USA' is not in the table of carbon; did you mean 'US'\?"),
        ({"country": "US", "server": {"country": "QQ"}}, "costs.server.country", r"grams_per_kwh"),
    ],
)
def test_a_country_without_a_figure_is_refused(costs, key, told):
    (problem,) = problems([*Scenario.model_validate({**HAND, "costs": costs}).points()])
    assert problem.key == key
    assert re.search(told, problem.message)


@pytest.mark.parametrize(
    ("figure", "told"),
    [({"low": 3, "typical": 2, "high": 4}, "not in this order"), (-1, "greater than or equal"), ("5 W", "an estimate")],
)
def test_a_figure_that_is_no_estimate_is_refused(figure, told):
    with pytest.raises(ValueError, match=told):
        Scenario.model_validate({**HAND, "costs": {"country": "US", "usd_per_kwh": figure}})


def test_every_default_has_a_range_in_order():
    devices = [figure for device in energy.DEVICES.values() for figure in device[:2]]
    links = [figure for link in energy.LINKS.values() for figure in link]
    for figure in [*devices, *links, energy.ELECTRICITY, energy.PUE, energy.HOUR, energy.SENT]:
        assert 0 <= figure.low <= figure.typical <= figure.high


def test_clients_have_the_carbon_of_their_countries(tmp_path):
    (tmp_path / "clients.csv").write_text("client,country\n0,FR\n1,PL\n2,\n")
    given = {**HAND, "clients": {**HAND["clients"], "table": str(tmp_path / "clients.csv")}}
    scenario = Scenario.model_validate({**given, "costs": {"country": "SE"}})
    priced = costing.priced(scenario, lambda name: pytest.fail("nothing is drawn"), 1)
    figures = [round(grams * KWH, 6) for grams in priced.carbon[1].tolist()]
    assert figures == [56.04, 661.9, 40.7]


@pytest.mark.parametrize(("budget", "quantity"), [("energy", "joules"), ("carbon", "grams"), ("usd", "usd")])
def test_the_first_row_beyond_a_budget_ends_the_run(tmp_path, budget, quantity):
    """What had ended before the end is less than the budget, and what was spent in all at least as much."""
    plain = {**HAND, "protocol": {"name": "sync", "rounds": 40, "participation": 1.0}}
    whole, _ = ran(tmp_path / "whole", plain, costs={"country": "US"})
    most = whole[quantity] / 3
    text = f"{most!r} {'J' if budget == 'energy' else 'g'}"
    until = {"until": {budget: most if budget == "usd" else text}}
    row, tables = ran(tmp_path / "run", plain, costs={"country": "US"}, measure=until)
    assert row["status"] == "done"
    assert whole["sim_seconds"] / 4 < row["sim_seconds"] < whole["sim_seconds"] / 2
    assert row[quantity] >= most
    priced = costing.priced(Scenario.model_validate({**plain, "costs": {"country": "US"}}), None, 1)
    before = np.array([np.nextafter(row["sim_seconds"], 0)])
    spent = prices.bill(priced, tables["transfers"], tables["spans"], before)[0].sum(axis=0)
    assert spent[prices.QUANTITIES.index(quantity), prices.TYPICAL] < most


@pytest.mark.parametrize("effects", [[], [{"name": "churn", "online": "3 s", "offline": "1 s"}]])
def test_the_meter_and_the_tables_agree(tmp_path, effects):
    plain = {**HAND, "protocol": {"name": "sync", "rounds": 4, "participation": 0.7}}
    plain["network"] = {**HAND["network"], "model": "fluid", "effects": effects}
    scenario = Scenario.model_validate({**plain, "costs": FIGURES})
    row, tables = ran(tmp_path / "run", plain, costs=FIGURES)
    meter = prices.CostMeter(costing.priced(scenario, None, 1))
    for kind, name in ((TransferRow, "transfers"), (SpanRow, "spans")):
        for one in tables[name].to_dict("records"):
            meter.see(kind(**one))
    for quantity in prices.QUANTITIES:
        assert meter.spent(quantity, row["sim_seconds"]) == pytest.approx(row[quantity], rel=1e-12)


def test_a_budget_of_costs_needs_prices():
    with pytest.raises(ValueError, match=r"key='costs'.*is missing.*measure\.until"):
        Scenario.model_validate({**HAND, "measure": {"until": {"energy": "20 kJ"}}})


def test_clients_of_several_classes_have_their_speeds_their_watts_and_their_links():
    shares = {"phone": 0.5, "laptop": 0.3, "server": 0.2}
    speed = {"classes": shares, "efficiency": 0.01}
    scenario = Scenario.model_validate(
        {**HAND, "clients": {"count": 4000, "speed": speed}, "costs": {"country": "US"}, "seed": 4}
    )
    rng = partial(seeds.generator, 4)
    classes, speeds = fleet.classes(scenario, rng), fleet.rows(scenario, rng)["speed"]
    assert {name: float(np.mean(classes == name)) for name in shares} == shares  # rounded, not drawn
    assert set(speeds[classes == "laptop"]) == {16.9e9}
    assert set(speeds[classes == "server"]) == {195e9}
    phones = speeds[classes == "phone"]
    assert np.median(phones) == pytest.approx(7.27e9, rel=0.1)
    assert phones.min() < 4e9 < 12e9 < phones.max()
    watts = costing.priced(scenario, rng, 1).watts[prices.TYPICAL]
    assert {name: set(watts[classes == name].tolist()) for name in shares} == {
        "phone": {3.6}, "laptop": {28.0}, "server": {365.0},
    }  # fmt: skip
    radio = costing.priced(scenario, rng, 1).radio[prices.TYPICAL]
    assert {name: bool(radio[classes == name].all()) for name in shares} == {
        "phone": True, "laptop": True, "server": False,
    }  # fmt: skip
    again = scenario.model_copy(update={"costs": Costs(country="US", device="jetson")})
    assert set(costing.priced(again, rng, 1).watts[prices.TYPICAL].tolist()) == {15.0}


def refused(plain):
    """Raise what is wrong with a scenario, when it is read or when it is checked."""
    if found := problems([*Scenario.model_validate(plain).points()]):
        raise ScenarioError(found)


@pytest.mark.parametrize(
    ("speed", "told"),
    [
        ({"classes": {"phone": 0.5, "laptop": 0.4}, "efficiency": 0.01}, "device classes add up to 0.9"),
        ({"classes": {"tablet": 1}, "efficiency": 0.01}, "'phone', 'laptop', 'jetson' or 'server'"),
        ({"classes": {"phone": 1}}, "Field required"),
    ],
)
def test_classes_that_make_no_fleet_are_refused(speed, told):
    with pytest.raises((ValueError, UserError), match=told):
        refused({**HAND, "clients": {"count": 3, "speed": speed}})


def test_every_edge_costs_as_much_as_a_server_and_peers_need_none(tmp_path):
    tree = {"name": "tree", "edges": 2, "uplink": "100 Mbit/s", "downlink": "100 Mbit/s", "latency": "5 ms"}
    topologies = {"hierarchical": tree, "gossip": {"name": "peers", "graph": "ring"}}
    found = {}
    for name, topology in topologies.items():
        protocol = {"name": name, "rounds": 2} | ({"participation": 1.0} if name == "hierarchical" else {})
        network = {**HAND["network"], "topology": topology}
        row, tables = ran(tmp_path / name, HAND, costs=FIGURES, protocol=protocol, network=network)
        found[name] = row, tables["costs"].set_index(["payer", "part"]), tables["transfers"]
    row, costs, moved = found["hierarchical"]
    assert costs["usd"]["server", "rent"] == pytest.approx(3 * 0.2 * row["sim_seconds"] / 3600, rel=1e-12)
    between = moved.query("src < 0 and dst < 0")["wire_bytes"].sum()
    by_clients = moved["wire_bytes"].sum() - between
    assert min(between, by_clients) > 0
    assert row["joules_network"] == pytest.approx(0.03 * KWH / GB * (by_clients + between), rel=1e-12)
    row, costs, moved = found["gossip"]
    assert [row[f"{quantity}_server"] for quantity in prices.QUANTITIES] == [0, 0, 0]
    assert row["joules_network"] == pytest.approx(2 * 0.03 * KWH / GB * moved["wire_bytes"].sum(), rel=1e-12)


def test_damage_to_the_table_of_costs_is_noticed(tmp_path):
    ran(tmp_path / "run", HAND, costs=FIGURES)
    (tmp_path / "run/row.json").write_text("{}")
    folders.write_sums(tmp_path / "run")
    assert folders.damaged(tmp_path / "run") == []
    (tmp_path / "run/costs.parquet").write_bytes(b"something else")
    assert folders.damaged(tmp_path / "run") == ["costs.parquet"]
    (tmp_path / "run/costs.parquet").unlink()
    assert folders.damaged(tmp_path / "run") == ["costs.parquet"]
