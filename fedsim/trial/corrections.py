"""Warnings where a correction of gradients (`Fit.correct`) looks as if a sign in it were wrong.

Corrections that add something to a gradient, whatever the gradient is, are control variates, such as SCAFFOLD's: they
replace what is the client's own in its gradient by what is common to all.  So at a model that all clients share, when
every client has taken part for some rounds, (1) they bring the clients' gradients nearer to one another, and (2) they
cancel on average.  Other corrections, such as those that scale a gradient, are not looked at.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsim.learn import tree
from fedsim.learn.algorithm import Fit
from fedsim.trial import places, prints
from fedsim.trial.finding import Finding, warning
from fedsim.trial.play import Work, play
from fedsim.trial.stage import CLIENTS, DATA, SKEWED, Stage
from fedsim.trial.trial import Trial

ROUNDS, WARM = 5, 2  # rounds with all clients, and those after which corrections are looked at
SPREAD, LEFT = 1.1, 0.3  # how much wider, and what share of the corrections may be left on average
SMALL = 1e-3  # corrections below this share of the gradients are none


@dataclass
class Corrected:
    """The first corrected gradient of a fit, beside the gradient itself."""

    round: int
    start: bytes
    weight: float
    own: Tensor
    after: Tensor
    adds: bool


def check(trial: Trial) -> list[Finding]:
    """Play rounds of all clients on skewed data and look at the corrections at the model that each round sends."""
    fits = [fit for work in trial.played.works for fit in work.fits if fit.correct is not None]
    if not fits:
        return [Finding("note", "it gives none (no Fit has a `correct`)")]
    assert fits[0].correct is not None
    seen = [one for one in _played(trial) if one.round >= WARM]
    where, work = places.definition(fits[0].correct), trial.method("work")
    judged = 0
    for number in range(WARM, ROUNDS):
        same = [one for one in seen if one.round == number and one.adds]
        if len(same) < CLIENTS or len({one.start for one in same}) > 1:
            continue
        judged += 1
        if finding := _judged(same, where, work):
            return [finding]
    return (
        [] if judged else [Finding("note", "not looked at: they add nothing to gradients, or clients begin elsewhere")]
    )


def _judged(clients: list[Corrected], where: str, work: str) -> Finding | None:
    own, after = (torch.stack([getattr(one, name) for one in clients]) for name in ("own", "after"))
    change = after - own
    size = float(change.norm(dim=1).mean())
    if size <= SMALL * float(own.norm(dim=1).mean()):
        return None
    look = f"look at the signs in `correct` and where what it reads is computed, in work ({work}) and update"
    wider = _spread(after) / max(_spread(own), 1e-30)
    if wider > SPREAD:
        message = f"`correct` drives the clients' gradients apart, to {wider:.1f} times their distance from their mean"
        return warning(f"{message}; control variates bring them together", where, look)
    weights = torch.tensor([one.weight for one in clients], dtype=change.dtype)
    means = change.mean(0), (weights[:, None] * change).sum(0) / weights.sum()
    left = min(float(mean.norm()) for mean in means) / size
    if left > LEFT:
        message = f"the corrections of all clients do not cancel: {left:.0%} of their size is left in their mean"
        return warning(f"{message}, which moves the model away from where the clients' gradients point", where, look)
    return None


def _spread(rows: Tensor) -> float:
    return float((rows - rows.mean(0)).norm(dim=1).mean())


def _played(trial: Trial) -> list[Corrected]:
    found: list[Corrected] = []

    def spy(work: Work, fit: Fit) -> Fit:
        return fit if fit.correct is None else replace(fit, correct=_Spy(work, fit, found))

    stage = trial.stage
    if stage.keys is DATA[0]:  # elsewhere clients differ as they do, and their periods stay
        stage = Stage(stage.part, {"data": SKEWED})
    lesson = stage.lesson()
    play(lesson, stage.trainer(), batch=False, spy=spy, rounds=[range(CLIENTS)] * ROUNDS)
    return found


class _Spy:
    """Corrects as the fit's own function does, and keeps the first gradients that it sees."""

    def __init__(self, work: Work, fit: Fit, found: list[Corrected]) -> None:
        self._work, self._fit, self._found, self._seen = work, fit, found, len(work.fits) > 1

    def __call__(self, grads: tree.Tree, given: tree.Tree) -> tree.Tree:
        assert self._fit.correct is not None
        after = self._fit.correct(grads, given)
        if not self._seen:
            self._seen = True
            twice = self._fit.correct(tree.scale(grads, 2.0), given)
            own, changed, other = _flat(grads), _flat(after), _flat(twice)
            adds = bool(torch.allclose(other - 2 * own, changed - own, rtol=1e-3, atol=1e-6))
            start = b"".join(prints.of(self._fit.start).values())
            weight = float(self._work.job.data["train"].sum())
            self._found.append(Corrected(self._work.number, start, weight, own, changed, adds))
        return after


def _flat(node: tree.Tree) -> Tensor:
    return torch.cat([leaf.detach().double().flatten() for leaf in tree.leaves(node)])
