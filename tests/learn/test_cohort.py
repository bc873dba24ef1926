"""The cohort: work is done as late as possible, and nobody can tell."""

from dataclasses import dataclass, field

import pytest
import torch
from contexts import within
from learnlab import drawn, drawn_task, largest_gap, own_state

from fedsim.core import wire
from fedsim.core.seeds import Streams
from fedsim.data.graph import Period
from fedsim.learn.algorithm import Algorithm, Fit, Job
from fedsim.learn.engine import tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learner.client import Upload
from fedsim.learner.live import Live


@dataclass(frozen=True)
class Notebook(Algorithm):
    """Trains once or twice, writes down what it saw."""

    declare: str = "right"  # or nothing, or a wrong size
    fits: int = 1
    seen: list = field(default_factory=list)

    def start(self):
        return {"model": self.task.init()}

    def download(self, state, client, step):
        return {"model": state["model"]}

    def work(self, job):
        self.seen.append((job.client, job.period, len(job.data["y"]), job.memory.get("jobs", 0)))
        model = job.download["model"]
        for _ in range(self.fits + job.client % 2):  # the odd ones train once more
            model = yield Fit(model, lambda params, graph, given: self.task.loss(params, graph))
        job.memory["jobs"] = job.memory.get("jobs", 0) + 1
        job.memory["local"] = model
        return {"update": tree.sub(model, job.download["model"])}

    def update(self, state, replies, step):
        return state

    def upload_like(self, job):
        if self.declare == "nothing":
            return None
        return {"update": job.download["model"], **({"more": 0} if self.declare == "wrong" else {})}


class Counting(Trainer):
    calls = 0

    def train(self, work):
        self.calls += 1
        return super().train(work)


class Hall:
    """Three clients, one cohort, no network."""

    def __init__(self, *, batch=True, sizes=(8, 5, 13), **options):
        self.algorithm = within(Notebook(**options), drawn_task())
        self.trainer = Counting(Adam(0.05), 2)
        self.cohort = JobQueue(self.algorithm, self.trainer, batch=batch)
        self.learner = Live(self.algorithm, self.cohort, Streams(0), None)
        self.hosts = [self.learner.clients[k] for k in range(len(sizes))]
        self.begun = [0 for _ in sizes]
        for k, n in enumerate(sizes):
            self.hosts[k].arrive(Period(0, drawn(n, k)))
        self.model = {"model": self.algorithm.task.init()}

    def begin(self, client):
        self.begun[client] += 1
        seed = 100 * client + self.begun[client]
        (upload,), _ = self.learner.begin([client], "train", [self.model], [seed], travels=True)
        return upload.promise

    def finish(self, client, promise):
        self.hosts[client].last = Upload(promise, self.hosts[client], "train")

    def go(self, client):
        promise = self.begin(client)
        self.finish(client, promise)
        return promise

    def job(self, client):
        host = self.hosts[client]
        return Job(client, "train", host.period, self.model, host.data, dict(host.memory), 0)


def test_nothing_is_trained_before_a_value_is_needed_and_then_everything_at_once():
    hall = Hall(fits=1)
    promises = [hall.go(k) for k in (0, 2)]
    assert [promise.nbytes for promise in promises] == [wire.size({"update": hall.model["model"]})] * 2
    assert hall.trainer.calls == 0
    upload = promises[1].value()
    assert hall.trainer.calls == 1
    assert wire.size(upload) == promises[1].nbytes
    assert promises[0].value()
    assert hall.trainer.calls == 1
    assert promises[1].value() is upload


def test_an_undeclared_size_is_that_of_the_finished_work():
    hall = Hall(declare="nothing")
    promise = hall.go(0)
    assert promise.nbytes == wire.size(promise.value())
    assert hall.trainer.calls == 1


@pytest.mark.parametrize("batch", [True, False])
def test_a_size_that_was_declared_wrongly_is_refused(batch):
    hall = Hall(declare="wrong", batch=batch)
    promise = hall.go(2)
    with pytest.raises(ValueError, match=r"upload_like promised \d+ bytes for step 'train', the upload of client 2"):
        promise.value()


def test_a_job_sees_what_was_there_when_it_was_submitted():
    hall = Hall()
    promise = hall.go(0)
    hall.hosts[0].arrive(Period(1, drawn(20, 9)))
    promise.value()
    assert hall.algorithm.seen == [(0, 0, 8, 0)]
    hall.go(0).value()
    assert hall.algorithm.seen[1] == (0, 1, 20, 1)


def test_a_clients_next_job_settles_its_last_one_first():
    hall = Hall()
    hall.go(0)
    assert hall.trainer.calls == 0
    second = hall.begin(0)
    assert hall.trainer.calls == 1  # the first one only
    assert second.job.memory["jobs"] == 1
    hall.finish(0, second)
    assert hall.hosts[0].memory["jobs"] == 2


def test_a_cancelled_job_leaves_no_trace():
    hall, quiet = Hall(), Hall()
    for each in (hall, quiet):
        for k in (0, 1, 2):
            each.go(k)
        each.cohort.settle()
    before = dict(hall.hosts[1].memory)
    cancelled = hall.begin(1)  # nobody notes its end
    cancelled.cancel()
    runs = len(hall.algorithm.seen)
    hall.cohort.settle()
    assert len(hall.algorithm.seen) == runs
    after = hall.hosts[1].memory
    assert after.keys() == before.keys()
    assert all(after[key] is before[key] for key in before)
    quiet.begin(1).cancel()  # so that both have used up a job's seed
    for each in (hall, quiet):
        each.go(1)
        each.cohort.settle()
    assert largest_gap(hall.hosts[1].memory["local"], quiet.hosts[1].memory["local"]) == 0


def test_a_job_cancelled_after_it_was_trained_leaves_no_trace_either():
    hall = Hall()
    for k in (0, 1, 2):
        hall.go(k)
    hall.cohort.settle()
    state = own_state(hall.hosts[1].memory["optimiser.model"])
    held = tree.transform(torch.clone, state)
    doomed = hall.begin(1)
    hall.go(0).value()  # settles all that is pending, the doomed one too
    doomed.cancel()
    assert hall.hosts[1].memory["jobs"] == 1
    assert largest_gap(own_state(hall.hosts[1].memory["optimiser.model"]), held) == 0
    assert float(own_state(hall.hosts[1].memory["optimiser.model"])["steps"]) == 4  # client 1 trains twice a job


@pytest.mark.parametrize("fits", [0, 1, 2])
def test_batched_equals_one_by_one_also_where_some_train_more_often(fits):
    union, loop = Hall(fits=fits), Hall(fits=fits, batch=False)
    for cohort in ([0, 1, 2], [1], [2, 1], [0, 1, 2]):
        for hall in (union, loop):
            for k in cohort:
                hall.go(k)
        for mine, other in zip(union.hosts, loop.hosts, strict=True):
            assert mine.memory.keys() == other.memory.keys()
            if "local" in mine.memory:
                assert largest_gap(mine.memory["local"], other.memory["local"]) < 1e-4
    assert union.trainer.calls < loop.trainer.calls or fits == 0  # then client 1 is alone with its fit


def test_work_that_only_returns_needs_no_trainer():
    @dataclass(frozen=True)
    class Plain(Notebook):
        def work(self, job):
            return {"update": job.download["model"]}

    hall = Hall()
    cohort = JobQueue(within(Plain(), hall.algorithm.task), hall.trainer)
    assert cohort.submit(hall.job(0)).value() == {"update": hall.model["model"]}
    assert hall.trainer.calls == 0


@dataclass(frozen=True)
class Extra(Notebook):
    """Works more than it trains."""

    def effort(self, job):
        return 2.0

    def extra_steps(self, job):
        return 7.0


@pytest.mark.parametrize("steps", [1, 3])
def test_extra_steps_are_billed_beside_the_training_whatever_the_number_of_local_steps(steps):
    hall = Hall()
    algorithm = within(Extra(), hall.algorithm.task)
    job = hall.job(0)
    flops = JobQueue(algorithm, Counting(Adam(0.05), steps)).flops(job)
    assert flops == algorithm.task.flops(job.data) * (2 * steps + 7)


def test_a_job_takes_the_operations_of_its_own_graph_also_where_another_was_met_before():
    hall = Hall(sizes=(8, 5))
    counted, graphs, flops = [], [], []
    for n in (0, 1, 0, 1):
        if n == 1:
            hall.hosts[1].arrive(Period(len(graphs), drawn(9 + 4 * len(graphs), n)))
        job = hall.job(n)
        graphs.append(job.data)
        flops.append(hall.cohort.flops(job))
        counted.append(2 * hall.algorithm.task.flops(job.data))
    assert flops == counted
    assert len(set(counted)) == 3


@pytest.mark.parametrize("wider", [False, True])
def test_declared_sizes_are_right_also_where_the_model_has_changed_since_the_last_settling(wider):
    hall = Hall()
    hall.go(0).value()
    if wider:  # in place, which no algorithm does, and the same dict
        hall.model["model"]["layer1"]["spare"] = torch.ones(4)
    assert hall.begin(1).nbytes == wire.size({"update": hall.model["model"]})


def test_uploads_of_a_cohort_are_measured_without_being_cut_up_and_are_those_of_each():
    hall = Hall(fits=2)
    uploads = [promise.value() for promise in [hall.go(k) for k in (0, 2)]]
    assert all(upload["update"].origin is not None for upload in uploads)
    for upload, host in zip(uploads, (hall.hosts[0], hall.hosts[2]), strict=True):
        assert wire.size(upload) == len(wire.encode(upload))
        assert largest_gap(upload["update"], tree.transform(torch.sub, host.memory["local"], hall.model["model"])) == 0
