"""Populations: measured links in scenarios, countries of tables and mixes, and mistakes named by key."""

import numpy as np
import pytest

from fedsim.core.errors import UserError
from fedsim.core.seeds import Streams
from fedsim.net.measurements import measured
from fedsim.point.build import fleet
from fedsim.point.checks import check
from fedsim.scenario.text import yaml_file


@pytest.fixture
def load(tmp_path):
    def made(profile, clients="{count: 200, speed: 1 GFLOP/s}", table=None, more=""):
        lines = ["name: small", "protocol: {name: sync, rounds: 1, participation: 1.0}", f"clients: {clients}"]
        lines += ["algorithm: {name: traffic, down: 1 kB, up: 1 kB}", f"network: {{profile: {profile}{more}}}"]
        if table is not None:
            (tmp_path / "clients.csv").write_text(table)
        (tmp_path / "small.yaml").write_text("\n".join(lines))
        return yaml_file.load(tmp_path / "small.yaml")[0]

    return made


def test_a_table_wins_over_the_countries_of_the_scenario_and_keys_over_the_draws(load):
    us = fleet.rows(load("{measured: {country: US}}"), Streams(3))
    clients = "{count: 200, speed: 1 GFLOP/s, table: clients.csv}"
    table = "client,country,uplink_mbps\n5,NO,\n7,,3\n8,IN,4\n"
    found = fleet.rows(load("{measured: {country: US}}", clients, table, ", downlink: 9 Mbit/s"), Streams(3))
    assert set(found["downlink"]) == {9e6}
    assert np.flatnonzero(found["uplink"] != us["uplink"]).tolist() == [5, 7, 8]
    assert found["uplink"][[7, 8]].tolist() == [3e6, 4e6]
    assert np.flatnonzero(found["latency"] != us["latency"]).tolist() == [5, 8]


def test_a_mix_of_countries_takes_shares_and_reads_back(load):
    scenario = load("{measured: {countries: {US: 50 %, NO: 0.5}, floor: null}}")
    assert type(scenario).model_validate(scenario.plain()) == scenario
    mixed = fleet.rows(scenario, Streams(0))
    alone = {
        code: fleet.rows(load(f"{{measured: {{country: {code}, floor: null}}}}"), Streams(0)) for code in ("US", "NO")
    }
    assert [(mixed["uplink"] == rows["uplink"]).sum() for rows in alone.values()] == [100, 100]


BAD = [
    ("{measured: {country: UK}}", "country", "did you mean 'GB'"),
    ("{measured: {countries: {US: 0.5, QQ: 0.5}}}", "countries.QQ", "those with Q are QA"),
    ("{measured: {countries: {US: 0.5, IN: 0.4}}}", "countries", "add up to 0.9"),
    ("{measured: {}}", "", "give 'country: US'"),
    ("{measured: {country: US, countries: {US: 1}}}", "", "keep one"),
    ("{measured: {country: US, floor: 2 Gbit/s}}", "floor", "take a lower floor"),
    ("{measured: {country: US, down_up: -0.5, rates_rtt: -0.9}}", "", "contradict"),
]


@pytest.mark.parametrize(("profile", "key", "words"), BAD)
def test_a_mistake_names_the_key(load, profile, key, words):
    problems = check.points([*load(profile).points()])
    assert [problem.key for problem in problems] == [f"network.profile.measured.{key}".rstrip(".")]
    assert words in problems[0].message


@pytest.mark.parametrize(
    ("table", "key", "words"),
    [
        (
            "client,country,gflops\n0,US,1\n1,UK,1\n",
            "clients.table",
            "line 3: column 'country': no links were measured",
        ),
        ("client,country,gflops\n0,US,1\n1,,1\n", "network.profile.measured", "has none for client 1"),
    ],
)
def test_a_table_needs_countries_that_are_known(load, table, key, words):
    problems = check.points([*load("{measured: {}}", "{table: clients.csv}", table).points()])
    assert [problem.key for problem in problems] == [key]
    assert words in problems[0].message


def test_keys_that_do_not_exist_are_refused_with_those_that_do(load):
    with pytest.raises(UserError, match=r"network\.profile\.measured\.contry: there is no such key.*'country'"):
        load("{measured: {contry: US}}")


def test_phones_have_the_level_asked_for_and_mistakes_name_the_key(load):
    slow, fast = (
        fleet.rows(load("lte", f"{{count: 50, speed: {{measured: phones, level: {level} GFLOP/s}}}}"), Streams(0))
        for level in (2, 4)
    )
    assert np.allclose(fast["speed"], 2 * slow["speed"], rtol=1e-12)
    assert len(set(slow["speed"])) > 40
    scenario = load("lte", "{count: 5, speed: {measured: phones, level: 2 GFLOP/s}}")
    assert type(scenario).model_validate(scenario.plain()) == scenario
    with pytest.raises(UserError, match=r"clients\.speed\.level: is missing"):
        load("lte", "{count: 5, speed: {measured: phones}}")
    with pytest.raises(UserError, match=r"clients\.speed\.measured: 'fones' is not one of 'phones'"):
        load("lte", "{count: 5, speed: {measured: fones, level: 2 GFLOP/s}}")
    with pytest.raises(UserError, match=r"clients\.speed: 5 has no unit"):
        load("lte", "{count: 5, speed: 5}")


def test_explain_shows_the_population_and_an_unknown_country_exits_with_2(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    said = ["--explain", "--set", "network.profile={measured: {country: US}}"]
    for key in ("latency", "uplink", "downlink"):
        said += ["--set", f"network.{key}=null"]
    code, out, _ = call("scenario.yaml", *said)
    assert code == 0
    assert "links       down " in out
    assert "(p5 / p25 / p50 / p75 / p95 of the clients drawn)" in out
    code, _, told = call("scenario.yaml", "--dry-run", "--set", "network.profile={measured: {country: UK}}")
    assert (code, told.count("did you mean 'GB'?")) == (2, 1)
    assert "network.profile.measured.country" in told


def test_every_table_is_sound():
    for code in measured.countries():
        links = measured.links(code)
        for logs in (links.down, links.up, links.rtt):
            assert len(logs) == 9
            assert (np.diff(logs) >= 0).all()
