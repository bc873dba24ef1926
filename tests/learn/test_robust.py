"""Median and trimmed mean against numpy and scipy, what they withstand, and where the option is refused."""

import numpy as np
import pytest
import torch
from contexts import within
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from algorithms.fed_gcn import FedGCN
from algorithms.fed_nova import FedNova
from algorithms.fedavg import FedAvg
from algorithms.fedgta import FedGTA
from algorithms.fedprox import FedProx
from fedsim.clock.protocols.gossip import Gossip
from fedsim.clock.protocols.isolated import Isolated
from fedsim.core.errors import ScenarioError
from fedsim.learn import robust
from fedsim.learn.algorithm import Reply
from fedsim.net.topologies.peers import Peers
from fedsim.net.topologies.star import Star
from fedsim.scenario import find
from fedsim.scenario.part import Part

# Few distinct values, so that there are ties; float64, so that only rounding differs.
values = st.lists(st.lists(st.integers(-4, 4), min_size=6, max_size=6), min_size=1, max_size=9)


def trees(rows):
    """Each row as a tree of two tensors."""
    tensors = [torch.tensor(row, dtype=torch.float64) for row in rows]
    return [{"w": one[:4].reshape(2, 2), "deep": {"b": one[4:]}} for one in tensors]


def flat(tree):
    return torch.cat([tree["w"].flatten(), tree["deep"]["b"]]).numpy()


@settings(deadline=None)
@given(rows=values, percent=st.integers(0, 49), data=st.data())
def test_they_are_numpys_and_scipys(rows, percent, data):
    trim = percent / 100
    factors = data.draw(st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=len(rows), max_size=len(rows)))
    scaled = np.array(rows) * np.array(factors)[:, np.newaxis]
    assert flat(robust.median(trees(rows), factors)) == pytest.approx(np.median(scaled, axis=0))
    trimmed = flat(robust.trimmed_mean(trees(rows), factors, trim))
    assert trimmed == pytest.approx(stats.trim_mean(scaled, trim, axis=0), abs=1e-12)


@settings(deadline=None)
@given(st.integers(3, 25), st.floats(1, 1e6), st.integers(0, 99))
def test_forged_values_stay_within_the_honest_ones_as_long_as_they_are_few(clients, size, seed):
    rng = np.random.default_rng(seed)
    honest, forgers = rng.normal(size=(clients, 6)), (clients - 1) // 2
    honest[:forgers] *= -size
    least, most = honest[forgers:].min(0), honest[forgers:].max(0)
    trim = forgers / clients  # exactly as many as are forged are left out at either end
    for found in (
        robust.median(trees(honest), [1.0] * clients),
        robust.trimmed_mean(trees(honest), [1.0] * clients, trim),
    ):
        assert (flat(found) >= least - 1e-9).all()
        assert (flat(found) <= most + 1e-9).all()


def test_nothing_trimmed_is_the_mean_and_a_half_is_refused():
    rows = [[1, 2, 3, 4, 5, 6], [3, 4, 5, 6, 7, 8]]
    for trim in (0.0, 0.1, 0.49):
        assert flat(robust.trimmed_mean(trees(rows), [1.0, 1.0], trim)).tolist() == [2, 3, 4, 5, 6, 7]
    with pytest.raises(ValueError, match=r"below 0\.5"):
        robust.trimmed_mean(trees(rows), [1.0, 1.0], 0.5)


def reply(client, value, samples, weight=1.0, **more):
    return Reply(client, 0, None, {"update": {"w": torch.tensor([value])}, "samples": samples, **more}, weight)


def moved(algorithm, replies):
    state = algorithm.update({"model": {"w": torch.tensor([10.0])}}, replies, "train")
    return state["model"]["w"].item() - 10


def test_fedavg_takes_the_average_that_it_is_told_discounts_first_and_weights_aside():
    replies = [reply(0, 1.0, 100), reply(1, 2.0, 1), reply(2, 4.0, 1), reply(3, -50.0, 1), reply(4, 5.0, 1, weight=0.5)]
    assert moved(FedAvg(aggregation="median"), replies) == pytest.approx(2.0)
    assert moved(FedAvg(aggregation="trimmed_mean", trim=0.2), replies) == pytest.approx((1 + 2 + 2.5) / 3)
    assert moved(FedAvg(aggregation="trimmed_mean"), replies) == pytest.approx((1 + 2 + 4 - 50 + 2.5) / 5)  # 10 % of 5
    assert moved(FedAvg(), replies) == pytest.approx((100 * 1 + 2 + 4 - 50 + 2.5) / 104)
    assert moved(FedProx(aggregation="median"), replies) == pytest.approx(2.0)
    prepared = within(FedNova(aggregation="median"), None, local_steps=2)
    alike = [reply(k, value, 1, length=2.0) for k, value in enumerate([1.0, 3.0, -9.0])]
    assert moved(prepared, alike) == pytest.approx(1.0)


def test_ordering_takes_the_server_longer():
    replies = [reply(k, 1.0, 1) for k in range(8)]
    plain = FedAvg().server_flops({}, replies, "train")
    assert FedAvg(aggregation="median").server_flops({}, replies, "train") == 3 * plain
    assert FedGCN(aggregation="median").server_flops({}, replies, "collect") == plain  # which only keeps rows


def test_whoever_would_ignore_it_refuses_it():
    follow = {"fedavg", "fedprox", "fed_ergnn", "fed_dslr", "fed_twp", "fgssl", "fed_nova", "fed_ego", "fed_gcn"}
    follow |= {"fed_opt", "fed_tad", "fedsage_plus", "dg_colearn", "power"}
    follow |= {"glfc", "lander", "llcg", "target"}
    for name in find.names("algorithm"):
        part = Part.model_validate(
            {"name": name, "aggregation": "median"} | ({"down": 0, "up": 0} if name == "traffic" else {})
        )
        if name in follow:
            assert find.build("algorithm", part).ranks_replies
        else:
            with pytest.raises(ScenarioError, match="aggregation"):
                find.build("algorithm", part)
    assert not FedGTA().ranks_replies
    for wrong in ({"trim": 0.2}, {"aggregation": "trimmed_mean", "trim": 0.5}, {"aggregation": "mode"}):
        with pytest.raises(ScenarioError, match=r"trim|aggregation"):
            find.build("algorithm", Part.model_validate({"name": "fedavg", **wrong}))


def test_where_replies_are_folded_one_by_one_it_is_refused():
    told = "compares a cohort's: leave algorithm.aggregation out"
    assert told in Gossip(rounds=1).refuse(FedAvg(aggregation="median"), Peers("ring"))
    assert told in Isolated(rounds=1, clients=1).refuse(FedAvg(aggregation="median"), Star())
    assert Gossip(rounds=1).refuse(FedAvg(), Peers("ring")) is None
    assert Isolated(rounds=1, clients=1).refuse(FedAvg(), Star()) is None
