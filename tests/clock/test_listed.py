"""Cohorts from a list: who is asked in each round, and lists that do not fit."""

import re

import numpy as np
import pytest

from fedsim import __main__ as command_line
from fedsim.clock.sampler import Cohorts
from fedsim.clock.samplers.listed import Listed
from fedsim.core.errors import UserError
from fedsim.core.record import Recorder
from fedsim.point.build.assemble import build
from fedsim.scenario.text import yaml_file

TEXT = """
name: listed
clients: {{count: 4, speed: 1 GFLOP/s, sampler: {{name: listed, file: cohorts.csv{more}}}}}
network: {{latency: 10 ms, uplink: 8 Mbit/s, downlink: 8 Mbit/s{effects}}}
protocol: {protocol}
algorithm: {{name: traffic, down: 1 kB, up: 1 kB, operations: 1e9}}
"""
SYNC = "{name: sync, rounds: 3, clients: 2}"
LIST = "round,client\n1,3\n1,0\n3,2\n2,1\n2,3\n"  # {0, 3}, {1, 3}, {2}; each ask takes a bit more than 1 s


def written(folder, table=LIST, protocol=SYNC, more="", effects=""):
    (folder / "cohorts.csv").write_text(table)
    (folder / "offline.csv").write_text("client,on_s,off_s\n3,0,0.5\n3,2,\n")
    path = folder / "listed.yaml"
    path.write_text(TEXT.format(protocol=protocol, more=more, effects=effects))
    return path


def asked(path):
    """The clients asked in each round, and when it began."""
    scenario, _ = yaml_file.load(path, [])
    recorder = Recorder()
    built = build(next(iter(scenario.points())).scenario, path.parent, recorder)
    built.world.env.run(until=built.done)
    built.world.end()
    moved = recorder.tables()["transfers"].to_pandas()
    return {time: set(rows["dst"]) for time, rows in moved[moved["src"] == -1].groupby("sent")}


@pytest.mark.parametrize(
    ("protocol", "more", "cohorts"),
    [
        (SYNC, "", [{0, 3}, {1, 3}, {2}]),
        ("{name: sync, rounds: 5, clients: 2}", ", repeat: true", [{0, 3}, {1, 3}, {2}, {0, 3}, {1, 3}]),
        (
            "{name: deadline, rounds: 3, clients: 1, over: 2, wait: 500 ms}",
            "",
            [{0, 3}, {1}, {2}],
        ),  # 3 is still at work
        ("{name: one_shot, clients: 2}", "", [{0, 3}]),
    ],
)
def test_each_round_asks_those_of_its_cohort_that_are_free(tmp_path, protocol, more, cohorts):
    assert [*asked(written(tmp_path, protocol=protocol, more=more)).values()] == cohorts


def test_a_round_without_anybody_of_its_cohort_waits_for_the_first(tmp_path):
    """Client 3 is offline from 0.5 to 2 s, and lost to its first round."""
    effects = ", effects: [{name: churn, table: offline.csv, unlisted: online}]"
    found = asked(written(tmp_path, "round,client\n1,3\n2,3\n3,0\n", effects=effects))
    assert [*found.values()] == [{3}, {3}, {0}]
    assert [*found][:2] == [0.0, 2.0]


@pytest.mark.parametrize(
    ("table", "protocol", "more", "message"),
    [
        (LIST + "3,4\n", SYNC, "", r"cohorts\.csv, line 7: client 4: there are 4, numbered from 0"),
        (LIST + "5,0\n", SYNC, "", r"cohorts\.csv, line 7: round 5, and there is no round 4: number them from 1"),
        ("round,client\n2,0\n", SYNC, "", r"cohorts\.csv, line 2: round 2, and there is no round 1"),
        ("round,client\n0,0\n", SYNC, "", r"cohorts\.csv, line 2: column .round."),
        (LIST + "1,3\n", SYNC, "", r"cohorts\.csv, line 7: client 3 is in line 2 too, in round 1; keep one"),
        (LIST + "2,0\n", SYNC, "", r"cohorts\.csv, line 7: round 2 has 3 clients, and the protocol asks 2 at most"),
        (LIST, SYNC.replace("3", "9"), "", r"cohorts\.csv ends with round 3, and the protocol has 9: .*repeat: true"),
        (LIST, SYNC.replace("}", ", least: 2}"), "", "leave 'least' out"),
        (LIST, "{name: buffered, rounds: 3, clients: 2, buffer: 1}", "", "draws no cohort for a round: take sync"),
    ],
)
def test_a_list_that_does_not_fit_is_refused_before_the_run(tmp_path, capsys, table, protocol, more, message):
    path = written(tmp_path, table, protocol, more)
    assert command_line.main([str(path), "--dry-run"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert told.count("fedsim: ") == 1
    assert "line 3: clients.sampler: " in told
    assert re.search(message, told), told


def test_nothing_is_drawn_and_no_round_is_made_up(tmp_path):
    written(tmp_path)
    chooser, rng = Listed(tmp_path / "cohorts.csv"), np.random.default_rng(0)

    class Columns:
        cohorts = 1

    assert chooser.choose(np.arange(4), 2, Columns(), rng).tolist() == [1, 3]
    assert chooser.choose(np.array([0, 3]), 2, Columns(), rng).tolist() == [3]
    assert rng.random() == np.random.default_rng(0).random()
    chooser.suits(4, Cohorts(2, 2))  # a list may be longer than the run
    Columns.cohorts = 3
    with pytest.raises(UserError, match="has no round 4"):
        chooser.choose(np.arange(4), 2, Columns(), rng)
