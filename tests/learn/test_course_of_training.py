"""A job's steps with clipped gradients and a falling learning rate, against plain torch."""

import pytest
import torch
from learnlab import drawn, drawn_task, job_of, largest_gap

from fedsim.learn.algorithm import Fit
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import SGD, Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gcn import GCN

STEPS, CLIP = 5, 0.05
TASK = drawn_task(GCN(hidden=5, dropout=0.0))


def loss(params, graph, given):
    return 10 * TASK.loss(params, graph)


def by_torch(optimiser, graph, clip, schedule):
    """One client's job by torch's optimiser, clipping and schedule; and the norms before clipping."""
    params = tree.transform(lambda leaf: torch.nn.Parameter(leaf.clone()), TASK.init())
    leaves, norms = list(tree.leaves(params)), []
    kind = torch.optim.Adam if isinstance(optimiser, Adam) else torch.optim.SGD
    theirs = kind(leaves, lr=optimiser.lr, weight_decay=optimiser.weight_decay)
    course = torch.optim.lr_scheduler.CosineAnnealingLR(theirs, STEPS, eta_min=1e-5)
    for _ in range(STEPS):
        theirs.zero_grad()
        loss(tree.stack([params]), graph, None).sum().backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(leaves, clip or 1e9)))
        theirs.step()
        if schedule == "cosine":
            course.step()
    return tree.transform(torch.Tensor.detach, params), norms


@pytest.mark.parametrize("optimiser", [Adam(0.05, 0.01), SGD(0.05, 0.01)])
@pytest.mark.parametrize(("clip", "schedule"), [(None, "cosine"), (CLIP, "constant"), (CLIP, "cosine")])
def test_a_job_is_torchs_for_each_client_of_a_cohort(optimiser, clip, schedule):
    graphs = [drawn(size, size) for size in (20, 8)]
    trainer = Trainer(optimiser, STEPS, keep_state=False, clip=clip, schedule=schedule)
    fits = [Fit(TASK.init(), loss) for _ in graphs]
    for _ in range(2):  # every job begins anew
        trained = trainer.train([(job_of(k, graph, {}), fits[k]) for k, graph in enumerate(graphs)])
        for params, graph in zip(trained, graphs, strict=True):
            expected, norms = by_torch(optimiser, graph, clip, schedule)
            assert largest_gap(params, expected) < 1e-4
            assert largest_gap(params, by_torch(optimiser, graph, None, "constant")[0]) > 1e-3
            assert max(norms) > CLIP


def test_what_is_clipped_is_the_corrected_gradient():
    graph = drawn(20, 1)

    def shrunk(grads, given):
        return tree.scale(grads, 1e-4)

    start = TASK.init()
    (moved,) = Trainer(SGD(1.0), 1, clip=1.0).train([(job_of(0, graph, {}), Fit(start, loss, correct=shrunk))])
    (free,) = Trainer(SGD(1e-4), 1).train([(job_of(0, graph, {}), Fit(start, loss))])
    assert largest_gap(moved, free) < 1e-6  # far below the limit once corrected
    assert largest_gap(moved, start) > 1e-5
