"""Histories: the last events of each end of a pair before the second that the pair is asked about.

A history of length L has the end itself at place 0 and, from place 1 on and in order of time, its last L - 1 events
strictly before that second, as far as there are any.  They are found among the events that the graph holds
(`fedsim.data.event_pairs`), so a client reads no event of others.  What is later than the second, or at it, is never
read, and which other pairs are asked changes nothing.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fedsim.data.graph import Graph, as_dense, take_rows
from fedsim.learn import layout


class Histories(NamedTuple):
    """Histories of the ends of Q pairs, each tensor (Q, 2, L)."""

    vertex: Tensor  # int64: the end itself, then the other end of each event; the end again at free places
    event: Tensor  # int64: numbers of the events; 0 at place 0 and at free places
    gap: Tensor  # float32: seconds from the event to the pair's own; 0 at place 0 and at free places
    taken: Tensor  # bool: places that hold the end itself or an event


class Diary(NamedTuple):
    """A graph's events by vertex, each event at both of its ends."""

    order: Tensor  # (2 M,) numbers of events, by vertex and then by time
    other: Tensor  # (2 M,) the other end
    key: Tensor  # (2 M,) vertex and rank of the second as one number, ascending
    first: Tensor  # (N,) where each vertex's events begin
    seconds: Tensor  # (R,) the distinct seconds, ascending


def of(graph: Graph) -> Diary:
    """Return the graph's diary, derived once as long as its events are the same tensors."""
    found: Diary = layout.once(graph, "diary", (graph["events"], graph["happened"]), lambda: _diary(graph))
    return found


def before(graph: Graph, pairs: Tensor, moments: Tensor, length: int) -> Histories:
    """Return the histories of `length` places of the ends of pairs (2, Q), rows of the graph, before seconds (Q,)."""
    diary, ends = of(graph), pairs.T.contiguous()
    rank = torch.searchsorted(diary.seconds, moments)  # of the first second that is not before
    stop = torch.searchsorted(diary.key, ends * (len(diary.seconds) + 1) + rank.unsqueeze(1))
    count = (stop - diary.first[ends]).clamp(max=length - 1)
    place = torch.arange(length, device=ends.device)
    told = (place > 0) & (place <= count.unsqueeze(2))
    at = torch.where(told, (stop - count).unsqueeze(2) + place - 1, 0)
    if not len(diary.order):
        free = torch.zeros_like(at)
        return Histories(ends.unsqueeze(2).expand_as(at), free, free.float(), told | (place == 0))
    event = torch.where(told, diary.order[at], 0)
    gap = torch.where(told, moments.view(-1, 1, 1) - graph["happened"][event], 0.0)
    vertex = torch.where(told, diary.other[at], ends.unsqueeze(2))
    return Histories(vertex, event, gap.float(), told | (place == 0))


def common(found: Histories) -> Tensor:
    """Return how often the vertex at each place is in the history of either end: (Q, 2, L, 2), 0 at free places."""
    pairs, ends, length = found.vertex.shape
    flat, taken = found.vertex.flatten(1), found.taken.flatten(1)
    same = (flat.unsqueeze(2) == flat.unsqueeze(1)) & taken.unsqueeze(2) & taken.unsqueeze(1)
    return same.view(pairs, ends, length, ends, length).sum(4)


def features(graph: Graph, found: Histories) -> tuple[Tensor, Tensor]:
    """Return the features of each place's vertex (2 Q L, F) and of its event (2 Q L, D), zeros where there is none."""
    of_vertex = as_dense(take_rows(graph["x"], found.vertex.flatten()))
    message = graph["message"]
    if not len(message):
        return of_vertex, of_vertex.new_zeros(len(of_vertex), message.shape[1])
    told = found.taken.clone()
    told[:, :, 0] = False
    return of_vertex, message[found.event.flatten()] * told.view(-1, 1)


def _diary(graph: Graph) -> Diary:
    ends, n = graph["events"], len(graph["y"])
    count = ends.shape[1]
    seconds, rank = torch.unique(graph["happened"], return_inverse=True)
    vertex, other = ends.T.reshape(-1), ends.flip(0).T.reshape(-1)  # event after event, so that a stable sort will do
    number = torch.arange(count, device=ends.device).repeat_interleave(2)
    order = torch.argsort(vertex, stable=True)
    key = vertex[order] * (len(seconds) + 1) + rank[number[order]]
    counts = torch.bincount(vertex, minlength=n)
    return Diary(number[order], other[order], key, counts.cumsum(0) - counts, seconds)
