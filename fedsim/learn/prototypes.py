"""Class prototypes sent as gradients, and reconstructed from them (POWER, KDD 2025, Eq. 8-11; GLFC, CVPR 2022).

A client feeds the mean feature P of a class through an MLP with fixed random weights Γ (F → 128 → 128 → 64 → C,
rectified) and sends the gradients of the cross-entropy with respect to its eight tensors.  The server infers the
class from the one negative entry of ∇b4 and looks for a vector with the same gradients.

This gives no protection: for any row i with ∇b1[i] ≠ 0, P = ∇W1[i] / ∇b1[i] exactly (`inverted`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn import layout, lbfgs, tree
from fedsim.learn.algorithm import Reply
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


def periods_known(known: Mapping[int, int], replies: Sequence[Reply]) -> dict[int, int]:
    """Return the last period that the server knows of each client, by client, after these replies."""
    told = {reply.client: int(reply.upload["period"]) for reply in replies if "prototypes" in reply.upload}
    return {**known, **told}


def of_classes(graph: Graph, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the classes that have training vertices (c,), their mean raw features (c, F) and their counts (c,)."""
    train = graph["train"]
    marks = torch.zeros(len(train), classes, device=train.device)
    rows = train.nonzero().squeeze(1)
    marks[rows, graph["y"][rows]] = 1.0
    x = graph["x"]
    total = layout.of(graph).x.columns.tensor() @ marks if x.layout == torch.sparse_csr else x.T @ marks
    counts = marks.sum(0).long()
    present = counts.nonzero().squeeze(1)
    return present, (total.T / counts.clamp(min=1).unsqueeze(1))[present].contiguous(), counts[present]


@dataclass(frozen=True)
class Trace:
    """A forward and backward pass of Γ: the inputs of each layer, and the loss's derivative at each layer's output."""

    inputs: list[Tensor]  # (B, F), (B, 128), (B, 128), (B, 64)
    errors: list[Tensor]  # (B, 128), (B, 128), (B, 64), (B, C)


def trace(network: Gradients, x: Tensor, label: Tensor) -> Trace:
    """Return both passes for x (B, F) and labels (B,), written out so that they can be differentiated again."""
    inputs, masks = [x], []
    for i in range(1, 4):
        z = inputs[-1] @ network[f"w{i}"].T + network[f"b{i}"]
        masks.append((z > 0).to(z.dtype))
        inputs.append(z * masks[-1])
    logits = inputs[-1] @ network["w4"].T + network["b4"]
    errors = [torch.softmax(logits, 1) - torch.nn.functional.one_hot(label, logits.shape[1]).to(logits.dtype)]
    for i in (4, 3, 2):
        errors.append((errors[-1] @ network[f"w{i}"]) * masks[i - 2])
    return Trace(inputs, errors[::-1])


def gradients(network: Gradients, x: Tensor, label: Tensor) -> list[Gradients]:
    """Return what each row of x (B, F) with its label sends: ∇W = error ⊗ input and ∇b = error, for all layers."""
    passes = trace(network, x, label)
    return [
        {
            key: value
            for i in range(4)
            for key, value in (
                (f"w{i + 1}", torch.outer(passes.errors[i][row], passes.inputs[i][row])),
                (f"b{i + 1}", passes.errors[i][row].clone()),
            )
        }
        for row in range(len(x))
    ]


def label_of(sent: Gradients) -> int:
    """Return the class that gradients belong to: ∇b4 = softmax − onehot has exactly one negative entry.

    Raises ValueError otherwise: the gradients are not those of a cross-entropy.
    """
    negative = (sent["b4"] < 0).nonzero().squeeze(1)
    if len(negative) != 1:
        raise ValueError(f"prototype gradients have {len(negative)} negative entries in b4 instead of one")
    return int(negative[0])


def inverted(sent: Gradients) -> Tensor:
    """Return the prototype (F,) in closed form, from the row of ∇W1 with the largest ∇b1."""
    row = int(sent["b1"].abs().argmax())
    return sent["w1"][row] / sent["b1"][row]


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
    double = {key: value.double() for key, value in network.items()}
    wanted = {key: torch.stack([one[key] for one in sent]).double() for key in sent[0]}
    labels = torch.tensor([label_of(one) for one in sent], device=wanted["b4"].device)
    norms = torch.stack([value.square().flatten(1).sum(1) for value in wanted.values()]).sum(0)
    features, spent = network["w1"].shape[1], 0

    def attempt(rows: Tensor, most: int) -> tuple[Tensor, Tensor]:
        nonlocal spent
        start = torch.randn(len(rows), features, generator=generator, dtype=torch.double).to(labels.device)
        objective = _Matching(double, wanted, norms, labels, rows)
        x, miss = lbfgs.minimise(objective, start, lbfgs.Rules(most - 1, history=HISTORY))
        spent += objective.evaluations
        sound = torch.isfinite(x).all(1) & (x.norm(dim=1) <= 1e3 * features**0.5)
        return x, torch.where(sound, miss / norms[rows], torch.inf)

    most = evaluations(steps)
    found, share = attempt(torch.arange(len(sent), device=labels.device), most)
    poor = (share > CLOSE).nonzero().squeeze(1)
    again = restarts * len(poor)
    left = (budget(len(sent), steps, restarts) - spent) // max(1, again)  # for each restart
    if again and left:  # all restarts of all poor rows at once; the best of each row is kept
        x, other = (
            part.view(len(poor), restarts, *part.shape[1:])
            for part in attempt(poor.repeat_interleave(restarts), min(most, left))
        )
        least, best = other.min(1)
        better = least < share[poor]
        found[poor] = torch.where(
            better.unsqueeze(1), x[torch.arange(len(poor), device=best.device), best], found[poor]
        )
        share[poor] = torch.minimum(least, share[poor])
    return Rebuilt(found.float(), share <= GOOD, again if left else 0, spent)


class _Matching:
    """The objective of some rows, whose targets are gathered again only when the active rows change.

    `evaluations` counts the rows that it has been evaluated on.
    """

    def __init__(self, network: Gradients, wanted: Gradients, norms: Tensor, labels: Tensor, rows: Tensor) -> None:
        self._network, self._all = network, (wanted, norms, labels, rows)
        self._problems: Tensor | None = None
        self.evaluations = 0

    def __call__(self, x: Tensor, problems: Tensor) -> Tensor:
        self.evaluations += len(problems)
        if problems is not self._problems:
            wanted, norms, labels, rows = self._all
            at = rows[problems]
            self._problems = problems
            self._own = {key: value[at] for key, value in wanted.items()}, norms[at], labels[at]
        own, norms, labels = self._own
        return mismatch(self._network, own, norms, x, labels)


def mismatch(network: Gradients, wanted: Gradients, norms: Tensor, x: Tensor, labels: Tensor) -> Tensor:
    """Return the squared distance of the gradients at x (B, F) from the wanted ones: (B,).

    Written out as ‖e ⊗ a − G‖² = ‖e‖² ‖a‖² − 2 eᵀ G a + ‖G‖², which needs no outer product.
    """
    passes = trace(network, x, labels)
    total = norms
    for i, (a, e) in enumerate(zip(passes.inputs, passes.errors, strict=True), 1):
        size = e.square().sum(1)
        cross = torch.bmm(e.unsqueeze(1), torch.bmm(wanted[f"w{i}"], a.unsqueeze(2))).view(-1)
        total = total + size * a.square().sum(1) - 2 * cross
        total = total + size - 2 * (e * wanted[f"b{i}"]).sum(1)
    return total
