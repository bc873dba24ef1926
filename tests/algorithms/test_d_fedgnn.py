"""D-FedGNN: peers that average come together at the rate of their graph, and what that moves."""

import numpy as np
import pytest
import small_points
import torch

from algorithms.d_fedgnn import DFedGNN
from fedsim.core.record import Recorder
from fedsim.core.wire import array_bytes, size
from fedsim.learn.algorithm import Reply
from fedsim.learn.engine import tree
from fedsim.net.measurements import graphs
from fedsim.point.build.assemble import build

PEERS = 8
GRAPHS = {
    "ring": graphs.ring(PEERS, 2),
    "regular": graphs.regular(PEERS, 3, np.random.default_rng(1)),
}


def averaging(pairs):
    """W (n, n): everybody's mean over oneself and one's neighbours."""
    w = np.eye(PEERS)
    w[pairs[:, 0], pairs[:, 1]] = w[pairs[:, 1], pairs[:, 0]] = 1
    return w / w.sum(1, keepdims=True)


def mixed(algorithm, states, pairs):
    """The states after each has mixed with the shares of its neighbours, untrained."""
    shares, near = [algorithm.share(state) for state in states], graphs.neighbours(pairs, PEERS)
    return [
        algorithm.mix(state, [shares[k], *(shares[j] for j in near[k])], [1.0] * (1 + len(near[k])))
        for k, state in enumerate(states)
    ]


def values(states):
    return np.stack([torch.cat([leaf.flatten() for leaf in tree.leaves(state["model"])]).numpy() for state in states])


def spread(states):
    """The distance of all peers' parameters from their mean."""
    flat = values(states)
    return float(np.linalg.norm(flat - flat.mean(0)))


def scattered(seed=0):
    g = torch.Generator().manual_seed(seed)
    return [{"model": {"layer1": {"w": torch.randn(6, 5, generator=g, dtype=torch.float64)}}} for _ in range(PEERS)]


@pytest.mark.parametrize("graph", GRAPHS)
def test_untrained_peers_agree_at_the_rate_of_the_second_eigenvalue(graph):
    pairs, algorithm, states = GRAPHS[graph], DFedGNN(), scattered()
    w = averaging(pairs)
    rate = np.sort(np.abs(np.linalg.eigvalsh(w)))[-2]
    assert 0.3 < rate < 0.9
    centre, before = values(states).mean(0), spread(states)
    spreads = []
    for _ in range(60):
        states = mixed(algorithm, states, pairs)
        spreads.append(spread(states))
        assert spreads[-1] <= rate * before + 1e-12
        before = spreads[-1]
    assert (spreads[39] / spreads[19]) ** (1 / 20) == pytest.approx(rate, abs=0.02)
    np.testing.assert_allclose(values(states).mean(0), centre, atol=1e-12)
    np.testing.assert_allclose(values(states), np.tile(centre, (PEERS, 1)), atol=1e-3)


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_slowest_disagreement_shrinks_by_exactly_that(graph):
    pairs, algorithm = GRAPHS[graph], DFedGNN()
    eigenvalues, vectors = np.linalg.eigh(averaging(pairs))
    second = np.argsort(np.abs(eigenvalues))[-2]
    states = [{"model": {"w": torch.full((4,), float(x), dtype=torch.float64)}} for x in vectors[:, second]]
    after = mixed(algorithm, states, pairs)
    np.testing.assert_allclose(values(after), eigenvalues[second] * values(states), atol=1e-12)


TOPOLOGIES = {"ring": {"graph": "ring"}, "regular": {"graph": "regular", "degree": 3}}
DEGREES = {"ring": 2, "regular": 3}
MEASURE = {"metrics": ["accuracy"], "models": ["global", "local"], "splits": ["test"]}


def peers(folder, graph, rounds=4, **options):
    """Run eight peers; return the transfers."""
    small_points.run_in(
        folder, clients={"count": PEERS, "speed": "1 GFLOP/s"}, algorithm={"name": "d_fedgnn", **options},
        protocol={"name": "gossip", "rounds": rounds}, network__topology={"name": "peers", **TOPOLOGIES[graph]},
        data__stream="static", measure=MEASURE,
    )  # fmt: skip
    return small_points.table(folder, "transfers")


def model():
    """The small points' model: 10 features, 6 hidden values, 4 classes."""
    return {
        f"layer{i}": {"weight": torch.zeros(a, b), "bias": torch.zeros(b)} for i, (a, b) in ((1, (10, 6)), (2, (6, 4)))
    }


@pytest.mark.parametrize("graph", TOPOLOGIES)
def test_bytes_are_directed_edges_times_rounds_times_the_model(graph, tmp_path):
    rows = peers(tmp_path / "run", graph)
    assert len(rows) == PEERS * DEGREES[graph] * 4
    (nbytes,) = {row["nbytes"] for row in rows}
    envelope = nbytes - size({"model": model()})
    assert 0 <= envelope < 200
    assert array_bytes(model()) == 4 * (10 * 6 + 6 + 6 * 4 + 4)


def test_masking_adds_its_keys_and_changes_no_model(tmp_path):
    plain, masked = peers(tmp_path / "plain", "ring"), peers(tmp_path / "masked", "ring", masking=True)
    assert len(plain) == len(masked)
    (nbytes,) = {row["nbytes"] for row in plain}
    more = sorted({row["nbytes"] - nbytes for row in masked})
    names = size(
        {
            "model": model(),
            "keys": torch.zeros(1, 32, dtype=torch.uint8),
            "heard": torch.zeros(0, 32, dtype=torch.uint8),
        }
    )
    names -= size({"model": model()}) + 32
    assert {gap - names for gap in more} <= {32, *(32 + 32 * m + extra for m in (1, 2) for extra in range(4))}
    assert more[0] - names == 32
    assert more[-1] >= more[0] + 64
    scores = [[row["value"] for row in small_points.table(tmp_path / one, "scores")][:8] for one in ("plain", "masked")]
    assert scores[0] == scores[1]


def parameters(tmp_path, protocol, topology):
    """The peers' parameters at the end of a run (n, P)."""
    options = {
        "clients": {"count": PEERS, "speed": "1 GFLOP/s"}, "algorithm": "d_fedgnn", "protocol": protocol,
        "network__topology": topology, "data__stream": "static", "measure": MEASURE,
    }  # fmt: skip
    built = build(small_points.scenario(**options), tmp_path, Recorder())
    built.world.env.run(until=built.done)
    built.world.end()
    return [state.value for _, state in sorted(built.world.clients.states.items())]


@pytest.mark.long
@pytest.mark.parametrize("graph", TOPOLOGIES)
def test_training_peers_stay_together(graph, tmp_path):
    topology = {"name": "peers", **TOPOLOGIES[graph]}
    together = [spread(parameters(tmp_path, {"name": "gossip", "rounds": rounds}, topology)) for rounds in (5, 15)]
    alone = spread(parameters(tmp_path, {"name": "isolated", "rounds": 15, "participation": 1.0}, {"name": "star"}))
    assert 0 < together[1] < 0.5 * alone
    assert together[1] < 2 * together[0]


def test_with_a_server_everybody_counts_the_same():
    start = {"layer1": {"w": torch.zeros(2)}}
    algorithm = DFedGNN()
    sizes = [algorithm.samples({"y": torch.zeros(n)}) for n in (3, 300)]
    assert sizes == [1, 1]
    replies = [
        Reply(k, 0, {"model": start}, {"update": {"layer1": {"w": torch.full((2,), float(k))}}, "samples": s})
        for k, s in enumerate(sizes)
    ]
    assert algorithm.update({"model": start}, replies, "train")["model"]["layer1"]["w"].tolist() == [0.5, 0.5]


def test_with_a_server_masking_bills_keys_both_ways(tmp_path):
    sync = {"name": "sync", "rounds": 2, "participation": 1.0}
    tables = []
    for masking in (False, True):
        folder = tmp_path / str(masking)
        small_points.run_in(folder, algorithm={"name": "d_fedgnn", "masking": masking}, protocol=sync)
        tables.append(small_points.table(folder, "transfers"))
    up, down = ([[r["nbytes"] for r in part if (r["dst"] < 0) == to] for part in tables] for to in (True, False))
    gaps = {b - a for a, b in zip(*up, strict=True)}
    assert len(gaps) == 1
    assert 32 < gaps.pop() < 64
    later = sorted(down[1])[-1] - sorted(down[1])[0]
    assert 5 * 32 <= later < 5 * 32 + 8
