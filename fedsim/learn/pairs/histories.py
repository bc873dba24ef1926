"""Histories: the last events of each end of a pair before the second that the pair is asked about.

A history of length L has the end itself at place 0 and, from place 1 on and in order of time, its last L - 1 events
strictly before that second, as far as there are any.  They are found among the events that the graph holds
(`fedsim.data.time.event_pairs`), so a client reads no event of others.  What is later than the second, or at it, is
never read, and which other pairs are asked changes nothing.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fedsim.data.graph import Graph, as_dense, take_rows, with_keys
from fedsim.data.time.event_pairs import replaced
from fedsim.learn.engine import layout, ops


class Histories(NamedTuple):
    """Histories of the ends of Q pairs, each tensor (Q, 2, L)."""

    node: Tensor  # int64: the end itself, then the other end of each event; the end again at free places
    event: Tensor  # int64: numbers of the events; 0 at place 0 and at free places
    gap: Tensor  # float32: seconds from the event to the pair's own; 0 at place 0 and at free places
    taken: Tensor  # bool: places that hold the end itself or an event


class Diary(NamedTuple):
    """A graph's events by node, each event at both of its ends."""

    order: Tensor  # (2 M,) numbers of events, by node and then by time
    other: Tensor  # (2 M,) the other end
    key: Tensor  # (2 M,) node and rank of the second as one number, ascending
    first: Tensor  # (N,) where each node's events begin
    seconds: Tensor  # (R,) the distinct seconds, ascending


def before(graph: Graph, pairs: Tensor, moments: Tensor, length: int) -> Histories:
    """Return the histories of `length` places of the ends of pairs (2, Q), rows of the graph, before seconds (Q,)."""
    # derived once as long as the events are the same tensors
    diary = layout.once(graph, "diary", (graph["events"], graph["happened"]), lambda: _diary(graph))
    ends = pairs.T.contiguous()
    rank = torch.searchsorted(diary.seconds, moments)  # of the first second that is not before
    stop = torch.searchsorted(diary.key, ends * (len(diary.seconds) + 1) + rank.unsqueeze(1))
    count = (stop - diary.first[ends]).clamp(max=length - 1)
    place = torch.arange(length, device=ends.device)
    is_event = (place > 0) & (place <= count.unsqueeze(2))
    at = torch.where(is_event, (stop - count).unsqueeze(2) + place - 1, 0)
    if not len(diary.order):
        free = torch.zeros_like(at)
        return Histories(ends.unsqueeze(2).expand_as(at), free, free.float(), is_event | (place == 0))
    event = torch.where(is_event, diary.order[at], 0)
    gap = torch.where(is_event, moments.view(-1, 1, 1) - graph["happened"][event], 0.0)
    node = torch.where(is_event, diary.other[at], ends.unsqueeze(2))
    return Histories(node, event, gap.float(), is_event | (place == 0))


def common(found: Histories) -> Tensor:
    """Return how often the node at each place is in the history of either end: (Q, 2, L, 2), 0 at free places."""
    pairs, ends, length = found.node.shape
    flat, taken = found.node.flatten(1), found.taken.flatten(1)
    same = (flat.unsqueeze(2) == flat.unsqueeze(1)) & taken.unsqueeze(2) & taken.unsqueeze(1)
    return same.view(pairs, ends, length, ends, length).sum(4)


def features(graph: Graph, found: Histories) -> tuple[Tensor, Tensor]:
    """Return the features of each place's node (2 Q L, F) and of its event (2 Q L, D), zeros where there is none."""
    of_node = as_dense(take_rows(graph["x"], found.node.flatten()))
    message = graph["message"]
    if not len(message):
        return of_node, of_node.new_zeros(len(of_node), message.shape[1])
    is_event = found.taken.clone()
    is_event[:, :, 0] = False
    return of_node, message[found.event.flatten()] * is_event.view(-1, 1)


def _diary(graph: Graph) -> Diary:
    ends, n = graph["events"], len(graph["y"])
    count = ends.shape[1]
    seconds, rank = torch.unique(graph["happened"], return_inverse=True)
    node, other = ends.T.reshape(-1), ends.flip(0).T.reshape(-1)  # event after event, so that a stable sort will do
    number = torch.arange(count, device=ends.device).repeat_interleave(2)
    order = torch.argsort(node, stable=True)
    key = node[order] * (len(seconds) + 1) + rank[number[order]]
    counts = torch.bincount(node, minlength=n)
    return Diary(number[order], other[order], key, counts.cumsum(0) - counts, seconds)


BITS = 2**62 - 1


class Fresh(NamedTuple):
    """The events of the graph's own period, which a task learns from."""

    number: Tensor  # (M',) among the graph's events, client by client
    counts: Tensor  # (K,) of each client
    first: Tensor  # (K,) where each client's begin


def fresh_events(graph: Graph) -> Fresh:
    """Return the graph's fresh events, derived once as long as its events are the same tensors."""
    return layout.once(graph, "fresh", (graph["events"], graph["fresh"]), lambda: _derive(graph))


def asking(graph: Graph, seeds: Tensor, here: Tensor, batch: int, opposed: int) -> Graph:
    """Return the graph with what a step is trained on as its pairs (2, k · (1 + opposed) · batch).

    Events are drawn with replacement, each client's from its seed, and for each of them negatives at the same second,
    in which one end, drawn at random, is replaced by any third node of the client.  What is drawn depends on the
    client's seed and its own events alone.  Not modelled: negatives that have had events before.

    They stand client by client: `batch` events, then as many negatives, `opposed` times.  `seeds` (K,) are those of all
    clients, and `here` (k,) the clients that have events.  Negatives of clients without a third node are invalid.
    """
    fresh, sizes = fresh_events(graph), graph["sizes"][here]
    counter = torch.arange((1 + opposed) * batch, device=sizes.device)
    words = ops.words(seeds[here].unsqueeze(1), counter).view(len(here), 1 + opposed, batch)
    place = (words[:, :1] >> 1 & BITS) % fresh.counts[here].view(-1, 1, 1)
    number = fresh.number[place + fresh.first[here].view(-1, 1, 1)].expand_as(words)
    ends, start = graph["events"][:, number], (graph["sizes"].cumsum(0) - graph["sizes"])[here].view(-1, 1, 1)
    ranks = (words[:, 1:] >> 2 & BITS) % (sizes - 2).clamp(min=1).view(-1, 1, 1)
    apart = replaced((ends[:, :, 1:] - start).flatten(1), (words[:, 1:] & 1).flatten(), ranks.flatten())
    apart = (apart.view_as(ends[:, :, 1:]) + start).clamp(max=len(graph["y"]) - 1)  # where there is no third
    pairs = torch.cat([ends[:, :, :1], apart], dim=2).flatten(1)
    return with_keys(graph, {"pairs": pairs, "moments": graph["happened"][number].flatten()})


def _derive(graph: Graph) -> Fresh:
    number = graph["fresh"].nonzero().squeeze(1)
    counts = torch.bincount(graph["client"][graph["events"][0][number]], minlength=len(graph["sizes"]))
    return Fresh(number, counts, counts.cumsum(0) - counts)
