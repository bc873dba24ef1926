"""DyGFormer against torch's own transformer, its size, and what a pair's score must not depend on."""

import numpy as np
import pytest
import torch
from happening import SMALL, drawn_events, events_of, graph_of_events, task_of
from learnlab import job_of, largest_gap
from sklearn.metrics import average_precision_score
from torch import nn

from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.data.graph import with_keys
from fedsim.learn.algorithm import Fit
from fedsim.learn.engine import joining, tree
from fedsim.learn.engine.optimiser import build as optimiser
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.dygformer import DyGFormer
from fedsim.learn.pairs import histories


def test_it_has_as_many_parameters_as_the_published_code():
    params = DyGFormer().init(172, 1, torch.Generator())
    head = tree.count([params["pair"], params["logit"]])
    assert head == 59_513
    assert tree.count(params) - head == 1_027_522
    assert wire.size({"model": params}) == pytest.approx(4.35e6, rel=1e-3)
    assert tree.count(DyGFormer().init(3, 1, torch.Generator())) == tree.count(params), "features are padded"


def through(layer, h):
    return h @ layer["weight"][: h.shape[-1]] + layer["bias"]


def reference(model, params, graph):
    """The logit of every pair, one by one and without free places, by torch's modules."""
    layers = []
    for i in range(1, model.layers + 1):
        own = params[f"layer{i}"]
        layer = nn.TransformerEncoderLayer(
            model.width, model.heads, 4 * model.width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        names = {
            "self_attn.in_proj_weight": own["attend"].T, "self_attn.in_proj_bias": own["attend_bias"],
            "self_attn.out_proj.weight": own["mix"].T, "self_attn.out_proj.bias": own["mix_bias"],
            "linear1.weight": own["wide"].T, "linear1.bias": own["wide_bias"],
            "linear2.weight": own["narrow"].T, "linear2.bias": own["narrow_bias"],
            "norm1.weight": own["scale1"], "norm1.bias": own["shift1"],
            "norm2.weight": own["scale2"], "norm2.bias": own["shift2"],
        }  # fmt: skip
        layer.load_state_dict(names)
        layers.append(layer.train())  # not eval, in which torch takes another path
    found = []
    for (u, v), second in zip(graph["pairs"].T.tolist(), graph["moments"].tolist(), strict=True):
        sides = []
        for end in (u, v):
            known = [(end, None, 0.0)]
            for number, (a, b, s) in enumerate(events_of(graph)):
                if end in (a, b) and s < second:
                    known.append((b if a == end else a, number, second - s))
            sides.append(known[:1] + known[max(1, len(known) - model.length + 1) :])
        rows = []
        for other, number, gap in sides[0] + sides[1]:
            message = torch.zeros(graph["message"].shape[1]) if number is None else graph["message"][number]
            w = 10 ** -torch.linspace(0, 9, model.time)
            counts = [torch.tensor([float(sum(other == one for one, _, _ in side))]) for side in sides]
            shown = sum(through(params["counts"], torch.relu(through(params["count"], count))) for count in counts)
            parts = [
                through(params["of_node"], graph["x"][other]), through(params["of_event"], message),
                through(params["of_time"], torch.cos(gap * w)), through(params["of_counts"], shown),
            ]  # fmt: skip
            rows.append(torch.cat(parts))
        h = torch.stack(rows).unsqueeze(0)
        for layer in layers:
            h = layer(h)
        ends = [through(params["out"], part.mean(0)) for part in h[0].split([len(side) for side in sides])]
        found.append(through(params["logit"], torch.relu(through(params["pair"], torch.cat(ends)))))
    return torch.cat(found)


@pytest.mark.parametrize("message", [0, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_it_computes_what_torchs_transformer_computes(seed, message):
    graph, task = drawn_events(seed, message=message), task_of()
    params = task.init()
    with torch.no_grad():
        expected = reference(task.model, params, graph)
        got = task.forward(tree.stack([params]), graph)
    assert torch.allclose(got, expected, atol=1e-5)
    assert expected.std() > 1e-3


def test_blocks_of_a_scoring_change_nothing(monkeypatch):
    graph, task = drawn_events(0, asked=30), task_of()
    params = tree.stack([task.init()])
    whole = task.forward(params, graph).detach()
    monkeypatch.setattr("fedsim.learn.models.dygformer.BLOCK", 7)
    with torch.no_grad():
        assert torch.allclose(task.forward(params, graph), whole, atol=1e-6)


def test_a_score_depends_neither_on_companions_nor_on_events_at_its_second_or_later():
    early = [(0, 1, 1.0), (1, 2, 2.0), (2, 3, 3.0)]
    many = [(4, 5, float(s)) for s in range(30)]  # pairs with longer histories beside it
    late = [(0, 2, 4.0), (1, 3, 4.0), (0, 1, 5.0)]
    task = task_of()
    params = tree.stack([task.init()])
    with torch.no_grad():
        alone = task.forward(params, graph_of_events(early, 6, [(0, 3, 4.0)]))
        beside = task.forward(params, graph_of_events(early + many, 6, [(4, 5, 29.0), (0, 3, 4.0), (5, 4, 12.0)]))
        knowing = task.forward(params, graph_of_events(early + late, 6, [(0, 3, 4.0)]))
        later = task.forward(params, graph_of_events(early + late, 6, [(0, 3, 4.5)]))
    assert beside[1] == pytest.approx(float(alone), abs=1e-6)
    assert knowing == pytest.approx(float(alone), abs=1e-6)
    assert abs(later - alone) > 1e-4


def test_free_places_take_no_part_in_the_gradient():
    told = [(0, 1, 1.0), (1, 2, 2.0)]
    graph = graph_of_events(told, 4, [(0, 2, 3.0)])
    grads = []
    for length in (3, 9):
        task = task_of(length=length)
        params = tree.transform(lambda leaf: leaf.requires_grad_(), tree.stack([task.init()]))
        grads.append(torch.autograd.grad(task.forward(params, graph).sum(), [*tree.leaves(params)], allow_unused=True))
    for one, other in zip(*grads, strict=True):
        assert (one is None and other is None) or torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_cohort_trains_what_its_members_train_alone(dropout):
    task = task_of(dropout=dropout)
    graphs = [drawn_events(seed, nodes=5 + 2 * seed, count=10 + 9 * seed, message=2) for seed in range(3)]
    starts = [task.drawn(seed) for seed in range(3)]

    def loss(params, graph, given):
        return task.loss(params, graph)

    def trained(members):
        # not Adam: the keys' bias changes no share of attention, and Adam would amplify the rounding in its gradient
        trainer = Trainer(optimiser("sgd", 0.1, 0.0, 0.0), 3, keep_state=False, step_bytes=task.step_bytes)
        jobs = [(job_of(k, graphs[k], {}), Fit(start=starts[k], loss=loss)) for k in members]
        return trainer.train(jobs)

    for k, together in enumerate(trained(range(3))):
        (alone,) = trained([k])
        assert largest_gap(together, alone) < 2e-5
        assert largest_gap(together, starts[k]) > 1e-3


def test_parameters_of_several_clients_judge_the_pairs_of_each():
    task = task_of()
    graphs = [drawn_events(seed, nodes=6 + seed, asked=4 + 5 * seed) for seed in range(3)]
    starts = [task.drawn(seed) for seed in range(3)]
    with torch.no_grad():
        together = task.forward(tree.stack(starts), joining.union(graphs))
        alone = [task.forward(tree.stack([one]), graph) for one, graph in zip(starts, graphs, strict=True)]
    assert torch.allclose(together, torch.cat(alone), atol=1e-6)


def test_dropout_is_drawn_for_each_step_and_only_in_training():
    graph, task = drawn_events(0), task_of(dropout=0.5)
    params = tree.stack([task.init()])
    seeded = [task.forward(params, with_keys(graph, {"seed": torch.tensor([s])})) for s in (1, 1, 2)]
    assert torch.equal(seeded[0], seeded[1])
    assert not torch.allclose(seeded[0], seeded[2])
    assert torch.equal(task.forward(params, graph), task.forward(params, graph))


def test_the_estimate_of_operations_counts_the_large_products():
    model = DyGFormer()
    places, width = 64, 200
    layers = 2 * places * 2 * (12 * width**2 + 2 * places * width)
    assert model.pair_flops(172, 172) == pytest.approx(layers, rel=0.12)
    assert 0.2 < 200 * 2 * model.pair_bytes() / 2**30 < 4, "a step of the published size takes some GiB"


def test_features_that_cannot_be_padded_are_refused():
    with pytest.raises(ScenarioError, match="172; take 173 or more"):
        DyGFormer().init(173, 1, torch.Generator())
    graph, task = drawn_events(0, message=SMALL["padded"] + 1), task_of()
    with pytest.raises(ScenarioError, match="events have 8 features"):
        task.forward(tree.stack([task.init()]), graph)
    with pytest.raises(ValueError, match="heads"):
        DyGFormer(channel=5, heads=3)


def camps(seed, pairs):
    """Circles a-b-c-d of four at second 1 and 2, and both diagonals asked at 3 beside pairs of different circles.

    Everybody has one event in either second, so that nothing but common neighbours tells diagonals from others.
    """
    rng = np.random.default_rng(seed)
    who = rng.permutation(4 * pairs).reshape(-1, 4)
    told = [(*row[list(ends)].tolist(), second) for row in who for ends, second in zip(
        ((0, 1), (2, 3), (1, 2), (3, 0)), (1.0, 1.0, 2.0, 2.0), strict=True)]  # fmt: skip
    right = [(int(row[at]), int(row[at + 2]), 3.0) for row in who for at in (0, 1)]
    other = np.roll(who, 1, axis=0)
    wrong = [(int(row[at]), int(away[at + 2]), 3.0) for row, away in zip(who, other, strict=True) for at in (0, 1)]
    asked = [one for two in zip(right, wrong, strict=True) for one in two]
    return with_keys(graph_of_events(told, 4 * pairs, asked), {"x": torch.ones(4 * pairs, 2)})


def learned(model, seed):
    """The average precision on new circles after 200 steps on such circles."""
    task = task_of(**{"channel": 8, "hidden": 16, "length": 4, "dropout": 0.1, **model})

    def loss(params, graph, given):
        logits, sign = task.forward(params, graph), torch.where(graph["links"], -1.0, 1.0)
        return nn.functional.softplus(sign * logits).mean().unsqueeze(0)

    trainer = Trainer(optimiser("adam", 3e-3, 0.0, 0.0), 200)
    (params,) = trainer.train([(job_of(0, camps(seed, 40), {}, seed=seed), Fit(start=task.drawn(seed), loss=loss))])
    tested = camps(seed + 1000, 100)
    with torch.no_grad():
        return average_precision_score(tested["links"], task.forward(tree.stack([params]), tested))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_links_between_those_with_a_common_neighbour_are_learned_by_counting_and_not_without(seed, monkeypatch):
    assert learned({}, seed) > 0.9
    count = histories.common
    monkeypatch.setattr(histories, "common", lambda found: count(found) * 0)
    assert learned({}, seed) < 0.6
