"""SCAFFOLD: the printed algorithm by hand and by brute force, and variates that stay right whatever gets lost."""

import random
from dataclasses import replace

import numpy as np
import pytest
import small_points
import torch
import torch.nn.functional as F
from camps import community
from federations import federation, gap, quadratic, quadratics
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn_task
from pydantic import TypeAdapter
from test_contract import changes, check_same, check_sizes, check_training, check_unchanged, each_protocol, watched
from test_fedavg_bytes import CLIENTS, DOWN, MODEL, NUMBER, ROUNDS, UP, text

from algorithms.fedavg import FedAvg
from algorithms.local import Local
from algorithms.scaffold import Scaffold
from fedsim.core.errors import ScenarioError
from fedsim.learn.algorithm import Context, Job
from fedsim.learn.engine import tree
from fedsim.learn.models.mlp import MLP

SGD = {"optimiser": "sgd", "lr": 0.1, "local_steps": 3}
TWO = quadratics(a=(1, 3), b=(0, 1))  # whose mean is least at 0.75
both_options = pytest.mark.parametrize("variate", ["gradient", "difference"])


def numbers(of=Scaffold, graphs=TWO, **how):
    return federation(of, quadratic(), graphs, **how)


def classifier(**how):
    """Three clients of unlike classes and two layers, whose gradient torch has without fedsim."""
    graphs = {c: community([c, c + 1], c, n=16 + 8 * c, train=0.7) for c in range(3)}
    task = drawn_task(MLP(hidden=5, dropout=0.0), 20, 4)
    return federation(Scaffold, task, graphs, lr=0.2, steps=4, **how)


def variates(here):
    """Each client's variate that the server has folded last, as the client holds it."""
    zero = tree.zeros_like(here.state["model"])
    folded = here.state["folded"]
    return [here.memories[c]["variates"][folded[c]] if c in folded else zero for c in here.graphs]


def error(here):
    """How far c is from the mean of all clients' variates."""
    return gap(here.state["control"], tree.mean(variates(here), [1.0] * len(here.graphs)))


# ---- what is printed


def test_local_steps_of_unlike_clients_lead_fedavg_astray_and_not_scaffold():
    plain, own = numbers(FedAvg), numbers()
    seen = []
    for _ in range(60):
        plain.round([0, 1])
        own.round([0, 1])
        seen.append(own.number)
    assert plain.number == pytest.approx(0.598711, abs=1e-6)
    assert seen[:5] == pytest.approx([0.48588, 0.65698, 0.71724, 0.73846, 0.74594], abs=5e-6)
    assert own.number == pytest.approx(0.75, abs=1e-9)


@both_options
def test_the_first_round_of_all_clients_is_fedavgs(variate):
    plain, own = numbers(FedAvg), numbers(variate=variate)
    plain.round([0, 1])
    own.round([0, 1])
    assert own.number == pytest.approx(plain.number, abs=1e-15)


@pytest.mark.parametrize(("variate", "rounds"), [("gradient", 200), ("difference", 60)])
def test_one_client_a_round_leads_to_the_optimum_too(variate, rounds):
    here, drawn = numbers(variate=variate), random.Random(5)
    for _ in range(rounds):
        here.round([drawn.randrange(2)])
    assert here.number == pytest.approx(0.75, abs=1e-5)
    assert error(here) < 1e-12


def test_by_option_one_c_is_the_gradient_at_the_servers_model():
    here = classifier(variate="gradient")
    here.round([0, 1, 2])
    expected = [plain_gradient(here.algorithm.start()["model"], graph) for graph in here.graphs.values()]
    assert gap(here.state["control"], tree.mean(expected, [1.0] * 3)) < 1e-6


@both_options
def test_a_single_local_step_of_all_clients_is_gradient_descent(variate):
    here = numbers(variate=variate, steps=1, lr=0.2)
    x = 0.0
    for _ in range(8):
        here.round([0, 1])
        x -= 0.2 * (x + 3 * (x - 1)) / 2
        assert here.number == pytest.approx(x, abs=1e-12)


def plain_gradient(model, graph):
    """The gradient of a client's loss, by torch alone."""
    parts = tree.transform(lambda leaf: leaf.clone().requires_grad_(True), model)
    first, second = parts["layer1"], parts["layer2"]
    hidden = torch.relu(graph["x"] @ first["weight"] + first["bias"])
    output = hidden @ second["weight"] + second["bias"]
    loss = F.cross_entropy(output[graph["train"]], graph["y"][graph["train"]])
    names = [(name, key) for name, layer in parts.items() for key in layer]
    found = torch.autograd.grad(loss, [parts[name][key] for name, key in names])
    slopes = {name: dict[str, torch.Tensor]() for name in parts}
    for (name, key), slope in zip(names, found, strict=True):
        slopes[name][key] = slope
    return slopes


def plain_scaffold(model, graphs, rounds, variate, lr, steps, server_lr):
    """Algorithm 1 of the paper, client by client, in loops."""
    zero = tree.zeros_like(model)
    c, own = zero, dict.fromkeys(graphs, zero)
    for cohort in rounds:
        moves, changes = [], []
        for k in cohort:
            y = model
            for _ in range(steps):
                slope = plain_gradient(y, graphs[k])
                y = tree.transform(lambda w, g, ck, cs: w - lr * (g - ck + cs), y, slope, own[k], c)
            if variate == "gradient":
                new = plain_gradient(model, graphs[k])
            else:
                new = tree.transform(lambda ck, cs, x, w: ck - cs + (x - w) / (steps * lr), own[k], c, model, y)
            moves.append(tree.sub(y, model))
            changes.append(tree.sub(new, own[k]))
            own[k] = new
        model = tree.add(model, tree.scale(tree.mean(moves, [1.0] * len(moves)), server_lr))
        for change in changes:
            c = tree.add(c, tree.scale(change, 1 / len(graphs)))
    return model, c


@pytest.mark.parametrize("batch", [True, False])
@both_options
def test_it_is_the_printed_loop(variate, batch):
    here, asked = classifier(variate=variate, server_lr=0.8, batch=batch), [[0, 2], [1], [0, 1, 2], [2], [1, 2], [0, 1]]
    model, c = plain_scaffold(here.state["model"], here.graphs, asked, variate, 0.2, 4, 0.8)
    for cohort in asked:
        here.round(cohort)
    assert gap(here.state["model"], model) < 2e-5
    assert gap(here.state["control"], c) < 2e-5
    assert gap(model, here.algorithm.start()["model"]) > 0.05


def test_with_momentum_the_variate_is_still_a_mean_of_gradients():
    """Under a slope that is the same everywhere it is that slope; divided by K it would be larger."""

    class Slope(Scaffold):
        def loss(self, params, data, given):
            return 3.0 * params["x"][:, 0]

    here = numbers(Slope, momentum=0.9, steps=7, variate="difference")
    for _ in range(3):
        here.round([0, 1])
        assert float(here.state["control"]["x"]) == pytest.approx(3.0, abs=1e-12)


# ---- what gets lost, comes late or is stale


def test_lost_uploads_leave_no_error_and_as_printed_they_do():
    ends = {}
    for counters in (True, False):
        here, drawn = numbers(counters=counters), random.Random(11)
        for _ in range(100):
            here.round([0, 1], lost=[k for k in (0, 1) if drawn.random() < 0.3])
        ends[counters] = here.number
        if counters:
            assert error(here) < 1e-12
    assert ends[True] == pytest.approx(0.75, abs=1e-9)
    assert abs(ends[False] - 0.75) > 0.01


def test_where_nothing_is_lost_counting_changes_nothing():
    one, other = numbers(), numbers(counters=False)
    for cohort in ([0, 1], [1], [0], [0, 1]):
        one.round(cohort)
        other.round(cohort)
        assert one.number == other.number


def test_a_variate_that_was_overtaken_is_not_folded_and_its_step_is():
    here = numbers()
    here.round([0, 1])
    late = here.work([1])
    here.round([1])  # which starts from the variate before, for the server has not seen the other
    c, x = here.state["control"], here.number
    here.fold(late)
    assert here.state["control"] is c
    assert here.number != x
    assert error(here) < 1e-15


def test_staleness_discounts_the_step_and_never_the_variate():
    one, other = numbers(), numbers()
    one.fold(one.work([0, 1]), weight=0.25)
    other.fold(other.work([0, 1]))
    assert one.number == pytest.approx(other.number / 4)
    assert one.state["control"] == other.state["control"]


FATES = st.sampled_from(["fold", "lose", "hold", "release", "restart"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), FATES), max_size=20))
def test_c_is_always_the_mean_of_what_clients_hold(moves):
    """Whatever is lost, held back, folded later in any order or forgotten in a restart of an update ago."""
    here = numbers(graphs=quadratics(a=(1, 3, 2), b=(0, 1, -1)), steps=3, history=30)
    held, before = [], here.state
    for client, what in moves:
        if what == "restart":
            here.state, held = before, []
            continue
        before = here.state
        if what == "release":
            here.fold(held)
            held = []
            continue
        (reply,) = here.work([client])
        if what == "fold":
            here.fold([reply])
        elif what == "hold":
            held.append(reply)
        assert error(here) < 1e-12


def test_a_client_keeps_no_more_than_it_may_need():
    here = numbers(history=2)
    for lost in ((), (0, 1), (0, 1), (0, 1), (), ()):
        here.round([0, 1], lost)
        assert all(len(memory["variates"]) <= 3 for memory in here.memories.values())


# ---- edges and peers


def test_edges_add_up_to_one_server_and_a_share_that_is_lost_leaves_no_error():
    graphs = quadratics(a=(1, 3, 2, 5), b=(0, 1, -1, 2))
    cloud = numbers(graphs=graphs, steps=3, history=4)
    algorithm = cloud.algorithm
    edges, own = {0: [0, 1], 1: [2, 3]}, {0: algorithm.start(), 1: algorithm.start()}
    for arrives in ([0, 1], [0], [1], [0, 1], [], [0, 1]):
        top, shares = cloud.state, []
        for edge, members in edges.items():
            cloud.state = algorithm.mix(own[edge], [algorithm.share(top)], [1.0])
            cloud.round(members)
            cloud.round(members[:1])
            own[edge] = cloud.state
            shares += [algorithm.share(cloud.state)] if edge in arrives else []
        cloud.state = algorithm.mix(top, shares, [2.0] * len(shares)) if shares else top
        assert error(cloud) < 1e-12
    assert set(cloud.state["folded"]) == {0, 1, 2, 3}


def test_who_is_alone_trains_as_local_training_does():
    one, other = numbers(graphs=quadratics((3,), (1,)), alone=True), numbers(Local, quadratics((3,), (1,)))
    for _ in range(3):
        one.round([0])
        other.round([0])
        assert one.number == pytest.approx(float(other.memories[0]["local"]["x"]), abs=1e-12)


def test_peers_that_mix_track_the_gradient():
    """With one model each, doubly stochastic weights and no server, they all end where the mean is least."""
    here = numbers(alone=True, lr=0.05, steps=3)
    states = [here.algorithm.start(), here.algorithm.start()]
    for _ in range(150):
        for peer in (0, 1):
            here.state = states[peer]
            here.round([peer])
            states[peer] = here.state
        shares = [here.algorithm.share(state) for state in states]
        states = [here.algorithm.mix(state, shares, [1.0, 1.0]) for state in states]
    assert [float(state["model"]["x"]) for state in states] == pytest.approx([0.75, 0.75], abs=1e-3)


# ---- periods, clients without examples, refusals


@pytest.mark.parametrize("keep", [True, False])
def test_the_first_job_of_a_period_is_corrected_only_if_it_keeps(keep):
    here, plain = numbers(keep=keep), numbers(FedAvg)
    for _ in range(20):
        here.round([0, 1])
    here.graphs, here.period = quadratics(a=(2, 4), b=(-1, 3)), 1
    plain.graphs, plain.state = here.graphs, {"model": here.state["model"]}
    here.round([0, 1])
    plain.round([0, 1])
    assert (here.number == pytest.approx(plain.number, abs=1e-12)) is not keep
    assert error(here) < 1e-12
    for _ in range(80):
        here.round([0, 1])
    assert here.number == pytest.approx(10 / 6, abs=1e-6)  # (2 · −1 + 4 · 3) / (2 + 4)


@both_options
def test_a_client_without_examples_keeps_its_variate(variate):
    here = classifier(variate=variate)
    here.round([0, 1, 2])
    here.graphs[0] = {**here.graphs[0], "train": torch.zeros_like(here.graphs[0]["train"])}
    before = variates(here)[0]
    (reply,) = here.work([0])
    zero = tree.zeros_like(before)
    assert gap(reply.upload["update"], zero) == gap(reply.upload["control"], zero) == 0
    here.fold([reply])
    assert gap(variates(here)[0], before) == 0


@pytest.mark.parametrize(
    ("key", "context"),
    [("optimiser", {"optimiser": "adam"}), ("schedule", {"schedule": "cosine"}), ("clip", {"clip": 1.0})],
)
def test_training_that_a_difference_cannot_be_read_from_is_refused_or_gradients_are_taken(key, context):
    known = Context(quadratic(), learning_rate=0.1, local_steps=2, momentum=0.0, clients=2, **context)
    with pytest.raises(ScenarioError, match=rf"training\.{key}: .*variate: gradient"):
        replace(Scaffold(variate="difference"), context=known).start()
    own = replace(Scaffold(), context=known)
    own.start()
    assert own.by_gradient
    job = Job(0, "train", 0, own.download(own.start(), 0, "train"), TWO[0], {}, 0)
    assert own.extra_steps(job) == 1.0
    assert numbers().algorithm.extra_steps(job) == 0.0


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_of_the_server_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match="server_lr"):
        TypeAdapter(Scaffold).validate_python({"server_lr": rate})


# ---- whole runs


@pytest.mark.parametrize("counters", [True, False])
def test_a_message_is_two_models_and_a_counter(counters, tmp_path):
    protocol = {"name": "sync", "rounds": ROUNDS, "clients": CLIENTS}
    algorithm = {"name": "scaffold", "counters": counters}
    row = small_points.run_in(tmp_path / "run", algorithm=algorithm, protocol=protocol, training=SGD)
    down = DOWN + text("control") + MODEL + (text("folded") + NUMBER if counters else 0)
    up = UP - text("samples") - NUMBER + text("control") + MODEL + (text("counter") + NUMBER if counters else 0)
    assert (row["bytes_down"], row["bytes_up"]) == (ROUNDS * CLIENTS * down, ROUNDS * CLIENTS * up)


def test_option_one_takes_a_step_longer(tmp_path):
    seconds = {}
    for variate in ("gradient", "difference"):
        algorithm = {"name": "scaffold", "variate": variate}
        small_points.run_in(tmp_path / variate, algorithm=algorithm, training=SGD)
        spans = [row for row in small_points.table(tmp_path / variate, "spans") if row["what"] == "train"]
        seconds[variate] = sum(row["end"] - row["start"] for row in spans)
    assert seconds["gradient"] == pytest.approx(seconds["difference"] * 4 / 3)


@pytest.mark.long
@each_protocol
@both_options
def test_it_keeps_the_contract_under_sgd_whatever_the_protocol(variate, protocol, tmp_path, monkeypatch):
    options = changes("scaffold", protocol, "stormy") | {"training": SGD}
    options["algorithm"] = {"name": "scaffold", "variate": variate}
    watch = watched(monkeypatch, tmp_path, **options)
    check_sizes(watch)
    check_unchanged(watch)
    check_training(watch)
    check_same(watch, watched(monkeypatch, tmp_path, **options, cohort="loop"))


def drifted(of, lr, steps, seed):
    """How far from the optimum the mean loss of clients of unlike classes is after 30 rounds, in training loss."""
    graphs = {c: community([c, (c + 1) % 4], 10 * seed + c, n=40, train=1.0) for c in range(4)}
    task = drawn_task(MLP(layers=1, dropout=0.0), 20, 4, seed)
    here = federation(of, task, graphs, lr=lr, steps=steps)
    for _ in range(30):
        here.round([0, 1, 2, 3])
    return float(np.mean([float(task.loss(tree.stack([here.state["model"]]), graph)) for graph in graphs.values()]))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_clients_that_drift_apart_learn_more_with_it(seed):
    """A convex problem, all clients, 20 local steps: FedAvg ends beside the optimum, SCAFFOLD does not.

    The gap was 0.10 to 0.13 on the four seeds that were measured; half of that is asserted.
    """
    plain, own = drifted(FedAvg, 0.3, 20, seed), drifted(Scaffold, 0.3, 20, seed)
    assert own < plain - 0.05
