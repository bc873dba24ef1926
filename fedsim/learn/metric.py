"""The contract of a metric: a score of predictions for each of several owners, with one call for all of them.

A metric receives which predictions belong to which client, so that a client's score and that of all clients'
predictions taken as one test are the same computation with other owners.  Summaries, targets and comparisons
take the first metric of a scenario for a score, larger where predictions are better; an error
(`lower_is_better`) is measured beside it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Judged:
    """Predictions to be scored, n rows of `owners` owners; `owner` (n,) int64 tells whose each row is.

    Of classes, `logits` are (n, C) and `y` (n,) int64 is the label: argmax runs over all C, no class is
    masked.  Of links, `logits` are (n,) and `y` (n,) bool tells whether the pair is joined: NaN logits rank
    last.  Where a link predictor embeds nodes, `reciprocal_ranks(owner, owners)` returns the mean reciprocal
    rank of each owner's links.  Of real values, `logits` are the predictions (n, T) and `y` (n, T) the targets.
    """

    logits: Tensor
    y: Tensor
    owner: Tensor
    owners: int
    reciprocal_ranks: Callable[[Tensor, int], Tensor] | None = None

    def means(self, each: Tensor) -> Tensor:
        """Return the mean of these (n,) float64 over each owner's rows: (owners,), NaN without rows."""
        total = each.new_zeros(self.owners).index_add_(0, self.owner, each)
        return total / torch.bincount(self.owner, minlength=self.owners)

    def counts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return how many rows of each class are right, predicted and labelled so: three of (owners, C) float64."""
        classes, guess = self.logits.shape[1], self.logits.argmax(1)

        def tally(label: Tensor, of: Tensor) -> Tensor:
            cells = torch.bincount(of * classes + label, minlength=self.owners * classes)
            return cells.view(self.owners, classes).double()

        hit = guess == self.y
        return tally(self.y[hit], self.owner[hit]), tally(guess, self.owner), tally(self.y, self.owner)


class Metric(ABC):
    """A score, or an error; its subclasses are frozen dataclasses without options."""

    # what it can score: "classes", real "values", "links", or "embeddings" of link ends
    of: ClassVar[Sequence[str]] = ("classes",)
    lower_is_better: ClassVar[bool] = False  # True for an error, which cannot be the first metric
    mean: ClassVar[bool] = False  # True for a mean over rows: that of all is then the weighted mean of the owners'

    @abstractmethod
    def values(self, judged: Judged) -> Tensor:
        """Return the score of each owner's rows: (owners,) float64, NaN where there is none."""
