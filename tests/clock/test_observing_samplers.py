"""Samplers that choose by what clients reported: against a plain reading of the papers, and in whole runs."""

import math
from dataclasses import dataclass, field
from statistics import mean

import numpy as np
import pytest
import small_points

from fedsim.clock.client_statistics import ClientStatistics
from fedsim.clock.sampler import draw
from fedsim.clock.samplers.oort import Oort
from fedsim.clock.samplers.power_of_choice import PowerOfChoice
from fedsim.clock.samplers.tifl import POLICIES, Tifl
from fedsim.clock.samplers.weighted import Weighted
from fedsim.core import wire
from fedsim.core.errors import UserError
from fedsim.learn import reported
from fedsim.point.checks import check
from fedsim.point.run import run

SAMPLERS = ["oort", "tifl", {"name": "power_of_choice", "candidates": 4}]


@dataclass
class Columns:
    """What a sampler looks at."""

    training_nodes: np.ndarray
    cohorts: int = 0
    statistics: ClientStatistics = field(init=False)

    def __post_init__(self):
        self.statistics = ClientStatistics(len(self.training_nodes))

    def hear(self, client, seconds, loss=math.nan):
        self.statistics.asked[client] += 1
        self.statistics.replied(client, seconds, self.cohorts)
        self.statistics.reported(client, loss, int(self.training_nodes[client]), self.cohorts)


class PlainOort:
    """The paper and the authors' constants, client by client, with a state that moves from round to round."""

    def __init__(self, nodes):
        self.training_nodes, self.epsilon, self.percent, self.round = nodes, 0.9, 10, 0
        self.loss, self.seconds, self.heard, self.gained = {}, {}, {}, []

    def score(self, client, utilities, preferred):
        cap = np.quantile([*utilities.values()], 0.98)
        clipped = {k: min(utility, cap) for k, utility in utilities.items()}
        low, high = min(clipped.values()), max(clipped.values())
        score = (clipped[client] - low) / max(high - low, 1e-4)
        score += math.sqrt(0.1 * math.log(self.round) / self.heard[client]) if self.round > 1 else 0.0
        return score * (preferred / self.seconds[client]) ** 2 if self.seconds[client] > preferred else score

    def choose(self, free, count, rng):
        known, unseen = [k for k in free if k in self.seconds], [k for k in free if k not in self.seconds]
        wanted = self.epsilon * count
        explored = int(wanted) + (rng.random() < wanted - int(wanted))
        explored = min(max(explored, count - len(known)), len(unseen))
        new = draw(np.array(unseen, int), explored, np.array([self.training_nodes[k] for k in unseen], float), rng)
        pool, scores = [], {}
        if known:
            utilities = {k: self.training_nodes[k] * self.loss[k] for k in known}
            preferred = np.percentile([*self.seconds.values()], self.percent)
            scores = {k: self.score(k, utilities, preferred) for k in known}
            if (rank := count - explored) > 0:
                cut = 0.7 * sorted(scores.values(), reverse=True)[rank - 1]
                pool = [k for k in known if scores[k] >= cut]
        old = draw(np.array(pool, int), count - explored, np.array([scores[k] for k in pool], float), rng)
        self.epsilon, self.round = max(0.2, self.epsilon * 0.95), self.round + 1
        return sorted([*new.tolist(), *old.tolist()])

    def hear(self, replies):
        for client, (seconds, loss) in replies.items():
            self.loss[client], self.seconds[client], self.heard[client] = loss, seconds, self.round
        self.gained.append(sum(self.training_nodes[k] * loss for k, (_, loss) in replies.items()))

    def pace(self):
        if len(self.gained) % 20 == 0 and len(self.gained) >= 40:
            before, after = sum(self.gained[-40:-20]), sum(self.gained[-20:])
            step = 5 if abs(after - before) <= 0.1 * before else -5 if abs(after - before) >= 5 * before else 0
            self.percent = min(100, max(5, self.percent + step))


@pytest.mark.parametrize("falling", [0.0, 0.03])
def test_oort_chooses_as_a_plain_reading_of_the_paper(falling):
    world = np.random.default_rng(7)
    nodes, speeds = world.integers(5, 200, 40), world.lognormal(1, 1.5, 40)
    columns, plain, percents = Columns(nodes), PlainOort(nodes.tolist()), set()
    for number in range(130):
        free = np.flatnonzero(world.random(40) < 0.7)
        if number and number % 20 == 0:
            plain.pace()
        rngs = [np.random.default_rng([1, number]) for _ in range(2)]
        chosen = Oort().choose(free, 5, columns, rngs[0]).tolist()
        assert chosen == plain.choose(free.tolist(), 5, rngs[1])
        columns.cohorts += 1
        replies = {k: (speeds[k] * world.lognormal(0, 0.2), math.exp(-falling * number) * (1 + k % 7)) for k in chosen}
        for client, (seconds, loss) in replies.items():
            columns.hear(client, seconds, loss)
        plain.hear(replies)
        percents.add(plain.percent)
    assert len(percents) > (1 if not falling else 0)  # the pacer moved


def test_oort_by_hand():
    columns = Columns(np.array([4, 4, 4]), cohorts=10)
    for client, seconds, loss in [(0, 1.0, 2.0), (1, 10.0, 2.0), (2, 20.0, 1.0)]:
        columns.hear(client, seconds, loss)
    assert columns.statistics.gains[10] == 20.0
    columns.statistics.cohorts[:] = 5
    bonus = 0.214597  # of a client last heard from in round 5 of 10
    scores = Oort().scores(np.arange(3), columns)
    preferred = Oort().preferred(columns.statistics, 10)
    assert preferred == pytest.approx(1 + 0.1 * 2 * 9)  # the 10th percentile of 1, 10, 20
    expected = [1 + bonus, (1 + bonus) * (preferred / 10) ** 2, bonus * (preferred / 20) ** 2]
    assert scores == pytest.approx(expected, rel=1e-5)
    assert Oort(penalty=0.0).scores(np.arange(3), columns) == pytest.approx([1 + bonus, 1 + bonus, bonus], rel=1e-5)
    assert [Oort().exploring(j) for j in (0, 1, 10, 100)] == pytest.approx([0.9, 0.855, 0.9 * 0.95**10, 0.2])


def test_oort_explores_everybody_and_leaves_the_slow_half_out():
    columns, rng = Columns(np.full(20, 10)), np.random.default_rng(0)
    seen, late = set[int](), list[int]()
    for number in range(120):
        chosen = Oort().choose(np.arange(20), 5, columns, rng).tolist()
        seen |= {*chosen}
        columns.cohorts += 1
        for client in chosen:
            columns.hear(client, 10.0 if client >= 10 else 1.0, 1.0)
        assert number < math.ceil(20 / (0.2 * 5)) - 1 or len(seen) == 20
        late += chosen if number >= 60 else []
    assert mean(client >= 10 for client in late) < 0.1


def test_a_client_that_was_always_late_counts_with_the_mean_utility():
    columns = Columns(np.full(3, 10), cohorts=1)
    columns.hear(0, 1.0, 1.0)
    columns.hear(1, 1.0, 3.0)
    columns.hear(2, 1.0)
    low, high, middle = Oort(penalty=0.0).scores(np.arange(3), columns)
    assert (low, high) == (0.0, 1.0)
    assert low < middle < high


def test_power_of_choice_takes_the_highest_losses_of_the_candidates():
    columns, hits = Columns(np.array([5, 3, 2])), np.zeros(3)
    for client in range(3):
        columns.hear(client, 1.0, client + 1.0)
    rng = np.random.default_rng(1)
    for _ in range(6000):
        hits[PowerOfChoice(candidates=2).choose(np.arange(3), 1, columns, rng)] += 1
    assert hits / 6000 == pytest.approx([0, 0.5143, 0.4857], abs=0.02)
    assert PowerOfChoice(candidates=3).choose(np.arange(3), 2, columns, rng).tolist() == [1, 2]
    same = [one.choose(np.arange(3), 2, columns, np.random.default_rng(4)) for one in (PowerOfChoice(2), Weighted())]
    assert same[0].tolist() == same[1].tolist()


def test_power_of_choice_asks_everybody_once_before_anybody_twice():
    columns, rng, asked = Columns(np.arange(1, 11)), np.random.default_rng(0), []
    for _ in range(5):
        chosen = PowerOfChoice(candidates=10).choose(np.arange(10), 2, columns, rng).tolist()
        for client in chosen:
            columns.hear(client, 1.0, 1.0)
        asked += chosen
    assert sorted(asked) == list(range(10))


def profiled(seconds):
    columns = Columns(np.ones(len(seconds), int))
    for client, one in enumerate(seconds):
        columns.hear(client, one)
    return columns


def test_tifl_takes_a_cohort_from_one_tier_as_often_as_the_policy_says():
    seconds = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0], 10)
    columns, rng = profiled(seconds), np.random.default_rng(2)
    for policy, expected in {"fast": 1.0, "random": 2.5, "uniform": 6.2, "slow": 16.0}.items():
        rounds = [seconds[Tifl(policy).choose(np.arange(50), 5, columns, rng)] for _ in range(2000)]
        assert all(len({*one.tolist()}) == 1 and len(one) == 5 for one in rounds)
        assert mean(one[0] for one in rounds) == pytest.approx(expected, rel=0.08)
    assert all(math.isclose(sum(chances), 1) for chances in POLICIES.values())


def test_tifl_profiles_first_and_leaves_out_who_is_too_slow_or_never_replies():
    columns, rng = profiled([1.0, 2.0, 3.0, 4.0, 90.0, 5.0]), np.random.default_rng(0)
    columns.statistics.replies[5], columns.statistics.asked[5] = 0, 1
    choose = Tifl(timeout=60.0).choose
    assert choose(np.arange(6), 2, columns, rng).tolist() == [5]
    columns.statistics.asked[5] = 2
    asked = {client for _ in range(200) for client in choose(np.arange(6), 2, columns, rng).tolist()}
    assert asked == {0, 1, 2, 3}
    assert Tifl("fast").choose(np.array([3]), 2, columns, rng).tolist() == []
    with pytest.raises(UserError, match="every client has timed out; raise timeout"):
        Tifl(timeout=0.5).choose(np.arange(6), 2, columns, rng)


def test_an_undersized_tier_is_asked_as_a_whole():
    assert len(Tifl("fast").choose(np.arange(7), 5, profiled([1.0] * 7), np.random.default_rng(0))) == 2


def tables(folder, made):
    folder.mkdir(parents=True)
    return run(made, folder, folder, lambda progress: None)


def observing(sampler, **changes):
    given = {"protocol": {"name": "sync", "rounds": 3, "clients": 8}, "clients__count": 8, **changes}
    return small_points.point(clients__sampler=sampler, **given)


@pytest.mark.parametrize("codec", [None, "int8"])
def test_a_reported_loss_costs_its_bytes_and_is_the_one_before_training(codec, tmp_path, monkeypatch):
    noted = []
    monkeypatch.setattr(ClientStatistics, "reported", lambda self, client, loss, *_: noted.append(loss))
    changes = {"network__codec": {"up": codec}} if codec else {}
    rows = {name: tables(tmp_path / name, observing(name, **changes)) for name in ("uniform", "oort")}
    assert {row["folded"] for row in rows.values()} == {24}
    assert (
        rows["oort"]["bytes_up"] - rows["uniform"]["bytes_up"] == 24 * reported.BYTES == 24 * wire.size({"loss": 1.0})
    )
    assert rows["uniform"]["score"] == rows["oort"]["score"]  # both ask everybody
    assert len(noted) == 24
    assert mean(noted[:8]) == pytest.approx(math.log(4), rel=0.25)  # four classes, and nothing learned yet
    assert mean(noted[16:]) < mean(noted[:8])


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("protocol", ["isolated", "gossip"])
def test_protocols_without_replies_to_a_server_are_refused(protocol, sampler):
    changes = {"protocol": {"name": protocol, "rounds": 2}}
    if protocol == "gossip":
        changes["network__topology"] = {"name": "peers", "graph": "ring"}
    else:
        changes["protocol"]["clients"] = 2
    (problem,) = check.points([observing(sampler, **changes)])
    assert problem.key == "clients.sampler"
    assert "take another sampler" in problem.message


def test_losses_are_refused_where_they_would_be_hidden_or_there_are_none():
    masked = {"privacy": {"secure_aggregation": True}}
    (problem,) = check.points([observing("oort", **masked)])
    assert "privacy.secure_aggregation does not protect" in problem.message
    assert not check.points([observing("tifl", **masked)])
    alone = observing("tifl", algorithm="local")
    assert "nothing travels" in check.points([alone], whole=True)[0].message
