"""The trainer: one computation for many fits gives what a loop over them gives."""

import pytest
import torch
from learnlab import drawn, drawn_task, job_of, largest_gap, own_state

from fedsim.learn.algorithm import Fit
from fedsim.learn.continual import replay
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import SGD, Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gat import GAT
from fedsim.learn.models.gcn import GCN

SIZES = [12, 3, 7, 30, 7]


class Trial:
    """Some clients with a trainer of their own; `fit` trains those named, from one model for all of them."""

    def __init__(self, task, *, optimiser=None, steps=2, batch=True, **options):
        self.task, self.batch = task, batch
        self.trainer = Trainer(optimiser or Adam(0.05, 0.01), steps, **options)
        self.graphs = [drawn(n, k, as_csr=k % 2 == 0 and options.get("as_csr", False)) for k, n in enumerate(SIZES)]
        self.memories = [{} for _ in SIZES]
        self.buffers = [replay.isolated(g, torch.arange(k)) for k, g in enumerate(self.graphs)]

    def loss(self, params, graph, given):
        pull = 0.05 * tree.sq_distance(params, given["received"])
        return replay.mixed(self.task, params, graph, given["buffer"], 0.4) + given["weight"] * pull

    def correct(self, grads, given):
        # not as much as the decay of weights: a gradient of nothing but rounding would give Adam steps of any sign
        return tree.sub(grads, tree.scale(given["received"], 0.03))

    def fit(self, clients, model, seed, **options):
        work = []
        for k in clients:
            given = {"received": model, "buffer": self.buffers[k], "weight": 1.0 + k}
            fit = Fit(model, self.loss, given=given, correct=self.correct, **options)
            work.append((job_of(k, self.graphs[k], self.memories[k], seed=seed), fit))
        if self.batch:
            return self.trainer.train(work)
        return [self.trainer.train([one])[0] for one in work]

    def moments(self, client):
        kept = self.memories[client].get("optimiser.model")
        return None if kept is None else own_state(kept)


COHORTS = [[0, 1, 2, 3, 4], [2, 0], [4, 3, 2, 1, 0], [1], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [3, 1, 4]]


@pytest.mark.parametrize("model", [GCN(hidden=5), GAT(hidden=5)])
@pytest.mark.parametrize("optimiser", [Adam(0.05, 0.01), SGD(0.1, 0.01, 0.9)])
def test_the_union_equals_the_loop_after_every_fit(model, optimiser):
    task = drawn_task(model)
    union, loop = Trial(task, optimiser=optimiser), Trial(task, optimiser=optimiser, batch=False)
    start = task.init()
    for round_, cohort in enumerate(COHORTS):
        together, apart = union.fit(cohort, start, round_), loop.fit(cohort, start, round_)
        for k, one, other in zip(cohort, together, apart, strict=True):
            assert largest_gap(one, other) < 1e-4
            assert largest_gap(union.moments(k), loop.moments(k)) < 1e-4
            assert largest_gap(one, start) > 1e-3  # it was trained at all
        start = tree.mean(apart, [1.0] * len(apart))


def test_the_optimisers_steps_are_each_clients_own():
    trial = Trial(drawn_task(), steps=3)
    for round_, cohort in enumerate(COHORTS):
        trial.fit(cohort, trial.task.init(), round_)
    jobs = [sum(k in cohort for cohort in COHORTS) for k in range(5)]
    assert [float(trial.moments(k)["steps"]) for k in range(5)] == [3 * count for count in jobs]


@pytest.mark.parametrize("budget", [1, 10_000, 20_000])
def test_groups_within_a_memory_budget_give_the_same(budget):
    task = drawn_task()
    whole, split = Trial(task), Trial(task, budget=budget)
    for round_, cohort in enumerate(COHORTS):
        for one, other in zip(
            whole.fit(cohort, task.init(), round_), split.fit(cohort, task.init(), round_), strict=True
        ):
            assert largest_gap(one, other) < 1e-4


def count_losses(trial, **options):
    calls = []

    def loss(params, graph, given):
        calls.append(len(graph["sizes"]))
        return trial.task.loss(params, graph)

    work = [(job_of(k, g, {}), Fit(trial.task.init(), loss, **options)) for k, g in enumerate(trial.graphs)]
    trial.trainer.train(work)
    return calls


def test_how_many_computations_there_are():
    task = drawn_task()
    assert count_losses(Trial(task, steps=1)) == [5]
    assert sorted(count_losses(Trial(task, steps=1, budget=1))) == [1] * 5
    assert sorted(count_losses(Trial(task, steps=1), each=True)) == [1] * 5
    assert sum(count_losses(Trial(task, steps=1, budget=15_000))) == 5
    assert 1 < len(count_losses(Trial(task, steps=1, budget=15_000))) < 5


def test_results_come_in_the_order_of_the_work_whatever_the_groups():
    task = drawn_task(GCN(hidden=5, dropout=0.0))
    trial = Trial(task, steps=1)
    other = drawn_task(GCN(hidden=3, dropout=0.0))  # other shapes cannot share a computation

    def loss(params, graph, given):
        return (task if params["layer1"]["bias"].shape[1] == 5 else other).loss(params, graph)

    starts = [task.init() if k % 2 else other.init() for k in range(5)]
    work = [(job_of(k, trial.graphs[k], {}), Fit(starts[k], loss)) for k in (3, 0, 4, 1, 2)]
    for (job, fit), result in zip(work, trial.trainer.train(work), strict=True):
        (alone,) = Trainer(Adam(0.05, 0.01), 1).train([(job_of(job.client, job.data, {}), fit)])
        assert largest_gap(result, alone) < 1e-5


def test_no_state_is_kept_where_none_is_wanted():
    task = drawn_task()
    kept, fresh, none = Trial(task), Trial(task, keep_state=False), Trial(task)
    first = [trial.fit([0, 1], task.init(), 0) for trial in (kept, fresh)]
    none.fit([0, 1], task.init(), 0, slot=None)
    assert largest_gap(first[0][0], first[1][0]) == 0
    assert fresh.memories[0] == none.memories[0] == {}
    assert largest_gap(kept.fit([0], task.init(), 1)[0], fresh.fit([0], task.init(), 1)[0]) > 1e-4


def test_slots_do_not_share_their_state():
    trial = Trial(drawn_task())
    trial.fit([0, 1], trial.task.init(), 0)
    trial.fit([0, 1], trial.task.init(), 1, slot="other")
    memory = trial.memories[0]
    assert (
        float(own_state(memory["optimiser.model"])["steps"])
        == float(own_state(memory["optimiser.other"])["steps"])
        == 2
    )


def test_what_a_memory_held_is_never_changed_afterwards():
    trial = Trial(drawn_task())
    cohort = [0, 1, 2, 3, 4]
    trial.fit(cohort, trial.task.init(), 0)
    before = [dict(memory) for memory in trial.memories]
    held = [tree.transform(torch.clone, own_state(memory["optimiser.model"])) for memory in before]
    trial.fit(cohort, trial.task.init(), 1)
    trial.fit([2, 1], trial.task.init(), 2)
    for memory, state in zip(before, held, strict=True):
        assert largest_gap(own_state(memory["optimiser.model"]), state) == 0
    again = Trial(drawn_task())  # and training can begin anew from there
    again.memories = before
    assert largest_gap(again.fit(cohort, trial.task.init(), 1)[0], trial.task.init()) > 0
    assert float(again.moments(0)["steps"]) == 4


def test_the_start_is_not_changed():
    trial = Trial(drawn_task())
    start = trial.task.init()
    trial.fit([0, 1, 2], start, 0)
    assert largest_gap(start, trial.task.init()) == 0


def test_own_data_of_a_fit_is_trained_on():
    task = drawn_task(GCN(hidden=5, dropout=0.0))
    mine, other = drawn(9, 1), drawn(9, 2)

    def loss(params, graph, given):
        return task.loss(params, graph)

    trainer = Trainer(Adam(0.05), 2)
    (given,) = trainer.train([(job_of(0, mine, {}), Fit(task.init(), loss, data=other))])
    (held,) = trainer.train([(job_of(0, other, {}), Fit(task.init(), loss))])
    assert largest_gap(given, held) == 0


def test_a_parameter_that_the_loss_does_not_use_stays():
    task = drawn_task(GCN(hidden=5, dropout=0.0))

    def loss(params, graph, given):
        return task.loss({key: params[key] for key in ("layer1", "layer2")}, graph)

    start = {**task.init(), "spare": {"weight": torch.ones(2)}}
    (trained,) = Trainer(Adam(0.05), 3).train([(job_of(0, drawn(9, 1), {}), Fit(start, loss))])
    assert torch.equal(trained["spare"]["weight"], torch.ones(2))


def test_dropout_follows_the_jobs_seed_and_the_step():
    task = drawn_task()
    one, same, other = (Trial(task) for _ in range(3))
    results = [trial.fit([0], task.init(), seed)[0] for trial, seed in ((one, 1), (same, 1), (other, 2))]
    assert largest_gap(results[0], results[1]) == 0
    assert largest_gap(results[0], results[2]) > 1e-4


WRONG_HOOKS = {
    "nothing": lambda grads, given: None,
    "one layer": lambda grads, given: {"layer1": grads["layer1"]},
    "the sum over clients": lambda grads, given: tree.transform(lambda leaf: leaf.sum(0), grads),
    "a list": lambda grads, given: list(tree.leaves(grads)),
    "a number": lambda grads, given: tree.transform(lambda leaf: 0.0, grads),
}


@pytest.mark.parametrize("hook", WRONG_HOOKS.values(), ids=WRONG_HOOKS)
def test_a_hook_that_returns_no_gradients_is_named(hook):
    task = drawn_task(GCN(hidden=5))
    fit = Fit(task.init(), lambda params, graph, given: task.loss(params, graph), correct=hook)
    with pytest.raises(ValueError, match=r"Fit\.correct \(<lambda>\) must return .*layer1: \{weight: \(1, "):
        Trainer(SGD(0.1), 1).train([(job_of(0, drawn(7, 0), {}), fit)])


def test_a_hook_may_name_layers_in_another_order():
    task, ends = drawn_task(GCN(hidden=5)), []
    for hook in (lambda grads, given: grads, lambda grads, given: dict(reversed(grads.items()))):
        fit = Fit(task.init(), lambda params, graph, given: task.loss(params, graph), correct=hook)
        ends += Trainer(SGD(0.1), 2).train([(job_of(0, drawn(7, 0), {}), fit)])
    assert largest_gap(*ends) == 0
