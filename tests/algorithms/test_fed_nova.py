"""FedNova: FedAvg where all clients train alike, the formula by hand where they do not, and no bias by steps."""

import pytest
import small_points
import torch
from camps import added, community, gap, moved, rounds
from contexts import within
from learnlab import drawn_task

from algorithms import fed_nova
from algorithms.fed_nova import FedNova
from algorithms.fedavg import FedAvg
from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.core.record import Recorder
from fedsim.learn.algorithm import Job
from fedsim.learn.engine import tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import SGD
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gcn import GCN
from fedsim.point.build.assemble import build


def made(of=FedNova, local_steps=3, momentum=0.0, **options):
    task = drawn_task(GCN(hidden=8, dropout=0.0), 20, 4)
    return within(of(**options), task, local_steps=local_steps, momentum=momentum)


def graphs():
    return {c: community([0, 1, 2, 3] if c else [3, 0, 1, 2], c, n=24 + 8 * c) for c in range(3)}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_with_equal_steps_it_is_fedavg_bit_for_bit(momentum):
    asked = [[0, 1, 2], [0, 2], [1]]
    nova, _, _ = rounds(made(momentum=momentum), graphs(), asked)
    plain, _, _ = rounds(made(FedAvg), graphs(), asked)
    assert gap(nova["model"], plain["model"]) == 0


def test_with_equal_steps_whole_runs_are_fedavgs_but_for_eight_bytes(tmp_path):
    training = {"optimiser": "sgd", "lr": 0.1, "momentum": 0.9, "local_steps": 3, "keep_state": False}
    tables = {}
    for name in ("fedavg", "fed_nova"):
        small_points.run_in(tmp_path / name, algorithm=name, training=training)
        tables[name] = {table: small_points.table(tmp_path / name, table) for table in ("scores", "transfers")}
    values = [[row["value"] for row in tables[name]["scores"]] for name in tables]
    assert values[0] == values[1]
    more = len(wire.encode({"length": 0.0})) - len(wire.encode({}))
    up = [sum(row["nbytes"] for row in tables[name]["transfers"] if row["dst"] < 0) for name in tables]
    count = sum(row["dst"] < 0 for row in tables["fedavg"]["transfers"])
    assert up[1] - up[0] == more * count
    assert more == 8 + len("length") + 2  # the number, its name, and a byte of msgpack for each


@pytest.mark.parametrize(("optimiser", "momentum"), [("sgd", 0.9), ("adam", 0.0)])
def test_a_run_tells_it_steps_and_momentum(optimiser, momentum, tmp_path):
    training = {"optimiser": optimiser, "lr": 0.1, "momentum": 0.9, "local_steps": 4}
    built = build(small_points.scenario(algorithm="fed_nova", training=training), tmp_path, Recorder())
    algorithm = built.learner.algorithm
    assert (algorithm.local_steps, algorithm.momentum) == (4, momentum)


@pytest.mark.parametrize(
    ("momentum", "steps", "length"), [(0.0, 1, 1.0), (0.0, 7, 7.0), (0.5, 1, 1.0), (0.5, 3, 1 + 1.5 + 1.75)]
)
def test_the_length_of_a_training(momentum, steps, length):
    assert fed_nova.length(steps, momentum) == pytest.approx(length)


def test_the_length_is_how_far_a_constant_gradient_leads():
    """Under L = w the gradient is 1 everywhere: a client ends at −lr · a."""

    class Slope(FedNova):
        def loss(self, params, data, given):
            return sum(leaf.flatten(1).sum(1) for leaf in tree.leaves(params))

    own = made(Slope, local_steps=6, momentum=0.7)
    job = Job(0, "train", 0, own.download(own.start(), 0, "train"), community([0, 1], 0), {}, 5)
    upload = JobQueue(own, Trainer(SGD(0.01, 0.0, 0.7), 6)).submit(job).value()
    for leaf in tree.leaves(upload["update"]):
        torch.testing.assert_close(leaf, torch.full_like(leaf, -0.01 * upload["length"]))


def test_unequal_steps_by_hand():
    own = made()
    replies = [moved(own, 0, 3.0, 10, 1.0, length=2.0), moved(own, 1, 10.0, 30, 1.0, length=5.0)]
    model = own.update(own.start(), replies, "train")["model"]
    tau = 0.25 * 2 + 0.75 * 5  # 4.25
    assert added(own, model) == pytest.approx(tau * (0.25 * 3 / 2 + 0.75 * 10 / 5), abs=1e-5)
    stale = [replies[0], moved(own, 1, 10.0, 30, 0.5, length=5.0)]
    model = own.update(own.start(), stale, "train")["model"]
    assert added(own, model) == pytest.approx(tau * (0.25 * 3 / 2 + 0.5 * 0.75 * 10 / 5), abs=1e-5)


def test_clients_without_examples_count_alike():
    own = made()
    replies = [moved(own, 0, 0.0, 0, 1.0, length=2.0), moved(own, 1, 4.0, 0, 1.0, length=4.0)]
    assert added(own, own.update(own.start(), replies, "train")["model"]) == pytest.approx(3 * 0.5 * (0 + 1), abs=1e-5)


def test_jobs_take_between_the_least_and_the_scenarios_steps():
    own, graph = made(local_steps=6, least=2), community([0, 1], 0)
    jobs = [Job(0, "train", 0, own.download(own.start(), 0, "train"), graph, {}, seed) for seed in range(60)]
    taken = [own.taken(job) for job in jobs]
    assert set(taken) == {2, 3, 4, 5, 6}
    assert [own.effort(job) * 6 for job in jobs] == pytest.approx(taken)
    cohort = JobQueue(own, Trainer(SGD(0.1), 6))
    uploads = [cohort.submit(job) for job in jobs[:8]]
    assert [one.value()["length"] for one in uploads] == [float(steps) for steps in taken[:8]]
    for job, one in zip(jobs[:8], uploads, strict=True):
        alone = made(FedAvg)
        same = Job(0, "train", 0, alone.download(alone.start(), 0, "train"), graph, {}, job.seed)
        expected = JobQueue(alone, Trainer(SGD(0.1), own.taken(job))).submit(same).value()
        assert gap(one.value()["update"], expected["update"]) < 1e-6


def test_more_steps_than_the_scenario_has_are_refused():
    with pytest.raises(ScenarioError, match="least"):
        made(local_steps=2, least=3).start()
