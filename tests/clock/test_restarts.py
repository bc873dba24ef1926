"""A server that restarts: what is cut, what is forgotten, what it falls back to, and that all of it is recorded."""

import pytest
import small_points
from fake_world import Number, check_books, lab, trip
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from whole_run_checks import check_books as check_tables
from whole_run_checks import check_clients, check_summary
from whole_runs import scenarios, see, with_files

from fedsim.clock.protocols.buffered import Buffered
from fedsim.clock.protocols.one_shot import OneShot
from fedsim.clock.protocols.sync import Sync
from fedsim.core.errors import ScenarioError
from fedsim.core.record import SERVER
from fedsim.net.effects.restart import Restart
from fedsim.point.checks import check
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

ROUND = trip(Number())  # seconds of one exchange, of which the work takes the second from 0.2 on


def told(here):
    """The rows of updates as (step, version, asked, folded, lost, staleness)."""
    return [(row.step, row.version, row.asked, row.folded, row.lost, row.staleness) for row in here.updates]


@pytest.mark.parametrize(("second", "moving"), [(0.05, SERVER), (0.9, None), (ROUND - 0.15, 0)])
def test_whatever_is_under_way_is_cut_and_nobody_is_asked_until_it_is_up(second, moving):
    here = lab(effects=[Restart(at=(second,), length=3.0)])
    assert here.run(Sync(rounds=2, clients=1))
    assert told(here) == [("restart", 0, 0, 0, 0, 0.0), ("train", 0, 1, 0, 1, 0.0), ("train", 1, 1, 1, 0, 0.0)]
    assert [row.time for row in here.updates] == pytest.approx([second, second, second + 3 + ROUND])
    cut = [row for row in here.transfers if row.fate in ("cut", "lost")]
    assert [(row.src, row.arrived) for row in cut] == ([] if moving is None else [(moving, second)])
    assert all(0 < row.wire_bytes < row.nbytes for row in cut)
    (down,) = [row for row in here.spans if row.what == "down"]
    assert (down.client, down.start, down.end) == (SERVER, second, second + 3)
    if moving is None:  # whoever is at work breaks off
        assert next(row.end for row in here.spans if row.what == "train") == second
    check_books(here)


def test_what_it_has_gathered_is_lost_with_it():
    here = lab(clients=2, speed=[1e7, 1e5], effects=[Restart(at=(5.0,), length=1.0)])
    here.run(Sync(rounds=1, clients=2))
    assert told(here) == [("restart", 0, 0, 0, 0, 0.0), ("train", 0, 2, 0, 2, 0.0)]
    assert here.fates() == {"delivered": 2, "discarded": 1}  # the fast one had replied
    assert here.state["model"] == 0.0
    check_books(here)


def test_an_update_that_it_computes_is_broken_off():
    here = lab(algorithm=Number(server_work=2e9), effects=[Restart(at=(ROUND + 0.5,), length=1.0)])
    here.run(Sync(rounds=2, clients=1))
    assert told(here) == [("restart", 0, 0, 0, 0, 0.0), ("train", 0, 1, 0, 1, 0.0), ("train", 1, 1, 1, 0, 0.0)]
    served = [row.end - row.start for row in here.spans if row.what == "serve"]
    assert served == pytest.approx([0.5, 2.0])
    assert here.state["model"] == 1.0
    check_books(here)


@pytest.mark.parametrize(("every", "kept"), [(1, 5), (2, 4), (3, 3), (7, 0)])
def test_it_falls_back_to_its_last_checkpoint_and_versions_go_on(every, kept):
    here = lab(effects=[Restart(at=(5.5 * ROUND,), length=1.0, checkpoint=every)])
    here.run(Sync(rounds=8, clients=1))
    assert [row.version for row in here.updates] == [1, 2, 3, 4, 5, 5, 5, 6, 7]
    assert told(here)[5] == ("restart", 5, 0, 0, 0, 5 - kept)
    assert here.state["model"] == kept + 2
    assert here.memory(0) == {"jobs": 7}  # clients forget nothing
    check_books(here)


def test_two_that_overlap_are_up_when_the_second_is_and_each_has_checkpoints_of_its_own():
    effects = [
        Restart(at=(4.5 * ROUND,), length=3.0, checkpoint=4),
        Restart(at=(4.5 * ROUND + 1,), length=3.0, checkpoint=3),
    ]
    here = lab(effects=effects)
    here.run(Sync(rounds=6, clients=1))
    assert [row for row in told(here) if row[0] == "restart"] == [
        ("restart", 4, 0, 0, 0, 0.0),
        ("restart", 4, 0, 0, 0, 1.0),
    ]
    (down,) = [row for row in here.spans if row.what == "down"]
    assert (down.start, down.end) == pytest.approx((4.5 * ROUND, 4.5 * ROUND + 4))
    assert here.updates[-1].time == pytest.approx(down.end + ROUND)
    assert here.state["model"] == 4.0


def test_a_round_of_several_steps_is_over():
    here = lab(algorithm=Number(exchanges=("look", "train")), effects=[Restart(at=(ROUND + 0.5,), length=1.0)])
    here.run(Sync(rounds=2, clients=1))
    assert [row.step for row in here.updates] == ["look", "restart", "train", "look", "train"]
    here = lab(algorithm=Number(exchanges=("look", "train")), effects=[Restart(at=(0.5,), length=1.0)])
    here.run(Sync(rounds=2, clients=1))
    assert [row.step for row in here.updates] == ["restart", "look", "look", "train"]


def test_its_buffer_is_empty_afterwards():
    here = lab(clients=3, speed=[1e7, 1e6, 1e5], effects=[Restart(at=(0.8,), length=1.0)])
    here.run(Buffered(rounds=1, clients=3, buffer=2))
    first, update = here.updates
    assert (first.step, update.folded) == ("restart", 2)
    assert update.time > 1.8 + ROUND - 1  # nothing of before is in it
    assert here.fates()["discarded"] >= 1
    check_books(here)


@pytest.mark.parametrize(("retry", "folded"), [(False, 0), (True, 2)])
def test_one_shot_asks_again_those_whose_replies_were_lost_if_it_asks_the_lost_again(retry, folded):
    here = lab(clients=2, speed=[1e7, 5e5], effects=[Restart(at=(2.0,), length=1.0)])
    assert here.run(OneShot(retry=retry))
    assert here.updates[-1].folded == folded
    assert sum(row.lost for row in here.updates) == 2
    check_books(here)


def test_edges_go_on_while_the_cloud_restarts_and_what_they_bring_is_lost(tmp_path):
    tree = {"name": "tree", "edges": 2, "uplink": "50 Mbit/s", "downlink": "50 Mbit/s", "latency": "5 ms"}
    row = small_points.run_in(
        tmp_path / "run", network__topology=tree,
        protocol={"name": "hierarchical", "rounds": 3, "edge_rounds": 2, "participation": 1.0},
        network__effects=[{"name": "restart", "at": ["0.6 s"], "length": "100 ms"}],
    )  # fmt: skip
    first, lost, *others = small_points.table(tmp_path / "run", "updates")
    assert (first["step"], first["time"]) == ("restart", 0.6)
    assert (lost["folded"], lost["version"], lost["late"]) == (0, 0, 0)
    assert lost["lost"] == lost["asked"] == others[0]["asked"] > 0
    assert row["updates"] == len(others) == 2
    transfers = small_points.table(tmp_path / "run", "transfers")
    assert {r["fate"] for r in transfers if r["src"] < SERVER or r["dst"] < SERVER} == {"delivered"}


def test_a_score_after_a_restart_is_that_of_the_restored_state(tmp_path):
    # Updates come at about 0.6, 1.3, 1.9 s; the server falls back from the third to the second.
    options = {"measure__every": "100 ms", "data__stream": "static", "protocol": {**small_points.SYNC, "rounds": 5}}
    small_points.run_in(tmp_path / "plain", **options)
    updates = small_points.table(tmp_path / "plain", "updates")
    second = (updates[2]["time"] + updates[3]["time"]) / 2
    effect = {"name": "restart", "at": [f"{second!r} s"], "length": "1 s", "checkpoint": 2}
    small_points.run_in(tmp_path / "run", **options, network__effects=[effect])
    row = next(r for r in small_points.table(tmp_path / "run", "updates") if r["step"] == "restart")
    assert (row["version"], row["staleness"]) == (3, 1.0)
    plain, run = (
        [r for r in small_points.table(tmp_path / name, "scores") if r["model"] == "global"]
        for name in ("plain", "run")
    )
    values = {version: scored(plain, lambda r, v=version: r["version"] == v) for version in (2, 3)}
    assert values[2] != values[3]
    assert scored(run, lambda r: r["version"] == 3 and r["time"] < second) == values[3]
    assert scored(run, lambda r: r["version"] == 3 and second < r["time"] < second + 1) == values[2]


def scored(rows, which):
    """The values of the earliest scores that are meant, by what was scored."""
    rows = [row for row in rows if which(row)]
    first = min(row["time"] for row in rows)
    names = ("client", "period", "split", "metric")
    return {tuple(row[name] for name in names): row["value"] for row in rows if row["time"] == first}


RESTARTS = [
    {"name": "restart", "every": "3 s", "length": "500 ms", "checkpoint": 2},
    {"name": "restart", "at": ["1 s", "2500 ms"], "length": "1 s"},
]


@pytest.mark.long
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    plain=scenarios(("sync", "deadline", "buffered", "one_shot", "hierarchical", "replay")),
    restart=st.sampled_from(RESTARTS),
)  # fmt: skip
def test_the_books_balance_and_seeds_decide(plain, restart, tmp_path_factory):
    folder = with_files(tmp_path_factory.mktemp("whole"))
    plain["network"]["effects"].append(restart)
    seen = see(plain, folder, summed=True)
    check_tables(seen)
    check_summary(seen)
    check_clients(seen)
    down = [(span.start, span.end) for span in seen.rows("spans") if span.what == "down"]
    for row in seen.rows("transfers"):
        if SERVER in (row.src, row.dst) and row.fate in ("delivered", "late", "discarded"):
            assert not any(start < row.arrived < end or row.sent < start < row.arrived for start, end in down)
    assert see(plain, folder).files == seen.files


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"network__topology": {"name": "peers", "graph": "ring"}, "protocol": {"name": "gossip", "rounds": 2}},
            "peers has no server",
        ),
        (
            {"protocol": {"name": "isolated", "rounds": 2, "clients": 2}},
            "under 'isolated' clients neither send nor receive any; leave it out",
        ),
    ],
)
def test_where_there_is_no_server_to_restart_it_is_refused(changes, told):
    point = small_points.point(**changes, network__effects=[RESTARTS[0]])
    (problem,) = check.points([point])
    assert problem.key == "network.effects.0"
    assert told in problem.message


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "give either 'every'"),
        ({"every": "5 s", "at": ["1 s"]}, "give either 'every'"),
        ({"every": 0}, "every: 0: must be more than 0"),
        ({"every": "5 s", "length": 0}, "length: 0: must be more than 0"),
        ({"at": []}, "must be ascending"),
        ({"at": ["3 s", "2 s"]}, "must be ascending"),
        ({"at": ["-1 s"]}, "zero or more"),
        ({"at": ["1 s", "1.5 s"]}, "further apart"),
        ({"every": "5 s", "checkpoint": 0}, "checkpoint"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, told):
    with pytest.raises(ScenarioError, match=told):
        find.build("effect", Part(name="restart", options={"length": "1 s", **options}))
