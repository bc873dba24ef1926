"""Everybody alone: nothing travels, each state is its client's own, and the books are those of synchronous rounds."""

from dataclasses import dataclass

import pytest
import small_points
from fake_links import complete
from fake_pull import Pull
from fake_world import Number, Period, Silent, check_books, lab
from hypothesis import given, settings
from hypothesis import strategies as st
from small_points import PLAIN

from fedsim.clock.protocols.isolated import Isolated
from fedsim.clock.protocols.sync import Sync
from fedsim.core.errors import ScenarioError
from fedsim.net.effects.dropout import Dropout
from fedsim.net.topologies.peers import Peers
from fedsim.net.topologies.star import Star
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

# ---- when, and who


def models(here):
    return [state["model"] for state in here.states()]


def test_every_client_goes_its_own_way_and_nothing_travels():
    here = lab(clients=4, algorithm=Pull())
    assert here.run(Isolated(rounds=3, participation=1.0))
    assert models(here) == [(client + 1) * (1 - 0.5**3) for client in range(4)]
    assert here.transfers == here.moved == []
    assert here.state == {"model": 0.0, "clients": ()}
    check_books(here)


def test_a_client_does_not_notice_whether_there_are_others():
    alone, among = (lab(clients=count, algorithm=Number(server_work=3e5)) for count in (1, 5))
    for here in (alone, among):
        here.run(Isolated(rounds=4, participation=1.0))
    assert among.states()[0] == alone.states()[0]
    assert [span for span in among.spans if span.client == 0] == alone.spans


def test_a_round_takes_the_slowest_clients_work_and_the_servers_work_at_its_own_speed():
    here = lab(clients=3, speed=[1e6, 4e6, 5e5], algorithm=Number(server_work=2e5))
    here.run(Isolated(rounds=2, clients=3))
    assert [row.time for row in here.updates] == pytest.approx([2.4, 4.8])
    assert [(row.asked, row.folded, row.version, row.staleness) for row in here.updates] == [
        (3, 3, 1, 0.0),
        (3, 3, 2, 0.0),
    ]
    first = {(span.client, span.what): (span.start, span.end) for span in here.spans if span.end < 2.5}
    assert first[2, "train"] == pytest.approx((0, 2.0))
    assert first[2, "mix"] == pytest.approx((2.0, 2.4))
    assert first[1, "mix"] == pytest.approx((0.25, 0.3))


def test_the_cohorts_are_those_of_synchronous_rounds():
    cohorts = []
    for protocol in (Isolated(rounds=6, clients=2), Sync(rounds=6, clients=2)):
        here = lab(clients=6, algorithm=Silent())
        here.run(protocol)
        cohorts.append([(span.start, span.client) for span in here.spans if span.what == "train"])
    assert cohorts[0] == cohorts[1]


def test_who_sleeps_in_mid_work_is_lost_and_its_state_stays():
    here = lab(clients=2, algorithm=Pull())
    here.at(1.5, here.nodes.sleep, 1)
    here.at(1.7, here.nodes.wake, 1)
    assert here.run(Isolated(rounds=3, clients=2))
    assert [(row.asked, row.folded, row.lost, row.late) for row in here.updates] == [
        (2, 2, 0, 0),
        (2, 1, 1, 0),
        (2, 2, 0, 0),
    ]
    assert models(here) == [1 - 0.5**3, 2 * (1 - 0.5**2)]
    assert here.memory(1) == {"jobs": 2}


def test_who_sleeps_while_folding_is_lost_too():
    here = lab(clients=2, algorithm=Number(server_work=1e6))
    here.at(1.5, here.nodes.sleep, 1)
    assert here.run(Isolated(rounds=1, clients=2))
    assert [(row.folded, row.lost) for row in here.updates] == [(1, 1)]
    assert models(here) == [1.0, 0.0]
    assert [(span.client, span.end) for span in here.spans if span.what == "mix"] == [(1, 1.5), (0, 2.0)]


def test_a_round_that_all_are_lost_from_is_noted_and_no_version():
    here = lab(clients=2)
    for client in (0, 1):
        here.at(0.5, here.nodes.sleep, client)
        here.at(4.0, here.nodes.wake, client)
    assert here.run(Isolated(rounds=2, clients=2))
    assert [(row.asked, row.folded, row.lost, row.version) for row in here.updates[:1]] == [(2, 0, 2, 0)]
    assert here.updates[1].version == 1


def test_a_round_begins_as_soon_as_somebody_is_there():
    here = lab(clients=2)
    here.world.clients.has_data[:] = False
    here.at(3.0, here.world.deliver, 1, Period())
    assert here.run(Isolated(rounds=1, clients=2))
    assert [(span.client, span.start) for span in here.spans if span.what == "train"] == [(1, 3.0)]


# ---- several steps


@dataclass(frozen=True, eq=False)
class Looks(Number):
    """Looks as often as its client's number before its first training."""

    def more(self, state, step):
        (client,) = state["clients"][-1]
        return ("look",) if step == "look" and state["clients"].count((client,)) < client else ()

    def steps(self, state):
        return ("train",) if state["model"] else ("look", "train")


def test_clients_with_more_steps_to_go_are_waited_for():
    here = lab(clients=4, algorithm=Looks())
    here.run(Isolated(rounds=2, clients=4))
    told = [(row.step, row.folded) for row in here.updates]
    assert told == [("look", 4), ("look", 2), ("look", 1), ("train", 4), ("train", 4)]
    assert models(here) == [3.0, 3.0, 4.0, 5.0]
    check_books(here)


def test_every_step_of_a_round_is_an_update_of_its_own():
    alone, served = (lab(clients=1, algorithm=Number(exchanges=("look", "train"))) for _ in range(2))
    alone.run(Isolated(rounds=3, clients=1))
    served.run(Sync(rounds=3, clients=1))
    told = [[(row.version, row.step, row.folded) for row in here.updates] for here in (alone, served)]
    assert told[0] == told[1]
    assert alone.states()[0] == served.state


def test_an_algorithm_without_steps_does_nothing():
    here = lab(algorithm=Number(exchanges=()))
    assert here.run(Isolated(rounds=4, clients=1))
    assert here.rows == []


# ---- what fits, and how far it is


def test_any_network_and_any_algorithm_will_do():
    for algorithm in (Number(), Silent()):
        for topology in (Star(), Peers(graph="ring")):
            assert Isolated(rounds=1, clients=1).refuse(algorithm, topology) is None
    here = lab(clients=3, algorithm=Pull(), links=complete(3))
    assert here.run(Isolated(rounds=1, clients=3))
    assert here.moved == []


@pytest.mark.parametrize("options", [{"rounds": 0, "clients": 1}, {"rounds": 1}, {"rounds": 1, "participation": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ScenarioError, match="protocol"):
        find.build("protocol", Part(name="isolated", options=options))


def test_the_progress_is_the_share_of_rounds_begun():
    protocol, here, seen = Isolated(rounds=4, clients=1), lab(), []
    done = here.env.process(protocol.run(here.world))
    while not done.processed:
        here.env.step()
        seen.append(protocol.share(here.world))
    assert seen == sorted(seen)
    assert {0.25, 0.5, 0.75, 1.0} <= set(seen) <= {0.0, 0.25, 0.5, 0.75, 1.0}


disturbances = st.lists(
    st.tuples(st.floats(0, 12), st.integers(0, 4), st.sampled_from(["sleep", "wake", "leave"])), max_size=15
)


@settings(max_examples=40, deadline=None)
@given(disturbances, st.integers(1, 5), st.sampled_from([("train",), ("look", "train")]), st.floats(0, 1e6))
def test_whatever_happens_every_client_asked_is_folded_or_lost(disturbances, count, steps, server_work):
    def once():
        algorithm = Number(exchanges=steps, server_work=server_work)
        here = lab(5, speed=[1e6, 1e7, 4e5, 1e6, 1e6], algorithm=algorithm, effects=[Dropout(0.05)])
        for second, client, what in disturbances:
            here.at(second, getattr(here.nodes, what), client)
        return here, here.run(Isolated(rounds=4, clients=count))

    here, ended = once()
    assert ended or not here.world.online()
    check_books(here)
    assert here.transfers == here.moved == []
    assert len(here.updates) == 4 * len(steps) or not ended
    assert sum(row.folded for row in here.updates) == sum(models(here))  # one each
    assert not any(row.late for row in here.updates)
    assert not here.world.clients.busy.any()
    assert once()[0].rows == here.rows


# ---- against what it must equal, where something is learned

ALONE = {"protocol": {"name": "isolated", "rounds": 6, "participation": 0.6}}
SERVED = {"protocol": {"name": "sync", "rounds": 6, "participation": 0.6}}
LEARNERS = [name for name in find.names("algorithm") if find.find("algorithm", Part(name=name), name).learns]


def scores(folder, **changes):
    """The scores of a run by client, period and so on, which must have moved nothing where it is isolated."""
    row = small_points.run_in(folder, **changes)
    if changes["protocol"]["name"] == "isolated":
        assert small_points.table(folder, "transfers") == []
        assert (row["bytes_up"], row["bytes_down"], row["bytes_peer"], row["bytes_wasted"]) == (0, 0, None, 0)
    return {
        tuple(line[key] for key in ("version", "client", "period", "seen", "model", "split", "metric")): line["value"]
        for line in small_points.table(folder, "scores")
    }


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.long)])
def test_fedavg_alone_is_the_algorithm_local(seed, tmp_path):
    alone = scores(tmp_path / "alone", **ALONE, algorithm="fedavg", seed=seed)
    local = scores(tmp_path / "local", **SERVED, algorithm="local", seed=seed)
    averaged = scores(tmp_path / "averaged", **SERVED, algorithm="fedavg", seed=seed)
    assert alone == pytest.approx(local, abs=1e-6)
    assert alone.keys() == averaged.keys()
    assert alone != pytest.approx(averaged, abs=1e-2)


@pytest.mark.long
@pytest.mark.parametrize("name", LEARNERS)
def test_one_client_alone_is_one_client_with_a_server_to_the_bit(name, tmp_path):
    options = small_points.CHEAPER.get(name, {})
    same = {"algorithm": {"name": name, **options}, "clients": {"count": 1, "speed": "1 GFLOP/s"}}
    alone = scores(tmp_path / "alone", **ALONE, **same)
    assert alone == scores(tmp_path / "served", **SERVED, **same)
    assert len(set(alone.values())) > 4


TREE = {"name": "tree", "edges": 2, "uplink": "1 Mbit/s", "downlink": "1 Mbit/s", "latency": "1 s"}


@pytest.mark.parametrize("topology", [TREE, {"name": "peers", "graph": "ring"}])
def test_the_network_changes_nothing(topology, tmp_path):
    small_points.run_in(tmp_path / "star", **ALONE)
    slow = {"network__latency": "3 s", "network__uplink": "1 kbit/s", "network__codec": {"up": "int8"}}
    small_points.run_in(tmp_path / "other", **ALONE, **slow, network__topology=topology)
    assert small_points.files(tmp_path / "other") == small_points.files(tmp_path / "star")


def test_who_drops_out_of_training_is_lost_and_the_rest_goes_on(tmp_path):
    row = small_points.run_in(tmp_path / "run", **ALONE, network__effects=[{"name": "dropout", "rate": "2/s"}])
    assert row["asked"] == row["folded"] + row["lost"]
    assert 0 < row["lost"] < row["asked"]
    assert row["late"] == 0
    left = [span for span in small_points.table(tmp_path / "run", "spans") if span["what"] == "left"]
    assert len(left) == row["lost"]


# ---- what it is for


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_replay_alone_forgets_less_than_training_alone(seed, tmp_path):
    dataset = {"name": "synthetic", "nodes": 300, "classes": 4, "features": 16, "degree": 6.0, "signal": 2.0}
    stream = {"name": "class_incremental", "classes": 2, "every": "8 updates"}
    plain, replay = (
        small_points.run_in(
            tmp_path / name,
            algorithm=name,
            seed=seed,
            data={**PLAIN["data"], "dataset": dataset, "stream": stream},
            model={"name": "gcn", "hidden": 16},
            training={"optimiser": "adam", "lr": 0.03, "local_steps": 5},
            clients={"count": 3, "speed": "1 GFLOP/s"},
            protocol={"name": "isolated", "rounds": 16, "participation": 1.0},
        )
        for name in ("fedavg", "fed_ergnn")
    )
    assert plain["fm"] >= 0.5
    assert replay["fm"] <= plain["fm"] - 0.3
    assert replay["am"] >= plain["am"]
