"""Events that a client holds, and pairs of nodes that are asked whether they have an event at a given second.

A snapshot of the whole graph has the `events` (2, m) of its window, their seconds `happened` (m,) and
features `message` (m, D).  A client's graph of period t has all events so far that it has recorded, in order
of time: those between two nodes that were its own in the event's snapshot and are its own in t; `fresh` (M,)
marks those of t itself.  So it never holds an event of another client or between clients, and forgets one
when an end of it has left.

`asking` adds the pairs on which models are scored: every fresh event at its own second (`moments`), and one
negative, in which one end of the event, drawn at random, is replaced by any third node of the client.  A
negative may by chance have an event at that second too.  Not modelled: directions, loops, events that repeat
within a second, and negatives that keep to the sides of a bipartite graph or to pairs seen before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedsim.core.errors import ScenarioError
from fedsim.data.graph import Graph, numbers_among, with_keys, with_masks


@dataclass(frozen=True, eq=False)
class Events:
    """Events in order of time, their ends (2, m) under the whole graph's numbers."""

    ends: Tensor
    happened: Tensor
    message: Tensor


def of_window(graph: Graph, first: Tensor, last: Tensor, *, closed: bool) -> dict[str, Tensor]:
    """Return a snapshot's keys: the events of a whole graph from second `first` to `last`, or with it."""
    times, (low, high) = graph["since"], graph["edges"]
    inside = (low < high) & (times >= first) & ((times <= last) if closed else (times < last))
    rows = inside.nonzero().squeeze(1)
    rows = rows[torch.argsort(times[rows], stable=True)]
    message = graph["message"][rows] if "message" in graph else torch.zeros(len(rows), 0)
    return {"events": graph["edges"][:, rows], "happened": times[rows], "message": message}


def only_events(graph: Graph, key: str, what: str) -> None:
    """Raise ScenarioError at the key unless every edge of the whole graph occurs at one second only."""
    if not torch.equal(graph["since"], graph["until"]):
        message = f"{what} of events, and in this data set edges last; take events (such as college_msg, drawn_events "
        raise ScenarioError.at(key, f"{message}or meetings), or steps and another way of scoring")


def recorded(snapshot: Graph, owner: np.ndarray, clients: int) -> list[Events]:
    """Return each client's own events of a snapshot; owner (N,) has each node's client, -1 for none."""
    of = torch.from_numpy(owner)[snapshot["events"]]
    rows = ((of[0] == of[1]) & (of[0] >= 0)).nonzero().squeeze(1)
    rows = rows[torch.argsort(of[0][rows], stable=True)]
    return [
        Events(snapshot["events"][:, chosen], snapshot["happened"][chosen], snapshot["message"][chosen])
        for chosen in torch.split(rows, torch.bincount(of[0][rows], minlength=clients).tolist())
    ]


def holding(graph: Graph, so_far: Sequence[Events]) -> Graph:
    """Return a client's graph with all events of its snapshots up to its own, the last of them."""
    ends = torch.cat([part.ends for part in so_far], dim=1)
    fresh = torch.zeros(ends.shape[1], dtype=torch.bool)
    fresh[len(fresh) - so_far[-1].ends.shape[1] :] = True
    known = numbers_among(graph["node"], ends)
    rows = (known >= 0).all(0).nonzero().squeeze(1)
    train, nobody = torch.full_like(graph["train"], bool(fresh[rows].any())), torch.zeros_like(graph["train"])
    events = {
        "events": known[:, rows],
        "happened": torch.cat([part.happened for part in so_far])[rows],
        "message": torch.cat([part.message for part in so_far])[rows],
        "fresh": fresh[rows],
    }
    return with_keys(with_masks(graph, train, nobody, nobody), events)


def asking(graph: Graph, rng: np.random.Generator) -> Graph:
    """Return the graph with its fresh events and as many negatives as `pairs`; no third node, no negative."""
    ends, happened = graph["events"][:, graph["fresh"]], graph["happened"][graph["fresh"]]
    count, n = ends.shape[1], len(graph["y"])
    turned, ranks = rng.integers(2, size=count), rng.integers(max(1, n - 2), size=count)
    pairs = ends
    if n > 2:
        negatives = replaced(ends, torch.from_numpy(turned), torch.from_numpy(ranks))
        pairs, happened = torch.cat([ends, negatives], dim=1), happened.repeat(2)
    return with_keys(graph, {"pairs": pairs, "links": torch.arange(pairs.shape[1]) < count, "moments": happened})


def asked(graph: Graph, split: int) -> Graph:
    """Return the graph with all of its pairs in that split."""
    return with_keys(graph, {"asked": torch.full(graph["links"].shape, split, dtype=torch.int8)})


def replaced(ends: Tensor, turned: Tensor, ranks: Tensor) -> Tensor:
    """Return pairs (2, P) with one end replaced by the node of that rank (P,) that is neither end.

    `turned` (P,) is 0 or 1, the row of the end that stays; ranks run from 0 to the number of nodes less
    three.
    """
    stays = ends.gather(0, turned.unsqueeze(0)).squeeze(0)
    low, high = ends.min(0).values, ends.max(0).values
    third = ranks + (ranks >= low)
    return torch.stack([stays, third + (third >= high)])
