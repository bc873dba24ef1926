"""FedTAD: FedAvg and what each client knows of a class; the server's turns, by the reliability that came."""

from dataclasses import replace

import pytest
import torch
from camps import community, gap, moved, rounds
from contexts import within
from learnlab import drawn_task

from algorithms.fed_tad import FedTAD, reliability, reliability_flops, sameness, shared
from algorithms.fedavg import FedAvg
from fedsim.core import wire
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import joining, tree
from fedsim.learn.models.gcn import GCN
from fedsim.learn.synthetic.pseudo_graphs import knn_flops, pseudo_graph, stand_in

FEATURES, CLASSES = 20, 4
SMALL = {"nodes": 24, "iterations": 2, "model_steps": 2}


def made(of=FedTAD, seed=0, task=None, **options):
    own = drawn_task(GCN(hidden=8, dropout=0.0), FEATURES, CLASSES, seed, task=task)
    return within(of(**({**SMALL, **options} if of is FedTAD else options)), own)


def graphs():
    return {c: community([0, 1, 2, 3] if c else [0, 1], c, n=24 + 8 * c) for c in range(2)}


def test_what_travels_is_fedavgs_and_a_number_a_class():
    own = made()
    _, _, history = rounds(own, graphs(), [[0, 1], [0, 1]])
    numbers = tree.count(own.start()["model"])
    for reply in (reply for replies in history for reply in replies):
        assert wire.array_bytes(reply.download) == 4 * numbers
        assert wire.array_bytes(reply.upload) == 4 * numbers + 4 * CLASSES
        expected = reliability(graphs()[reply.client], CLASSES, 5)
        torch.testing.assert_close(reply.upload["reliability"], expected)


def test_held_out_labels_change_no_tensor():
    changed = {c: {**g, "y": torch.where(g["train"], g["y"], 3 - g["y"])} for c, g in graphs().items()}
    for g in changed.values():
        g.pop("layout", None)
    sent = [rounds(made(), some, [[0, 1]])[2][0] for some in (graphs(), changed)]
    for one, other in zip(*sent, strict=True):
        assert gap(one.upload, other.upload) == 0


def test_without_turns_it_is_fedavg():
    asked = [[0, 1], [1]]
    own, plain = made(iterations=0), made(FedAvg)
    assert gap(rounds(own, graphs(), asked)[0]["model"], rounds(plain, graphs(), asked)[0]["model"]) == 0
    assert gap(rounds(made(), graphs(), asked)[0]["model"], rounds(plain, graphs(), asked)[0]["model"]) > 1e-4


def test_shares_add_up_and_nobody_learns_from_what_is_negative():
    sent = [torch.tensor([3.0, 0.0, -1.0, 0.0]), torch.tensor([1.0, 0.0, 2.0, 5.0])]
    assert shared(sent).tolist() == [[0.75, 0.0, 0.0, 0.0], [0.25, 0.0, 1.0, 1.0]]


def test_who_knows_nothing_teaches_nothing():
    own = made()
    replies = [moved(own, c, 1.0 + c, 10, 1.0, reliability=torch.zeros(CLASSES)) for c in range(2)]
    new = own.update(own.start(), replies, "train")
    plain = made(FedAvg).update(own.start(), replies, "train")
    assert gap(new["model"], plain["model"]) == 0


def drawn_models(seed=1):
    """The models of two clients that have nothing in common."""
    tasks = [made(seed=seed + c).task for c in range(2)]
    return [task.init() for task in tasks]


def pseudo(seed=0, n=24):
    g = torch.Generator().manual_seed(seed)
    return pseudo_graph(torch.randn(n, FEATURES, generator=g), torch.arange(n) % CLASSES, 5)


def test_losses_by_hand():
    own, graph, first, theirs = made(lambda1=0.5, lambda2=2.0), pseudo(), made().task.init(), drawn_models()
    shares = torch.tensor([[0.25, 1.0, 0.0, 0.5], [0.75, 0.0, 1.0, 0.5]])
    weight = shares[:, graph["y"]] / 6
    apart = known = 0.0
    for share, model in zip(shares, theirs, strict=True):
        logits, mine = (own.task.forward(tree.stack([one]), graph) for one in (model, first))
        for c in range(CLASSES):
            of_class = graph["y"] == c
            apart += float(share[c] * (mine - logits)[of_class].abs().mean())
            known += float(share[c] * -logits.log_softmax(1)[of_class, c].mean())
    stacked = tree.stack(theirs)
    assert float(own.distillation(stacked, weight, graph, 3)(tree.stack([first]), 0)) == pytest.approx(apart, rel=1e-4)
    generator = own.start()["generator"]
    g = torch.Generator().manual_seed(5)
    z = torch.randn(24, 32, generator=g)
    x = own.generator.forward(generator, z, graph["y"])
    loss = own.generation(first, stacked, weight, z, graph["y"])(tree.stack([generator]), 0)
    same = pseudo_graph(x, graph["y"], 5)
    apart, known = 0.0, 0.0
    for share, model in zip(shares, theirs, strict=True):
        logits, mine = (own.task.forward(tree.stack([one]), same) for one in (model, first))
        by_class = torch.stack([share[c] * (mine - logits)[same["y"] == c].abs().mean() for c in range(CLASSES)])
        apart += float(by_class.sum())
        known += sum(float(share[c] * -logits.log_softmax(1)[same["y"] == c, c].mean()) for c in range(CLASSES))
    assert float(loss) == pytest.approx(0.5 * known - apart + 2.0 * 2 * float(sameness(z, x)), rel=1e-4)


def test_sameness_by_hand():
    z, x = torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([[0.0, 0.0], [1.0, 3.0]])
    assert float(sameness(z, x)) == pytest.approx(2.718281828 ** -(2 * 2.0 * 2.0 / 4))
    assert float(sameness(z, torch.ones(2, 2))) == 1


def test_the_server_follows_those_who_are_reliable():
    for trusted in range(2):
        own = made(iterations=4, model_steps=5, model_lr=1e-2)
        start, models = own.start()["model"], drawn_models()
        sent = [torch.full((CLASSES,), float(c == trusted)) for c in range(2)]
        replies = [
            Reply(c, 0, {"model": start}, {"update": tree.sub(model, start), "samples": 10, "reliability": sent[c]})
            for c, model in enumerate(models)
        ]
        mean = made(FedAvg).update({"model": start}, replies, "train")["model"]
        taught = own.update(own.start(), replies, "train")["model"]
        probe = joining.union([pseudo(seed) for seed in range(3)], shared=True)
        before, after = (
            [float((own.task.forward(tree.stack([one]), probe) - own.task.forward(tree.stack([model]), probe))
                   .abs().mean()) for model in models]
            for one in (mean, taught)
        )  # fmt: skip
        assert after[trusted] < 0.95 * before[trusted]
        assert after[1 - trusted] > before[1 - trusted]


def test_the_generator_learns_and_goes_on():
    own = made(generator_lr=1e-2)
    state, _, _ = rounds(own, graphs(), [[0, 1]])
    again, _, _ = rounds(own, graphs(), [[0, 1], [0, 1]])
    first = own.start()["generator"]
    assert all(float((a - b).abs().max()) > 0 for a, b in zip(
        tree.leaves(first), tree.leaves(state["generator"]), strict=True))  # fmt: skip
    assert float(state["adam"]["generator"]["steps"]) == 2
    assert float(again["adam"]["generator"]["steps"]) == 4
    assert float(again["adam"]["model"]["steps"]) == 8


def test_options_of_the_server_change_the_model():
    _, _, (replies,) = rounds(made(), graphs(), [[0, 1]])
    options = [{}, {"iterations": 3}, {"generator_lr": 1e-2}, {"generator_steps": 2}, {"model_steps": 3},
               {"model_lr": 1e-2}, {"nodes": 20}, {"neighbours": 3}, {"noise": 16}, {"server_decay": 0.1},
               {"lambda1": 0.0, "generator_lr": 1e-2}, {"lambda2": 0.0, "generator_lr": 1e-2}]  # fmt: skip
    models = []
    for option in options:
        own = made(**option)
        models.append(own.update(own.start(), replies, "train")["model"])
    assert min(gap(models[i], models[j]) for i in range(len(models)) for j in range(i)) > 1e-8


def test_the_clock_charges_reliability_once_a_period_and_the_turns_to_the_server():
    own, graph = made(), graphs()[0]
    job = Job(0, "train", 0, own.download(own.start(), 0, "train"), graph, {}, 0)
    assert own.extra_steps(job) * own.task.flops(graph) == pytest.approx(reliability_flops(graph, 5))
    seen = {"reliability": {"period": 0, "values": None}}
    assert own.extra_steps(replace(job, memory=seen)) == 0
    assert own.extra_steps(replace(job, memory=seen, period=1)) > 0
    replies = [moved(own, c, 1.0, 10, 1.0, reliability=torch.zeros(CLASSES)) for c in range(3)]
    plain = sum(wire.array_bytes(reply.upload) / 2 for reply in replies)
    once, drawing = own.task.flops(stand_in(24, FEATURES, 5)), own.generator.flops(24) + knn_flops(24, FEATURES)
    pairs = 9.0 * 24 * 24 * (FEATURES + 32)
    turn = 2 * drawing + 2 * own.generator.flops(24) + 4 * once + pairs + once + 2 * once
    assert own.server_flops(own.start(), replies, "train") == pytest.approx(plain + 2 * turn)
