"""Training many clients at once: the same as one by one, whatever the grouping, with each client's own state."""

import math
from dataclasses import dataclass

import pytest
import torch
from contexts import within

from algorithms.fedavg import FedAvg
from fedsim.data.graph import graph_of
from fedsim.learn.algorithm import Fit, Job
from fedsim.learn.engine import ops, tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import SGD, Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gat import GAT
from fedsim.learn.models.gcn import GCN
from fedsim.learn.task import bind as bind_task
from fedsim.learn.tasks.node_classification import NodeClassification


def graph_for(client, n=None, train=0.6):
    g = torch.Generator().manual_seed(client)
    n = 5 + 3 * client if n is None else n
    edges = torch.randint(n, (2, 3 * n), generator=g)
    mask = torch.rand(n, generator=g) < train
    return graph_of(
        torch.randn(n, 6, generator=g), torch.cat([edges, edges.flip(0)], 1), torch.arange(n) % 3, mask, ~mask
    )


def world(batch=True, model=None, optimiser=None, steps=2, algorithm=None, **options):
    task = bind_task(NodeClassification(), model or GCN(hidden=8), 6, 3, 0, "cpu")
    algorithm = within(algorithm or FedAvg(), task)
    trainer = Trainer(optimiser or Adam(0.01, 5e-4), steps, **options)
    return algorithm, JobQueue(algorithm, trainer, batch=batch)


def rounds(cohort, algorithm, plan, graphs):
    """Run rounds of clients; return each round's uploads and the memories at the end."""
    state, memories, seen, number = algorithm.start(), {}, [], 0
    for clients in plan:
        promises = {}
        for client in clients:
            number += 1
            job = Job(client, "train", 0, algorithm.download(state, client, "train"), graphs[client],
                      dict(memories.get(client, {})), 1000 * client + number)  # fmt: skip
            promises[client] = cohort.submit(job)
        uploads = {client: promise.value() for client, promise in promises.items()}
        memories |= {client: promise.memory() for client, promise in promises.items()}
        seen.append(uploads)
        state = {
            "model": tree.add(state["model"], tree.mean([u["update"] for u in uploads.values()], [1] * len(uploads)))
        }
    return seen, memories


def apart(one, other):
    return max(float((a - b).abs().max()) for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True))


PLAN = [(0, 1, 2, 3), (1, 3), (0, 2, 4), (4, 1, 0)]


@pytest.mark.long
@pytest.mark.parametrize("model", [GCN(hidden=8), GAT(hidden=8)])
@pytest.mark.parametrize("optimiser", [Adam(0.01, 5e-4), SGD(0.1, 1e-3, 0.9), SGD(0.1)])
@pytest.mark.parametrize("options", [{}, {"budget": 1}, {"budget": 60_000}, {"keep_state": False}])
def test_together_in_groups_and_one_by_one_agree_after_each_fit(model, optimiser, options):
    graphs = {client: graph_for(client) for client in range(5)}
    results = []
    for batch, extra in [(True, options), (False, {k: v for k, v in options.items() if k == "keep_state"})]:
        algorithm, cohort = world(batch, model, optimiser, **extra)
        results.append(rounds(cohort, algorithm, PLAN, graphs)[0])
    for mine, theirs in zip(*results, strict=True):
        assert all(apart(mine[c]["update"], theirs[c]["update"]) < 1e-5 for c in theirs)


@pytest.mark.parametrize("ours", [Adam(0.01, 5e-4), SGD(0.05, 1e-3, 0.9), SGD(0.05)])
def test_the_optimisers_are_those_of_torch_also_for_clients_at_different_steps(ours):
    g = torch.Generator().manual_seed(0)
    weights = [torch.randn(4, 3, generator=g) for _ in range(3)]
    plain = [torch.nn.Parameter(w.clone()) for w in weights]
    if isinstance(ours, Adam):
        theirs = [torch.optim.Adam([p], lr=ours.lr, weight_decay=ours.weight_decay) for p in plain]
    else:
        theirs = [
            torch.optim.SGD([p], lr=ours.lr, weight_decay=ours.weight_decay, momentum=ours.momentum) for p in plain
        ]
    mine = [{"w": w.clone()} for w in weights]
    states = [tree.at(ours.start(tree.stack([m]), 1), 0) for m in mine]
    for step in range(30):
        who = [k for k in range(3) if step % (k + 1) == 0]
        gradient = {k: torch.randn(4, 3, generator=g) for k in who}
        params, state = tree.stack([mine[k] for k in who]), tree.stack([states[k] for k in who])
        params, state = (tree.transform(lambda leaf: leaf.clone(), t) for t in (params, state))
        ours.apply([params["w"]], [torch.stack([gradient[k] for k in who])], state)
        for place, k in enumerate(who):
            mine[k], states[k] = tree.at(params, place), tree.at(state, place)
            plain[k].grad = gradient[k].clone()
            theirs[k].step()
    assert all(float((m["w"] - p.detach()).abs().max()) < 1e-5 for m, p in zip(mine, plain, strict=True))


def test_one_client_trains_as_one_model_would_by_itself():
    algorithm, cohort = world(steps=3)
    graph = graph_for(2)
    seen, _ = rounds(cohort, algorithm, [(2,)] * 6, {2: graph})
    model = algorithm.task.init()
    leaves = [leaf.clone().requires_grad_(True) for leaf in tree.leaves(model)]
    adam = torch.optim.Adam(leaves, lr=0.01, weight_decay=5e-4)
    for number in range(1, 7):
        for step in range(3):
            order = iter(leaves)
            params = tree.transform(lambda _: next(order).unsqueeze(0), model)  # noqa: B023
            data = {**graph, "seed": ops.seed_steps(torch.tensor([2000 + number]), step, 0)}
            adam.zero_grad()
            algorithm.task.loss(params, data).sum().backward()
            adam.step()
    total = tree.transform(torch.zeros_like, model)
    for uploads in seen:
        total = tree.add(total, uploads[2]["update"])
    order = iter(leaves)
    assert apart(tree.add(model, total), tree.transform(lambda _: next(order).detach(), model)) < 1e-4


def test_a_client_without_training_nodes_sends_the_model_as_it_came():
    algorithm, cohort = world()
    uploads, memories = rounds(cohort, algorithm, [(0, 1)], {0: graph_for(0, train=0.0), 1: graph_for(1)})
    assert max(float(leaf.abs().max()) for leaf in tree.leaves(uploads[0][0]["update"])) == 0
    assert "optimiser.model" not in memories[0]
    assert max(float(leaf.abs().max()) for leaf in tree.leaves(uploads[0][1]["update"])) > 0


@dataclass(frozen=True)
class Twice(FedAvg):
    """Two fits in a row, the second with a loss by itself, a correction, and no memory of the optimiser."""

    def work(self, job):
        model = yield Fit(start=job.download["model"], loss=self.loss)
        after = yield Fit(
            start=model, loss=self.pull, given={"to": model, "scale": 2.0}, slot=None, each=True, correct=self.still
        )
        return {"update": tree.sub(after, model), "samples": 1}

    def pull(self, params, data, given):
        return given["scale"] * tree.sq_distance(params, given["to"])

    def still(self, grads, given):
        return tree.scale(grads, 0.0)


def test_fits_in_a_row_corrections_and_fits_by_themselves():
    algorithm, cohort = world(algorithm=Twice(), optimiser=SGD(0.1))
    uploads, memories = rounds(cohort, algorithm, [(0, 1, 2)], {c: graph_for(c) for c in range(3)})
    assert all(float(leaf.abs().max()) == 0 for u in uploads[0].values() for leaf in tree.leaves(u["update"]))
    assert list(memories[0]) == ["optimiser.model"]


def test_the_work_of_a_job_is_the_tasks_times_steps_and_effort():
    algorithm, cohort = world(steps=4)
    job = Job(0, "train", 0, {}, graph_for(0), {}, 0)
    assert math.isclose(cohort.flops(job), 4 * algorithm.task.flops(job.data))
