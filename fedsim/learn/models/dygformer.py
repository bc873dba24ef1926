"""DyGFormer (Yu et al., NeurIPS 2023): a transformer over the last events of both ends of a pair.

Each end of the pair (u, v, t) has a history: itself and its last `length` - 1 events before t
(`fedsim.learn.pairs.histories`).  Every place of it is described by four vectors, each projected to `channel`
numbers:

- the features of the node there, and those of the event, both padded with zeros to `padded`;
- cos(w (t - t_i) + b), `time` numbers, with w = 10^{-linspace(0, 9)} and b = 0 at first, both trained;
- how often that node occurs in the history of u, and in that of v: both counts through 1 → channel → channel, summed.

The four side by side (D = 4 channel) are the rows of pre-norm transformer layers over u's history followed by v's:

    h ← h + dropout(attention(norm(h)));  h ← h + dropout(dropout(gelu(norm(h) A + a)) B + b)

An end's embedding is the mean over its places times D → hidden, and the pair's logit 2 hidden → hidden → 1.
With the defaults this has 1,027,522 parameters and 59,513 in the last two maps.

Free places are masked, in attention and in the mean.  The authors' code masks them in neither, so that there
a pair's score depends on how long the histories of those are that happen to share its batch; here it depends
on the pair alone.  Not modelled: patches of several events (the original's size is 1 for histories of 32),
positions other than times, and negatives of the original's training beside uniform ones.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fedsim.core.errors import ScenarioError
from fedsim.core.units import Count, Fraction
from fedsim.data.graph import Graph, graph_of, with_keys
from fedsim.learn.engine import ops
from fedsim.learn.layers import dense
from fedsim.learn.model import PairModel, Parameters, glorot
from fedsim.learn.pairs import histories

BLOCK = 256  # pairs judged at once where nothing is trained, so that memory does not grow with their number
EPSILON = 1e-5  # added to variances


@dataclass(frozen=True)
class DyGFormer(PairModel):
    """Linear maps drawn as `torch.nn.Linear` does, those of attention by Glorot's rule."""

    hidden: Count = 172  # width of an end's embedding
    layers: Count = 2  # transformer layers
    dropout: Fraction = 0.1  # share of values zeroed while training
    channel: Count = 50  # width of each of the four parts of a place
    heads: Count = 2  # of attention; they divide 4 channel
    time: Count = 100  # frequencies of the time encoding
    length: Count = 32  # places of a history, the end itself included
    padded: Count = 172  # width to which features of nodes and of events are padded with zeros

    def __post_init__(self) -> None:
        """Raise ValueError for heads that do not divide the width."""
        if self.width % self.heads:
            raise ValueError(f"heads: must divide 4 channel, which is {self.width}, without remainder")

    @property
    def width(self) -> int:
        """Return D, the width of the transformer."""
        return 4 * self.channel

    def init(self, features: int, classes: int, generator: Generator) -> Parameters:
        """Return the first parameters.  Raises ScenarioError where nodes have more than `padded` features."""
        self._fits(features, "nodes")
        frequencies = (10.0 ** -torch.linspace(0, 9, self.time, dtype=torch.float64)).float().unsqueeze(0)
        params = {"time": {"weight": frequencies, "bias": torch.zeros(self.time)}}
        maps = {
            "count": (1, self.channel), "counts": (self.channel, self.channel),
            "of_node": (self.padded, self.channel), "of_event": (self.padded, self.channel),
            "of_time": (self.time, self.channel), "of_counts": (self.channel, self.channel),
            "out": (self.width, self.hidden), "pair": (2 * self.hidden, self.hidden), "logit": (self.hidden, 1),
        }  # fmt: skip
        params |= {name: dense.layer(*ends, generator) for name, ends in maps.items()}
        for i in range(1, self.layers + 1):
            params[f"layer{i}"] = self.layer_init(self.width, self.width, generator)
        return params

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return one transformer layer's parameters; its width stays the same."""
        wide, narrow = dense.layer(inputs, 4 * inputs, generator), dense.layer(4 * inputs, inputs, generator)
        return {
            "scale1": torch.ones(inputs), "shift1": torch.zeros(inputs),
            "attend": glorot(inputs, 3 * inputs, generator), "attend_bias": torch.zeros(3 * inputs),
            "mix": dense.layer(inputs, inputs, generator)["weight"], "mix_bias": torch.zeros(inputs),
            "scale2": torch.ones(inputs), "shift2": torch.zeros(inputs),
            "wide": wide["weight"], "wide_bias": wide["bias"],
            "narrow": narrow["weight"], "narrow_bias": narrow["bias"],
        }  # fmt: skip

    def forward(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the logit (P,) of every pair of the graph."""
        if torch.is_grad_enabled():
            return self._judged(params, graph, graph["pairs"], graph["moments"])
        pairs, moments = (torch.split(graph[key], BLOCK, dim=-1) for key in ("pairs", "moments"))
        return torch.cat([self._judged(params, graph, *block) for block in zip(pairs, moments, strict=True)])

    def _judged(self, params: Parameters, graph: Graph, pairs: Tensor, moments: Tensor) -> Tensor:
        places = histories.before(graph, pairs, moments, self.length)
        ends, single = _rows(graph, pairs, 2), _rows(graph, pairs, 1)
        h = _through(params["out"], self._means(params, graph, pairs, places), ends)
        hidden = torch.relu(_through(params["pair"], h.view(pairs.shape[1], 2 * self.hidden), single))
        return _through(params["logit"], hidden, single).squeeze(1)

    def _means(self, params: Parameters, graph: Graph, pairs: Tensor, held: histories.Histories) -> Tensor:
        """Return the mean over the taken places of each end's history after all layers: (2 Q, D)."""
        places = with_keys(_rows(graph, pairs, 2 * self.length), {"taken": held.taken.flatten()})
        h = self._described(params, graph, held, places)
        for i in range(1, self.layers + 1):
            seed = {"seed": ops.seed_steps(places["seed"], i, 0)} if "seed" in places else {}
            h = self.layer(params[f"layer{i}"], h, with_keys(places, seed))
        taken = held.taken.view(-1, self.length, 1).to(h.dtype)
        return (h.view(-1, self.length, self.width) * taken).sum(1) / taken.sum(1)

    def _described(self, params: Parameters, graph: Graph, held: histories.Histories, places: Graph) -> Tensor:
        """Return the four parts of each place side by side: (2 Q L, D)."""
        of_node, of_event = histories.features(graph, held)
        self._fits(of_node.shape[1], "nodes")
        self._fits(of_event.shape[1], "events")
        waves = torch.cos(_through(params["time"], held.gap.view(-1, 1), places))
        seen = histories.common(held).view(-1, 2).to(of_node.dtype)
        first, second = (torch.relu(_through(params["count"], seen[:, at : at + 1], places)) for at in (0, 1))
        counts = _through(params["counts"], first + second, places)
        counts = counts + ops.by_row(params["counts"]["bias"], places)  # of both
        parts = {"of_node": of_node, "of_event": of_event, "of_time": waves, "of_counts": counts}
        return torch.cat([_through(params[name], part, places) for name, part in parts.items()], dim=1)

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Return h (n, D) after a transformer layer; the graph's rows are places, 2 `length` of them a pair."""
        mixed = ops.linear(_norm(h, params, "1", graph), params["attend"], graph, params["attend_bias"])
        mixed = self._attended(mixed, graph)
        mixed = ops.linear(mixed, params["mix"], graph, params["mix_bias"])
        h = h + ops.dropout(mixed, self.dropout, graph, 1)
        wide = F.gelu(ops.linear(_norm(h, params, "2", graph), params["wide"], graph, params["wide_bias"]))
        wide = ops.dropout(wide, self.dropout, graph, 2)
        return h + ops.dropout(ops.linear(wide, params["narrow"], graph, params["narrow_bias"]), self.dropout, graph, 3)

    def _attended(self, joined: Tensor, graph: Graph) -> Tensor:
        """Return what the heads gather (n, D) for queries, keys and values side by side (n, 3 D)."""
        places, each = 2 * self.length, self.width // self.heads
        query, key, value = joined.view(-1, places, 3, self.heads, each).permute(2, 0, 3, 1, 4)
        scores = query @ key.mT * each**-0.5
        scores = scores.masked_fill(~graph["taken"].view(-1, 1, 1, places), -torch.inf)
        share = torch.softmax(scores, dim=3).transpose(1, 2)  # (Q, places, heads, places)
        share_left = ops.dropout(share.reshape(len(joined), self.heads * places), self.dropout, graph, 4)
        gathered: Tensor = share_left.view(share.shape).transpose(1, 2) @ value
        return gathered.transpose(1, 2).reshape(len(joined), self.width)

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """Return the operations of a layer on that many places (`nodes`)."""
        return nodes * (24.0 * inputs * inputs + 8.0 * self.length * inputs)

    def pair_flops(self, features: int, message: int) -> float:
        """Return the operations of judging a pair."""
        places, both = 2 * self.length, features + message
        described = 2.0 * self.channel * (both + self.time + 2 + 2 * self.channel) + 10.0 * self.time
        last = 2.0 * (2 * self.width * self.hidden + 2 * self.hidden**2 + self.hidden)
        layers = self.layers * self.layer_flops(places, 0, 0, self.width, self.width)
        return places * described + places * places + layers + last

    def pair_bytes(self) -> int:
        """Return the bytes of what a pair's layers keep: some 22 D for each place, and three tables of attention."""
        places = 2 * self.length
        return 4 * self.layers * places * (22 * self.width + 4 * self.heads * places)

    def _fits(self, features: int, of: str) -> None:
        if features > self.padded:
            message = f"{of} have {features} features, which cannot be padded to {self.padded}; take {features} or more"
            raise ScenarioError.at("model.padded", message)


def _rows(graph: Graph, pairs: Tensor, each: int) -> Graph:
    """Return a graph without edges whose rows are `each` rows of every pair (2, Q), at the pair's client."""
    client = graph["client"][pairs[0]].repeat_interleave(each)
    sizes = torch.bincount(client, minlength=len(graph["sizes"]))
    rows = graph_of(client.new_zeros(len(client), 0), client.new_zeros(2, 0), client)
    seed = {"seed": graph["seed"]} if "seed" in graph else {}
    return with_keys(rows, {"client": client, "sizes": sizes, **seed})


def _through(params: dict[str, Tensor], h: Tensor, rows: Graph) -> Tensor:
    """Return h (n, f) through an affine map of each client; columns that h lacks are zeros."""
    if not h.shape[1]:
        return ops.by_row(params["bias"], rows)
    return ops.linear(h, params["weight"][:, : h.shape[1]], rows, params["bias"])


def _norm(h: Tensor, params: dict[str, Tensor], which: str, rows: Graph) -> Tensor:
    scale, shift = (ops.by_row(params[f"{name}{which}"], rows) for name in ("scale", "shift"))
    return F.layer_norm(h, h.shape[1:], eps=EPSILON) * scale + shift
