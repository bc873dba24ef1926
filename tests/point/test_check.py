"""What can only be told where the parts of a scenario meet, told before the run and in a dry run alike."""

import re
import subprocess
import sys

import pytest

from fedsim.point.checks import check
from fedsim.scenario.text import yaml_file

SIX = """
name: six
clients: {count: 6, speed: 1 GFLOP/s}
network: {latency: 50 ms, uplink: 1 Mbit/s, downlink: 10 Mbit/s, server: {ingress: 1 Gbit/s}}
protocol: {name: sync, rounds: 1, participation: 0.5}
algorithm: {name: traffic, down: 1 kB, up: 1 kB}
"""
TABLES = {
    "online.csv": "client,on_s,off_s\n0,0,1\n9,0,1\n",
    "rates.csv": "client,time_s,uplink_mbps\n9,0,1\n",
    "odds.csv": "client,rate\n9,0.5\n",
    "never.csv": "client,rate\n" + "".join(f"{client},0\n" for client in range(6)),
    "apart.csv": "a,b\n0,1\n2,3\n",
    "far.csv": "a,b\n0,9\n",
    "moved.csv": "start_s,client,direction,bytes\n0,0,up,1\n",
    "strangers.csv": "start_s,client,direction,bytes\n0,0,up,1\n1,6,up,1\n",
    "semicolons.csv": "start_s;client;direction;bytes\n0;0;up;1\n",
}
TREE = "{name: tree, edges: 9, uplink: 5 Mbit/s, downlink: 5 Mbit/s, latency: 10 ms}"
GOSSIP = "protocol={name: gossip, rounds: 1}"


@pytest.fixture
def problems(tmp_path):
    """Return what is wrong with the six clients' scenario under flags, as texts, without and with what needs torch."""

    def look(*flags):
        for name, text in TABLES.items():
            (tmp_path / name).write_text(text)
        (tmp_path / "six.yaml").write_text(SIX)
        points = [*yaml_file.load(tmp_path / "six.yaml", flags)[0].points()]
        dry, whole = ([str(problem) for problem in check.points(points, whole)] for whole in (False, True))
        assert dry == whole
        return dry

    return look


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["network.effects=[loss, {name: churn, table: online.csv}]"], "network.effects.1: .*online.csv, line 3: "),
        (["network.effects=[{name: trace, rates: rates.csv}]"], "network.effects.0: .*rates.csv, line 2: "),
        (["network.effects=[{name: congestion, link: egress, load: 0.5}]"], "network.effects.0: .*'egress' is unlim"),
        (["network.effects=[{name: congestion, link: ingres, load: 0.5}]"], "network.effects.0: .*mean 'ingress'"),
        (["network.model=naive", "network.effects=[{name: congestion, load: 0.5}]"], "network.effects.0: .*naive"),
        (["clients.sampler={name: rates, table: odds.csv}"], "clients.sampler: .*odds.csv lists client 9"),
        (["clients.sampler={name: rates, table: never.csv}"], "clients.sampler: no client would ever be asked"),
        ([f"network.topology={TREE}"], "network.topology.edges: there are 9 edges for 6 clients"),
        ([GOSSIP, "network.topology={name: peers, graph: apart.csv}"], "network.topology: .*apart.csv.* not connected"),
        ([GOSSIP, "network.topology={name: peers, graph: far.csv}"], "network.topology: .*far.csv, line 2: "),
        ([GOSSIP, "network.topology={name: peers, graph: ring, degree: 10}"], "network.topology.degree: 10 is too"),
        ([GOSSIP], "protocol: 'gossip' needs clients that have neighbours"),
        (["protocol={name: hierarchical, rounds: 1, clients: 1}"], "protocol: 'hierarchical' needs edge aggregators"),
        (["network.topology={name: peers, graph: ring}"], "protocol: 'sync' needs a server"),
        (["clients.speed=null"], "clients.speed: is missing"),
        (["algorithm=null"], "algorithm: is missing, and the protocol 'sync' asks"),
        (["algorithm=null", "protocol={name: replay, transfers: semicolons.csv}"], "protocol: .*csv, line 1: .*';'"),
        (
            ["algorithm=null", "protocol={name: replay, transfers: strangers.csv}"],
            r"protocol: .*strangers\.csv, line 3: client 6: there are 6 clients",
        ),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_reported_by_their_key(problems, flags, message):
    (only,) = problems(*flags)
    assert re.match(message, only)


def test_a_replay_needs_a_server_but_neither_speed_nor_algorithm(problems):
    replay = ["algorithm=null", "clients.speed=null", "protocol={name: replay, transfers: moved.csv}"]
    assert problems(*replay) == []
    assert problems(*replay, "network.topology={name: peers, graph: ring}")[0].startswith("protocol: 'replay' needs a")


def test_the_value_of_the_grid_that_does_not_fit_is_named(problems):
    moved, strangers = ("{name: replay, transfers: " + name + "}" for name in ("moved.csv", "strangers.csv"))
    (only,) = problems("algorithm=null", f"grid.protocol=[{moved}, {strangers}]")
    assert only.startswith("grid.protocol.1: ")
    effects = "network.effects=[{name: congestion, load: 0.5}]"
    assert problems(effects, "grid.network.server.ingress=[1 Mbit/s, 2 Mbit/s]") == []
    (only,) = problems("grid.protocol=[{name: sync, rounds: 1, clients: 2}, {name: gossip, rounds: 1}]")
    assert only.startswith("grid.protocol.1: 'gossip'")


def test_a_check_without_the_algorithm_loads_no_torch(tmp_path):
    (tmp_path / "six.yaml").write_text(SIX)
    command = [sys.executable, "-X", "importtime", "-m", "fedsim", "six.yaml", "--dry-run"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    assert "fedsim.net.network" in told
    assert "torch" not in told


IMPORTS = (
    "from dataclasses import dataclass\nfrom fedsim.{module} import {base}\n@dataclass{frozen}\nclass Mine({base}):\n"
)
CHOOSE = "    def choose(self, free, count, columns, rng):\n        return free[{what}]\n"
RETURN = "    def choose(self, free, count, columns, rng):\n        return {what}\n"
FREE = "Mine.choose must return at most 3 of the 6 clients `free`, as an ascending array, not "
HOOKS = "shape, drive, stay, forge"


@pytest.mark.parametrize(
    ("kind", "frozen", "body", "message"),
    [
        ("effect", "(frozen=True)", "    pass\n", f"effects.0: does nothing: override one or more of {HOOKS} (FILE)"),
        ("effect", "", "    def stay(self, rng):\n        return 1.0\n", "write @dataclass(frozen=True) before Mine"),
        ("sampler", "(frozen=True)", CHOOSE.format(what="rng.lucky()"), "has no attribute 'lucky' (FILE, line 6)"),
        ("sampler", "(frozen=True)", CHOOSE.format(what="columns.statistics.asked == 0"),
         "statistics.asked needs `observes = True` in the sampler's class (FILE, line 6)"),
        ("sampler", None, "    share: float = 0.5\n" + RETURN.format(what="free"), "(frozen=True) before Mine"),
        ("sampler", "(frozen=True)", RETURN.format(what="None"), FREE + "None"),
        ("sampler", "(frozen=True)", RETURN.format(what="[0, 1]"), FREE + "[0, 1]"),
        ("sampler", "(frozen=True)", RETURN.format(what="free"), FREE + "array([0, 1, 2, 3, 4, 5])"),
        ("sampler", "(frozen=True)", RETURN.format(what="free[:count][::-1]"), FREE + "array([2, 1, 0])"),
        ("sampler", "(frozen=True)", RETURN.format(what="free[[0, 0]]"), FREE + "array([0, 0])"),
        ("sampler", "(frozen=True)", RETURN.format(what="free[:1] + 99"), FREE + "array([99])"),
    ],
    ids=["no hook", "not frozen", "an error", "not observing", "no dataclass", "nothing", "a list", "too many",
         "descending", "twice", "unknown"],
)  # fmt: skip
def test_a_mistake_in_ones_own_part_is_told_with_its_file(problems, tmp_path, monkeypatch, kind, frozen, body, message):
    module = {"effect": "net.effect", "sampler": "clock.sampler"}[kind]
    (tmp_path / f"{kind}s").mkdir()
    file = tmp_path / f"{kind}s" / "mine.py"
    head = IMPORTS if frozen is not None else IMPORTS.replace("@dataclass{frozen}\n", "")
    file.write_text(head.format(module=module, base=kind.capitalize(), frozen=frozen) + body)
    monkeypatch.syspath_prepend(tmp_path)
    flag = {"effect": "network.effects=[mine]", "sampler": "clients.sampler=mine"}[kind]
    (problem,) = problems(flag)
    assert problem.endswith(message.replace("FILE", str(file)))
