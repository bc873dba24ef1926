"""Outputs of the models that were scored last, so that what has not changed since is not computed again.

Parameters are compared by identity: algorithms replace them and never change them in place.  Where clients have
parameters of their own and few of them have changed, only theirs are applied again.  That groups sums in another way
than applying all of them (see learn/cohort.py), so a checkpoint keeps these outputs.  Not known here: what is scored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from fedsim.learn import joining, tree
from fedsim.learn.task import Task
from fedsim.learner.plans import Joined, base_of

Params = Mapping[int, tree.Tree]  # by client


@dataclass(frozen=True, eq=False)
class Known:
    """An output, and what it was computed from."""

    joined: Joined
    shared: bool
    params: Params
    output: Tensor


class Outputs:
    """Applies models to joined graphs, and keeps the last output of each model, by the model's name."""

    def __init__(self, task: Task) -> None:
        """Know no output."""
        self._task = task
        self._known: dict[str, Known] = {}
        self._saved: dict[str, Any] = {}  # of a checkpoint, until they are asked for

    @torch.no_grad()
    def of(self, model: str, params: Params, joined: Joined, shared: bool) -> Tensor:
        """Return the output of every client's parameters on its graphs; with `shared` all clients have the same."""
        known = self._last(model, joined)
        stale = joined.clients
        if known is not None and known.shared == shared:
            stale = [client for client in joined.clients if params[client] is not known.params.get(client)]
        if known is not None and not stale:
            return known.output
        output = None if shared or known is None else self._renewed(known, params, stale)
        if output is None:
            output = self.fresh(params, joined, shared)
        self._known[model] = Known(joined, shared, params, output)
        return output

    @torch.no_grad()
    def fresh(self, params: Params, joined: Joined, shared: bool) -> Tensor:
        """Return the same output, computed from nothing that is known."""
        some = [next(iter(params.values()))] if shared else [params[client] for client in joined.clients]
        return self._task.forward(tree.stack(some), joined.graph)

    def notes(self) -> dict[str, Any]:
        """Return the outputs of clients' own parameters, for a checkpoint."""
        return {
            model: (_bases(known.joined), dict(known.params), known.output)
            for model, known in self._known.items()
            if not known.shared
        }

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Take over the outputs of a checkpoint."""
        self._saved = dict(saved)

    def _last(self, model: str, joined: Joined) -> Known | None:
        """Return what is known of a model on these graphs."""
        if model in self._saved:
            bases, params, output = self._saved.pop(model)
            if [(client, base_of(graph)) for client, graph in bases] == [*joined.starts]:
                return Known(joined, False, params, output)
        known = self._known.get(model)
        return known if known is not None and known.joined is joined else None

    def _renewed(self, known: Known, params: Params, stale: Sequence[int]) -> Tensor | None:
        """Return the known output with the rows of these clients computed anew; None where that is most of it."""
        place, parts = self._place(known.joined), known.joined.part
        if 2 * sum(place[client][1] for client in stale) > len(known.output):
            return None
        output, joined = known.output.clone(), joining.union([parts[client] for client in stale])
        made = self._task.forward(tree.stack([params[client] for client in stale]), joined)
        begin = 0
        for first, count in (place[client] for client in stale):
            output[first : first + count] = made[begin : begin + count]
            begin += count
        return output

    def _place(self, joined: Joined) -> dict[int, tuple[int, int]]:
        """Return each client's first row of the output and their number, where parameters are each client's own."""
        counts = [self._task.answers(part) for part in joined.part.values()]
        return dict(zip(joined.part, zip(accumulate(counts, initial=0), counts, strict=False), strict=True))


def _bases(joined: Joined) -> list[Any]:
    """Return what tells joined graphs from others, in a form that a checkpoint preserves: tensors of the data."""
    return [
        (client, {key: graph[key] for key in ("edges", "pairs") if key in graph}) for client, graph in joined.graphs
    ]
