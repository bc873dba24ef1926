"""DG-CoLearn: what clients end up with completes the sums of the whole graph; who is sent what, and when."""

import pytest
import torch
from exchanging import LINEAR, Driven, adjacency

from algorithms.dg_colearn import DGCoLearn
from fedsim.learn.algorithm import Job
from fedsim.learn.continual import snapshots
from fedsim.learn.engine import tree
from fedsim.learn.models.roland import Roland

EXCHANGE = {"embed", "correct"}


def roland(norm="sum", **options):
    return Roland(hidden=3, norm=norm, **{**LINEAR, **options})


def gap(driven, t, norm):
    """The largest error of A X and A² X at affected nodes, as clients can complete them."""
    a, local = adjacency(driven, t, norm)
    x = driven.snapshots[t]["x"]
    worst = 0.0
    for client, memory in enumerate(driven.memories):
        near = snapshots.near(memory["graph"], 2) if driven.algorithm.retrain == "incremental" else slice(None)
        own = memory["graph"]["node"][near]
        first, far = (driven.told(client, key, t) for key in ("delta1", "far"))
        once = local @ x + first
        for error in (once - a @ x, local @ once + far - a @ a @ x):
            worst = max(worst, float(error[own].abs().amax())) if len(own) else worst
    return worst


@pytest.mark.parametrize("privacy", ["paper", "strict"])
@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
@pytest.mark.parametrize("retrain", ["incremental", "full"])
def test_clients_can_complete_both_sums_for_all_affected_nodes(privacy, norm, retrain):
    driven = Driven(DGCoLearn(privacy=privacy, retrain=retrain), roland(norm))
    for t in range(len(driven.snapshots)):
        assert driven.round(t)[-1] == "correct"
        assert gap(driven, t, norm) < 1e-9, t
        assert driven.round(t) == ["train"]
    shares = [float(snapshots.near(own[t].graph, 2).double().mean()) for own in driven.periods for t in range(1, 5)]
    assert 0 < sum(shares) / len(shares) < 0.7  # or incremental and full would be the same


def test_the_papers_form_lacks_its_term_and_no_more():
    driven = Driven(DGCoLearn(exchange="paper", retrain="full"))
    for t in range(3):
        driven.round(t)
        a, local = adjacency(driven, t, "sum")
        x = driven.snapshots[t]["x"]
        expected = local @ local @ x + (a @ a - local @ local - (local - torch.eye(60)) @ (a - local)) @ x
        for client, memory in enumerate(driven.memories):
            own = memory["graph"]["node"]
            first, far = (driven.told(client, key, t) for key in ("delta1", "far"))
            # the client's layers carry δ to all local neighbours: what it adds at the end takes that back
            got = (local @ (local @ x + first) + far)[own]
            border = driven.state["seen"].cut.border[own]
            torch.testing.assert_close(got[border], expected[own][border], rtol=0, atol=1e-9)
            torch.testing.assert_close(got[~border], (local @ local @ x)[own][~border], rtol=0, atol=1e-9)


def centralised(driven, t, norm, params, activation):
    """Two layers on the whole graph: the first states and the second (N, H)."""
    a, _ = adjacency(driven, t, norm)
    first = activation(a @ driven.snapshots[t]["x"] @ params["layer1"]["weight"] + params["layer1"]["bias"])
    return first, activation(a @ first @ params["layer2"]["weight"] + params["layer2"]["bias"])


def states(driven, client):
    """A client's states after its period, as it would enter the next one with them."""
    memory = driven.memories[client]
    graph = memory["graph"]
    seen = driven.algorithm.sees(memory, graph)
    return graph["node"], driven.algorithm.task.model.remember(tree.stack([memory["local"]]), seen)


@pytest.mark.parametrize("norm", ["sum", "mean", "sym"])
@pytest.mark.parametrize(("exchange", "activation"), [("layerwise", "relu"), ("exact", "none")])
def test_corrected_layers_are_those_of_the_whole_graph(norm, exchange, activation):
    driven = Driven(DGCoLearn(exchange=exchange, retrain="full"), roland(norm, activation=activation))
    for t in range(3):
        driven.round(t)
        params = driven.memories[0]["local"]
        whole = centralised(driven, t, norm, params, torch.relu if activation == "relu" else lambda h: h)
        if exchange == "exact":  # r goes through the first weight without its bias, which cut neighbours add too
            a, local = adjacency(driven, t, norm)
            bias = ((a - local) @ params["layer1"]["bias"].expand(60, 3)) @ params["layer2"]["weight"]
            whole = whole[0], whole[1] - bias
        for client in range(3):
            own, found = states(driven, client)
            torch.testing.assert_close(found, torch.cat(whole, 1)[own], rtol=0, atol=1e-9)


def test_layers_that_remember_are_corrected_over_snapshots():
    driven = Driven(DGCoLearn(exchange="layerwise", retrain="full"), roland(activation="relu", keep=0.5), moving=False)
    before = [torch.zeros(60, 3, dtype=torch.float64)] * 2
    for t in range(3):
        driven.round(t)
        params, a = driven.memories[0]["local"], adjacency(driven, t, "sum")[0]
        h = driven.snapshots[t]["x"]
        for i in (1, 2):
            layer = params[f"layer{i}"]
            h = 0.5 * before[i - 1] + 0.5 * torch.relu(a @ h @ layer["weight"] + layer["bias"])
            h[~driven.snapshots[t]["arrived"]] = 0
            before[i - 1] = h
        for client in range(3):
            own, found = states(driven, client)
            torch.testing.assert_close(found, torch.cat(before, 1)[own], rtol=0, atol=1e-9)


def test_what_a_client_missed_is_asked_for_as_soon_as_it_is_back():
    driven = Driven(DGCoLearn(), absent={1: 0, 2: 0}, moving=False)
    for t in range(4):
        driven.round(t)
    assert gap(driven, 3, "sum") < 1e-9


def test_an_exchange_that_follows_the_next_period_is_about_the_last():
    driven = Driven(DGCoLearn(), roland("mean"))
    driven.round(0)
    asked = driven.algorithm.download(driven.state, 1, "embed")
    job = Job(1, "embed", 1, asked, driven.periods[1][1].graph, dict(driven.memories[1]), 0)
    with pytest.raises(StopIteration) as stop:
        next(driven.algorithm.work(job))
    _, local = adjacency(driven, 0, "mean")
    sums = (local @ driven.snapshots[0]["x"])[asked["ids"].long()]
    torch.testing.assert_close(stop.value.value["h1"], sums, rtol=0, atol=1e-9)
    assert job.memory["period"] == 0


def test_features_are_sent_again_if_they_were_lost_and_only_then():
    driven = Driven(DGCoLearn(schedule=2), moving=False)
    driven.round(0)
    driven.round(0)
    asked = driven.algorithm.download(driven.state, 1, "embed")

    def answer(memory):
        job = Job(1, "embed", 0, asked, driven.periods[1][0].graph, dict(memory), 0)
        with pytest.raises(StopIteration) as stop:
            next(driven.algorithm.work(job))
        return stop.value.value, job.memory

    upload, memory = answer(driven.memories[1])
    assert len(upload["h1"]) == len(asked["ids"]) > 0
    assert len(upload["h0"]) == 0
    again, _ = answer(memory)  # nobody has heard of the one before
    assert torch.equal(again["h0"], driven.snapshots[0]["x"][asked["ids"].long()])


@pytest.mark.parametrize("exchange", ["exact", "paper", "layerwise", "full_graph", "fedgcn"])
def test_one_client_exchanges_nothing_and_learns_the_same(exchange):
    one, none = (Driven(DGCoLearn(exchange=each), clients=1) for each in (exchange, "none"))
    for t in range(3):
        assert one.round(t) == none.round(t) == ["train"]
    assert one.memories[0]["received"] is None
    for mine, other in zip(states(one, 0), states(none, 0), strict=True):
        assert torch.equal(mine, other)


def rewired(driven):
    """The same with every cut edge between other ends, so that clients' graphs stay as they are."""
    overview = driven.algorithm.overview
    for t, snapshot in enumerate(overview.snapshots):
        owner = torch.from_numpy(overview.owners[t])
        source, target = snapshot["edges"]
        inside = snapshot["edges"][:, owner[source] == owner[target]]
        a, b = (owner == 0).nonzero()[:1, 0], (owner == 1).nonzero()[-1:, 0]
        edge = torch.stack([torch.cat([a, b]), torch.cat([b, a])])
        snapshot["edges"] = torch.cat([inside, edge], 1)
        snapshot["changed"] = snapshot["changed"].clone().fill_(t % 2 == 0)
    return driven


def outline(driven):
    """Which nodes every message of an exchange is about, and how large its parts are."""
    found = []
    for t, step, client, *sides in driven.messages:
        if step in EXCHANGE:
            shapes = [{key: getattr(part, "shape", part) for key, part in side.items()} for side in sides]
            found.append((t, step, client, [side["ids"].tolist() for side in sides if "ids" in side], shapes))
    return found


def test_strict_messages_do_not_depend_on_the_cut():
    driven, other = (Driven(DGCoLearn(privacy="strict")) for _ in range(2))
    rewired(other)
    for t in range(4):
        driven.round(t)
        other.round(t)
    assert outline(driven) == outline(other)
    assert len(outline(driven)) == 4 * 2 * 3
    assert any(len(each[3][0]) > 0 for each in outline(driven) if each[0] > 0)
    plain = Driven(DGCoLearn())
    plain.round(0)
    assert outline(plain) != outline(driven)[: len(outline(plain))]


@pytest.mark.parametrize(("schedule", "expected"), [(1, [0, 1, 2, 3, 4]), (2, [0, 1, 2, 3, 4]), (3, [0]), (4, [2])])
def test_schedules(schedule, expected):
    driven = Driven(DGCoLearn(schedule=schedule, rounds=5))
    for t in range(2):
        taken = [driven.round(t) for _ in range(5)]
        assert [k for k, steps in enumerate(taken) if "correct" in steps] == expected
        first = ["first", *["embed", "correct"], "train"] if schedule == 1 else ["train", "embed", "correct"]
        assert taken[expected[0]] == first


def test_states_move_with_their_nodes_through_the_server():
    driven = Driven(DGCoLearn(exchange="none"), roland(keep=0.5))
    driven.round(0)
    known = {client: states(driven, client) for client in range(3)}
    driven.round(1)
    owners = driven.algorithm.overview.owners
    gone = [v for v in range(60) if owners[0][v] not in (-1, owners[1][v])]
    assert gone
    sent = {
        v: row
        for t, step, _, _, upload in driven.messages
        if t == 1 and "left" in upload
        for v, row in zip(upload["left"]["ids"].tolist(), upload["left"]["states"], strict=True)
    }
    assert sorted(sent) == gone
    driven.round(1)
    for v in gone:
        nodes, rows = driven.memories[owners[1][v]]["states"]
        before, values = known[owners[0][v]]
        assert torch.equal(rows[nodes == v], values[before == v])
        assert torch.equal(rows[nodes == v][0], sent[v])
    driven.round(1)
    assert not any("moved" in download for *_, download, _ in driven.messages[-3:])


def test_corrections_that_sum_over_too_few_are_left_out():
    driven, all_of_them = (Driven(DGCoLearn(k_min=k_min)) for k_min in (2, 1))
    driven.round(0)
    all_of_them.round(0)
    cut = driven.state["seen"].cut
    few, many = (cut.foreign == 1).nonzero().squeeze(1), (cut.foreign >= 2).nonzero().squeeze(1)
    assert len(few)
    assert len(many)
    for key in ("delta1", "far"):
        got, whole = (sum(each.told(client, key, 0) for client in range(3)) for each in (driven, all_of_them))
        assert torch.equal(got[many], whole[many])
        assert not got[few].any()
        assert whole[few].any(1).all()


def test_fedgcn_puts_the_whole_sums_in_the_features_place():
    driven = Driven(DGCoLearn(exchange="fedgcn", retrain="full"), moving=False)
    driven.round(0)
    a, _ = adjacency(driven, 0, "sum")
    sums, border = a @ driven.snapshots[0]["x"], driven.state["seen"].cut.border
    for memory in driven.memories:
        nodes, rows = memory["received"]["x"]
        assert torch.equal(nodes, memory["graph"]["node"][border[memory["graph"]["node"]]])
        torch.testing.assert_close(rows, sums[nodes], rtol=0, atol=1e-9)
