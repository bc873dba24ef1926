"""The exchange that a prediction on a later snapshot requires, as if its data were there.

A model that was trained with corrections lacks them on a later graph unless clients exchange rows of that graph: its
features, sums and degrees, and with `layerwise` the outputs of each of its layers under the model that is scored.  The
server asks for what has become stale since its own period, and the client sends features only where the server has
others, as in training (`answers.py`).  A layerwise exchange asks for every row, because outputs depend on the model.

What is scored does not take part in the run: neither side remembers the exchange, and it is only counted, without
envelopes.  So two scorings of one graph pay twice.  Clients that have never worked, or are scored in another period,
take no part; sums over their nodes are incomplete, as they are in training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.dg_colearn.answers import corrected, fresh_rows, output, sums
from algorithms.dg_colearn.exchange import TWO_LAYERS
from algorithms.dg_colearn.incremental import Terms, left, sees_later
from algorithms.dg_colearn.overseer import Overseer
from fedsim.core import wire
from fedsim.data.graph import Graph, as_dense
from fedsim.learn.continual.snapshots import NodeRows, lasting, places
from fedsim.learn.engine import tree
from fedsim.learn.job import Seen, Sight


@dataclass
class Side:
    """A client's side of the exchange: its later graph, its states, what it has received, and the bytes so far."""

    terms: Terms
    sight: Sight
    after: NodeRows | None
    received: Mapping[str, NodeRows]
    nodes: Tensor  # of the client in the later snapshot, ascending
    up: int = 0
    down: int = 0

    @property
    def graph(self) -> Graph:
        """The graph with what has been received so far."""
        return sees_later(self.terms, self.sight.graph, self.after, self.received or None)

    def outputs(self, layer: int) -> Tensor:
        """Return what this layer sums at all nodes, under the model that is scored."""
        states = self.terms.task.model.remember(tree.stack([self.sight.params]), self.graph)
        return output(self.terms, states, layer)


@dataclass(frozen=True)
class Ahead:
    """An exchange about the snapshot that `seen` shows; `strict` and `k_min` are the algorithm's options."""

    terms: Terms
    seen: Overseer
    strict: bool
    k_min: int

    def views(self, sights: Sequence[Sight]) -> list[Seen]:
        """Return what clients see after the exchange, and the bytes of it."""
        due = self.seen.crosses(self.terms.exchange, strict=self.strict)
        sides = [self._begun(sight, due) for sight in sights]
        if not due:
            return [Seen(side.graph) for side in sides]
        seen = self._answered(sides)
        layers = self.terms.task.model.layers if self.terms.exchange == "layerwise" else 1
        for layer in range(1, layers + 1):
            if layer > 1:
                rows = [side.outputs(layer) for side in sides]
                seen = _noted(seen, f"h{layer - 1}", sides, rows)
                for side, row in zip(sides, rows, strict=True):
                    ids = self._asked(side)
                    side.up += wire.size({"ids": ids.int(), f"h{layer - 1}": row[places(side.nodes, ids)[0]]})
            self._corrected(seen, sides, layer)
        return [Seen(side.graph, side.up, side.down) for side in sides]

    def _begun(self, sight: Sight, due: bool) -> Side:
        nodes = sight.graph["node"]
        received = dict(lasting(sight.memory, nodes) or {})
        if self.terms.norm != "sum" and due:
            received["degree"] = nodes, self.seen.cut.degree[nodes.cpu()].to(nodes.device)
        return Side(self.terms, sight, left(self.terms, sight.memory), received, nodes)

    def _asked(self, side: Side) -> Tensor:
        """Return the nodes whose rows the client sends."""
        cut = self.seen.cut
        stale = cut.owner >= 0 if self.terms.exchange == "layerwise" else self.seen.due
        asked = self.seen.nodes(side.sight.client, stale if self.strict else stale & cut.border)
        return asked.to(side.nodes.device)

    def _answered(self, sides: Sequence[Side]) -> Overseer:
        """Return the view with the features of all nodes, and sums of them if the exchange is made of these.

        Rows that are not sent again are those that the server has.
        """
        xs = [as_dense(side.sight.graph["x"]) for side in sides]
        seen, hs = _noted(self.seen, "h0", sides, xs), []
        if self.terms.exchange in TWO_LAYERS:
            hs = [sums(self.terms, side.sight.graph, side.received) for side in sides]
            seen = _noted(seen, "h1", sides, hs)
        for number, side in enumerate(sides):
            ids = self._asked(side)
            place = places(side.nodes, ids)[0]
            x = xs[number][place]
            fresh = fresh_rows(side.sight.memory.get("sent"), ids, x)
            down = {"period": self.seen.period, "ids": ids.int(), "heard": 0}
            up = {"ids": ids.int(), "fresh": ids[fresh].int(), "h0": x[fresh], "turn": 0}
            if "degree" in side.received:
                down["degree"] = side.received["degree"][1].int()
            side.down += wire.size(down)
            side.up += wire.size({**up, "h1": hs[number][place]} if hs else up)
        return seen

    def _corrected(self, seen: Overseer, sides: Sequence[Side], layer: int) -> None:
        """Send the corrections of a layer."""
        rows = seen.corrections(self.terms.exchange, layer, self.k_min)
        wanted = seen.addressed(self.terms.exchange, strict=self.strict)
        for side in sides:
            ids = seen.nodes(side.sight.client, wanted)
            came = {key: value[ids].to(side.nodes.device) for key, value in rows.items()}
            side.down += wire.size({"period": seen.period, "ids": ids.int(), **came})
            ids = ids.to(side.nodes.device)
            side.received = corrected(self.terms, side.sight.graph, side.received, ids, came)


def _noted(seen: Overseer, name: str, sides: Sequence[Side], rows: Sequence[Tensor]) -> Overseer:
    ids = torch.cat([side.nodes.cpu() for side in sides])
    return seen.noted(name, ids, torch.cat([part.cpu() for part in rows]))
