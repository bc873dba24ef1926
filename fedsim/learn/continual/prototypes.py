"""Class prototypes sent as gradients, and reconstructed from them (POWER, KDD 2025, Eq. 8-11; GLFC, CVPR 2022).

A client feeds the mean feature P of a class through an MLP with fixed random weights Γ (F → 128 → 128 → 64 → C,
rectified) and sends the gradients of the cross-entropy with respect to its eight tensors.  The server infers the
class from the one negative entry of ∇b4 and looks for a vector with the same gradients.

This gives no protection: for any row i with ∇b1[i] ≠ 0, P = ∇W1[i] / ∇b1[i] exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Algorithm, Job, Reply, State, Tree
from fedsim.learn.continual import lbfgs
from fedsim.learn.continual.matching import Matching
from fedsim.learn.engine import layout, tree
from fedsim.learn.model import fan_in

HIDDEN = (128, 128, 64)
GOOD = 1e-2  # largest relative squared error of the gradients of a usable prototype
CLOSE = 1e-6  # relative squared error above which it is restarted: 1e-2 alone lets errors of a tenth pass
RESTARTED = 0.2  # share of the prototypes for which restarts may be spent, and are billed
HISTORY = 100  # pairs that L-BFGS remembers
Gradients = dict[str, Tensor]  # w1 (128, F), b1 (128,), …, w4 (C, 64), b4 (C,)


def encoder(features: int, classes: int, seed: int, device: str) -> Gradients:
    """Return the random network Γ, drawn as `torch.nn.Linear` draws its weights and biases."""
    generator = Generator().manual_seed(seed)
    widths = (features, *HIDDEN, classes)
    drawn: Gradients = {}
    for i, (inputs, outputs) in enumerate(pairwise(widths), 1):
        drawn[f"w{i}"] = fan_in(inputs, generator, (outputs, inputs)).to(device)
        drawn[f"b{i}"] = fan_in(inputs, generator, (outputs,)).to(device)
    return drawn


class Introducing(Algorithm):
    """Put before FedAvg: once a period a client introduces its classes, by the encoder's gradients at a prototype each.

    A state holds the encoder Γ, and `known`, the last period that the server knows of each client; without Γ
    nobody introduces anything.
    """

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model, the encoder until a reply has shown that the client has it, and its last known period."""
        sent = super().download(state, client, step)  # type: ignore[safe-super]
        if "encoder" not in state:
            return sent
        known = state["known"].get(client)
        first = {"encoder": state["encoder"]} if known is None else {}
        return {**sent, "known": "" if known is None else str(known), **first}

    def introduces(self, job: Job) -> bool:
        """Return whether the server does not know the client's period yet."""
        return job.download.get("known", str(job.period)) != str(job.period)  # type: ignore[no-any-return]

    def prototype(self, gradients: Gradients, nodes: int) -> Tree:
        """Return what is sent of a class with so many training nodes."""
        return gradients

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload: the model, and Γ for each class to be introduced."""
        like = super().upload_like(job) or {}
        if not self.introduces(job):
            return like
        gamma, classes = self.introduction(job)
        return {**like, "prototypes": [self.prototype(gamma, 0)] * classes, "period": str(job.period)}

    def introduction(self, job: Job) -> tuple[Gradients, int]:
        """Return Γ, and the number of classes whose gradients the client sends."""
        gamma = job.download.get("encoder") or job.memory["encoder"]
        return gamma, len(torch.unique(job.data["y"][job.data["train"]]))

    def introduction_flops(self, job: Job) -> float:
        """Return the operations of Γ's gradients."""
        gamma, classes = self.introduction(job)
        return classes * 6.0 * tree.count(gamma)

    def keep_encoder(self, job: Job) -> None:
        """Keep the encoder where it is sent."""
        if "encoder" in job.download:
            job.memory["encoder"] = job.download["encoder"]


def received(replies: Sequence[Reply]) -> list[Tree]:
    """Return the prototypes that replies bring."""
    return [prototype for reply in replies for prototype in reply.upload.get("prototypes", ())]


def periods_known(known: Mapping[int, int], replies: Sequence[Reply]) -> dict[int, int]:
    """Return the last period that the server knows of each client, by client, after these replies."""
    periods = {reply.client: int(reply.upload["period"]) for reply in replies if "prototypes" in reply.upload}
    return {**known, **periods}


def of_classes(graph: Graph, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the classes that have training nodes (c,), their mean raw features (c, F) and their counts (c,)."""
    train = graph["train"]
    marks = torch.zeros(len(train), classes, device=train.device)
    rows = train.nonzero().squeeze(1)
    marks[rows, graph["y"][rows]] = 1.0
    x = graph["x"]
    total = layout.of(graph).x.columns.tensor() @ marks if x.layout == torch.sparse_csr else x.T @ marks
    counts = marks.sum(0).long()
    present = counts.nonzero().squeeze(1)
    return present, (total.T / counts.clamp(min=1).unsqueeze(1))[present].contiguous(), counts[present]


def trace(network: Gradients, x: Tensor, label: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the input of each layer, (B, F), (B, 128), (B, 128), (B, 64), and the loss's derivative at its output.

    Both passes for x (B, F) and labels (B,) are written out, so that they can be differentiated again.
    """
    inputs, masks = [x], []
    for i in range(1, 4):
        z = inputs[-1] @ network[f"w{i}"].T + network[f"b{i}"]
        masks.append((z > 0).to(z.dtype))
        inputs.append(z * masks[-1])
    logits = inputs[-1] @ network["w4"].T + network["b4"]
    errors = [torch.softmax(logits, 1) - torch.nn.functional.one_hot(label, logits.shape[1]).to(logits.dtype)]
    for i in (4, 3, 2):
        errors.append((errors[-1] @ network[f"w{i}"]) * masks[i - 2])
    return list(zip(inputs, errors[::-1], strict=True))


def gradients(network: Gradients, x: Tensor, label: Tensor) -> list[Gradients]:
    """Return what each row of x (B, F) with its label sends: ∇W = error ⊗ input and ∇b = error, for all layers."""
    sent: list[Gradients] = [{} for _ in range(len(x))]
    for i, (inputs, errors) in enumerate(trace(network, x, label), 1):
        for gradient, a, e in zip(sent, inputs, errors, strict=True):
            gradient[f"w{i}"], gradient[f"b{i}"] = torch.outer(e, a), e.clone()
    return sent


def label_of(sent: Gradients) -> int:
    """Return the class that gradients belong to: ∇b4 = softmax − onehot has exactly one negative entry.

    Raises ValueError otherwise: the gradients are not those of a cross-entropy.
    """
    negative = (sent["b4"] < 0).nonzero().squeeze(1)
    if len(negative) != 1:
        raise ValueError(f"prototype gradients have {len(negative)} negative entries in b4 instead of one")
    return int(negative[0])


@dataclass(frozen=True)
class Rebuilt:
    """Pseudo prototypes (m, F), which of them are good, and how many restarts and evaluations that took."""

    x: Tensor
    good: Tensor
    restarts: int
    evaluations: int


def evaluations(steps: int) -> int:
    """Return the most evaluations of an attempt: 1 + 20 · steps, or 100 until it is close and then one a step."""
    return min(1 + 20 * steps, 100 + steps)


def budget(count: int, steps: int, restarts: int) -> int:
    """Return the most evaluations of an update that rebuilds `count` prototypes, restarts included."""
    return int(count * evaluations(steps) * (1 + RESTARTED * restarts))


def rebuild_flops(network: Gradients, count: int, *, steps: int, restarts: int) -> float:
    """Return the operations of `rebuild` if it spends its whole budget: a bound that depends on no value.

    The gradients of Γ, their distance from the wanted ones and its derivative take up to twelve operations a weight, a
    step of L-BFGS sixteen a number that it remembers.
    """
    features = network["w1"].shape[1]
    return budget(count, steps, restarts) * (12.0 * tree.count(network) + 16.0 * HISTORY * features)


def rebuild(network: Gradients, sent: list[Gradients], generator: Generator, *, steps: int, restarts: int) -> Rebuilt:
    """Return a vector for each of the gradients whose own gradients match them (Eq. 11), by L-BFGS from N(0, I).

    A row is bad if it is not finite, longer than 1e3 √F, or misses the gradients by more than GOOD of their square.
    If it misses them by more than CLOSE, it is restarted from `restarts` new draws, and the best is taken.  All
    rows advance together in double precision; `steps` are outer steps of 20 iterations, of which a row uses only as
    many as it needs, and no more than the `budget` allows: restarts share what the first attempts have left of it.
    """
    device = network["w1"].device
    double = {key: value.double().cpu() for key, value in network.items()}
    wanted = {key: torch.stack([one[key] for one in sent]).double().cpu() for key in sent[0]}
    labels = torch.tensor([label_of(one) for one in sent])
    norms = torch.stack([value.square().flatten(1).sum(1) for value in wanted.values()]).sum(0)
    features, spent = network["w1"].shape[1], 0

    def attempt(rows: Tensor, most: int) -> tuple[Tensor, Tensor]:
        matching = Matching(double, {key: value[rows] for key, value in wanted.items()}, labels[rows])

        def objective(x: Tensor, problems: Sequence[int]) -> tuple[Tensor, Tensor]:
            nonlocal spent
            spent += len(problems)
            return matching(x, problems)

        start = torch.randn(len(rows), features, generator=generator, dtype=torch.double)
        x, miss = lbfgs.minimise(objective, start, most - 1, history=HISTORY)
        sound = torch.isfinite(x).all(1) & (x.norm(dim=1) <= 1e3 * features**0.5)
        return x, torch.where(sound, miss / norms[rows], torch.inf)

    most = evaluations(steps)
    built, share = attempt(torch.arange(len(sent)), most)
    poor = (share > CLOSE).nonzero().squeeze(1)
    again = restarts * len(poor)
    left = (budget(len(sent), steps, restarts) - spent) // max(1, again)  # for each restart
    if again and left:  # all restarts of all poor rows at once; the best of each row is kept
        x, other = attempt(poor.repeat_interleave(restarts), min(most, left))
        least, best = other.view(len(poor), restarts).min(1)
        best = best + restarts * torch.arange(len(poor))
        built[poor] = torch.where((least < share[poor]).unsqueeze(1), x[best], built[poor])
        share[poor] = torch.minimum(least, share[poor])
    return Rebuilt(built.float().to(device), (share <= GOOD).to(device), again if left else 0, spent)
