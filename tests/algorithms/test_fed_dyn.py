"""FedDyn: the printed algorithm by hand and on problems whose answer is known, and an h that is always the mean."""

import random

import pytest
import small_points
import torch
from camps import community
from federations import federation, gap, quadratic, quadratics
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn_task
from pydantic import TypeAdapter
from test_fedavg_bytes import CLIENTS, DOWN, NUMBER, ROUNDS, UP, text

from algorithms.fed_dyn import FedDyn
from fedsim.learn.engine import tree
from fedsim.learn.models.mlp import MLP

TWO = quadratics(a=(1, 3), b=(0, 1))  # whose mean is least at 0.75
SLOPE = 0.75  # of the first at 0.75, and the negative of the second's


def numbers(graphs=TWO, **how):
    """Clients who find the least of what they train on."""
    return federation(FedDyn, quadratic(), graphs, **{"lr": 0.25, "steps": 100} | how)


def held(here):
    """Each client's variate that the server has folded last, as the client holds it."""
    zero, folded = tree.zeros_like(here.state["model"]), here.state["folded"]
    return [here.memories[k]["variates"][folded[k]] if k in folded else zero for k in here.graphs]


def error(here):
    """How far h is from the mean of all clients' variates."""
    return gap(here.state["control"], tree.mean(held(here), [1.0] * len(here.graphs)))


def test_the_first_round_of_all_goes_twice_as_far_as_the_mean():
    here = numbers(steps=7)
    ends = [float(reply.upload["update"]["x"]) for reply in here.work([0, 1])]
    here = numbers(steps=7)
    here.round([0, 1])
    assert here.number == pytest.approx(sum(ends))  # 2 · mean − 0
    assert here.number != 0


@pytest.mark.parametrize(("alpha", "rounds"), [pytest.param(0.03, 700, marks=pytest.mark.long), (0.1, 200), (1.0, 30)])
def test_it_ends_at_the_optimum_where_every_variate_is_its_clients_slope(alpha, rounds):
    here = numbers(alpha=alpha, steps=40)
    for _ in range(rounds):
        here.round([0, 1])
    assert here.number == pytest.approx(0.75, abs=1e-4)
    assert [float(one["x"]) for one in held(here)] == pytest.approx([SLOPE, -SLOPE], abs=1e-4)
    assert float(here.state["control"]["x"]) == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(("alpha", "rounds"), [(0.1, 500), (1.0, 60)])
def test_one_client_a_round_leads_there_too(alpha, rounds):
    here, drawn = numbers(alpha=alpha, steps=40), random.Random(5)
    for _ in range(rounds):
        here.round([drawn.randrange(2)])
        assert error(here) < 1e-12
    assert here.number == pytest.approx(0.75, abs=1e-4)


def test_a_strong_regulariser_holds_clients_to_the_model_they_received():
    here = numbers(quadratics(a=(1, 1), b=(0, 1)), alpha=1e6, lr=1 / (1 + 1e6), steps=3)
    assert max(abs(float(reply.upload["update"]["x"])) for reply in here.work([0, 1])) < 2e-6


@pytest.mark.parametrize("batch", [True, False])
def test_it_is_the_printed_loop(batch):
    """With plain gradients of two layers, by torch alone."""
    graphs = {c: community([c, c + 1], c, n=16 + 8 * c, train=0.7) for c in range(3)}
    task = drawn_task(MLP(hidden=5, dropout=0.0), 20, 4)
    here = federation(FedDyn, task, graphs, lr=0.2, steps=4, alpha=0.3, batch=batch)
    x = here.state["model"]
    zero = tree.zeros_like(x)
    h, own = zero, dict.fromkeys(graphs, zero)
    for cohort in ([0, 2], [1], [0, 1, 2], [2]):
        here.round(cohort)
        ends = []
        for k in cohort:
            y = x
            for _ in range(4):
                slope = gradient(task, y, graphs[k])
                y = tree.transform(lambda w, g, o, r: w - 0.2 * (g - o + 0.3 * (w - r)), y, slope, own[k], x)
            own[k] = tree.transform(lambda o, w, r: o - 0.3 * (w - r), own[k], y, x)
            h = tree.transform(lambda c, w, r: c - 0.3 / 3 * (w - r), h, y, x)
            ends.append(y)
        x = tree.sub(tree.mean(ends, [1.0] * len(ends)), tree.scale(h, 1 / 0.3))
    assert gap(here.state["model"], x) < 2e-5
    assert gap(here.state["control"], h) < 2e-5
    assert gap(x, here.algorithm.start()["model"]) > 0.05


def gradient(task, model, graph):
    params = tree.transform(lambda leaf: leaf.unsqueeze(0).clone().requires_grad_(True), model)
    found = iter(torch.autograd.grad(task.loss(params, graph).sum(), list(tree.leaves(params))))
    return tree.transform(lambda _: next(found).squeeze(0), params)


def test_lost_uploads_leave_no_error_and_as_printed_they_do():
    ends = {}
    for counters in (True, False):
        here, drawn = numbers(counters=counters, alpha=1.0, steps=40), random.Random(11)
        for _ in range(100):
            here.round([0, 1], lost=[k for k in (0, 1) if drawn.random() < 0.3])
        ends[counters] = here.number
        if counters:
            assert error(here) < 1e-12
    assert ends[True] == pytest.approx(0.75, abs=1e-6)
    assert abs(ends[False] - 0.75) > 0.01


FATES = st.sampled_from(["fold", "lose", "hold", "release", "next period"])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), FATES), max_size=15), st.booleans())
def test_h_is_always_the_mean_of_what_clients_hold(moves, keep):
    """Whatever is lost, held back, folded later in any order, or of a new period."""
    here = numbers(quadratics(a=(1, 3, 2), b=(0, 1, -1)), steps=3, history=30, keep=keep, alpha=0.5)
    waiting = []
    for client, what in moves:
        if what == "next period":
            here.period += 1
            continue
        if what == "release":
            here.fold(waiting, weight=0.5)
            waiting = []
            continue
        (reply,) = here.work([client])
        if what == "fold":
            here.fold([reply])
        elif what == "hold":
            waiting.append(reply)
        assert error(here) < 1e-12


@pytest.mark.parametrize("keep", [True, False])
def test_the_first_job_of_a_period_starts_without_a_variate_only_unless_it_keeps(keep):
    here, plain = numbers(keep=keep, alpha=1.0), numbers(alpha=1.0)
    for _ in range(20):
        here.round([0, 1])
    here.graphs, here.period = quadratics(a=(2, 4), b=(-1, 3)), 1
    plain.graphs, plain.state = here.graphs, plain.state | {"model": here.state["model"]}
    one, other = here.work([0, 1]), plain.work([0, 1])
    assert all(("given_up" in reply.upload) is not keep for reply in one)
    moves, fresh = ([float(reply.upload["update"]["x"]) for reply in some] for some in (one, other))
    assert (moves == pytest.approx(fresh)) is not keep
    here.fold(one)
    assert error(here) < 1e-12
    for _ in range(60):
        here.round([0, 1])
    assert here.number == pytest.approx(10 / 6, abs=1e-5)  # (2 · −1 + 4 · 3) / (2 + 4)


def test_who_is_alone_ends_where_its_own_loss_is_least():
    here = numbers(quadratics((3,), (1,)), alone=True, alpha=0.5)
    for _ in range(30):
        here.round([0])
    assert here.number == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf"), float("nan")])
def test_an_alpha_by_which_nothing_is_divided_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha"):
        TypeAdapter(FedDyn).validate_python({"alpha": alpha})


@pytest.mark.parametrize("counters", [True, False])
def test_a_message_is_a_model_and_a_counter(counters, tmp_path):
    protocol = {"name": "sync", "rounds": ROUNDS, "clients": CLIENTS}
    row = small_points.run_in(
        tmp_path / "run", algorithm={"name": "fed_dyn", "counters": counters, "keep": True}, protocol=protocol
    )
    down = DOWN + (text("folded") + NUMBER if counters else 0)
    up = UP - text("samples") - NUMBER + (text("counter") + NUMBER if counters else 0)
    assert (row["bytes_down"], row["bytes_up"]) == (ROUNDS * CLIENTS * down, ROUNDS * CLIENTS * up)
