"""Groups of clients in scenarios: where they live, what they hold, and what is refused with its key."""

import numpy as np
import pytest

from fedsim.core.errors import UserError
from fedsim.point.build.parts import Parts
from fedsim.point.checks import check
from fedsim.scenario.text import yaml_file
from fedsim.sweep.simulation import simulate

LEARNS = """\
data: {dataset: {name: synthetic, nodes: 300, classes: 3}, partition: {name: label_skew, majors: 1, share: 0.9}}
model: {name: gcn, hidden: 4}
training: {optimiser: sgd, lr: 0.1}
algorithm: fedavg
"""
TRAFFIC = "algorithm: {name: traffic, down: 1 kB, up: 1 kB}\n"


@pytest.fixture
def load(tmp_path):
    def made(effect, more=TRAFFIC, network="profile: lte", clients="{count: 30, speed: 1 GFLOP/s}", table=None):
        if table:
            (tmp_path / "clients.csv").write_text(table)
        lines = f"name: tied\nprotocol: {{name: sync, rounds: 8, participation: 1.0}}\nclients: {clients}\n"
        lines += f"network: {{{network}, effects: [{effect}]}}\nmeasure: {{until: 2 d}}\n{more}"
        (tmp_path / "tied.yaml").write_text(lines)
        return yaml_file.load(tmp_path / "tied.yaml")[0]

    return made


@pytest.mark.parametrize(
    ("effect", "more", "key", "words"),
    [
        ("{name: nights, groups: labels}", TRAFFIC, ".groups", "needs an algorithm that learns"),
        ("{name: nights, groups: labels}", LEARNS + TRAFFIC, ".groups", "needs an algorithm that learns"),
        ("{name: nights, groups: country}", TRAFFIC, "", "or a column 'country' in clients.table"),
        ("{name: outage, length: 1 h, at: [1 h], groups: country, country: FR}", TRAFFIC, "", "needs the clients'"),
        ("{name: nights, strength: 0.5}", TRAFFIC, "", "is about groups"),
        ("{name: nights, groups: label}", TRAFFIC, ".groups", "'labels'"),
    ],
)
def test_a_mistake_names_the_effect(load, effect, more, key, words):
    more = more.replace("algorithm: fedavg\n", "") if more.count("algorithm:") == 2 else more
    problems = check.points([*load(effect, more).points()], whole=True)
    assert [problem.key for problem in problems] == [f"network.effects.0{key}"]
    assert words in problems[0].message


def test_countries_come_from_the_table_then_from_the_measured_links(load):
    table = "client,country\n3,NP\n"
    clients = "{count: 30, speed: 1 GFLOP/s, table: clients.csv}"
    mixed = Parts(load("nights", network="profile: {measured: {countries: {US: 0.5, IN: 0.5}}}"))
    listed = Parts(load("nights", network="profile: lte", clients=clients, table=table))
    assert sorted(set(mixed.countries)) == ["IN", "US"]
    assert (mixed.countries == "US").sum() == 15
    assert np.flatnonzero(listed.countries == "NP").tolist() == [3]
    assert (listed.countries == "").sum() == 29
    assert check.points([*load("{name: nights, groups: country}", clients=clients, table=table).points()]) == []


def test_clients_of_the_same_labels_are_offline_at_the_same_times_in_a_run(load, tmp_path):
    effect = "{name: outage, at: [1 h], length: 1 h, cut: true, groups: labels, classes: [2], holding: 0.6}"
    slow = "profile: lte, transport: {name: flower_supernodes, poll: 30 min}"
    scenario = load(effect, LEARNS, slow)
    made = simulate(scenario, out=tmp_path / "out")
    spans = made.spans[made.spans["what"] == "offline"]
    assert len(set(spans["start"])) == len(set(spans["end"])) == 1
    assert 5 <= len(spans) <= 15


def test_labels_that_the_data_do_not_have_are_refused_with_those_they_have(load, tmp_path):
    scenario = load("{name: nights, groups: labels, classes: [7]}", LEARNS)
    with pytest.raises(
        UserError, match=r"network\.effects\.0: nights: there is no class 7 in 'classes'; they go from 0 to 2"
    ):
        simulate(scenario, out=tmp_path / "out")
