"""The events that a task learns from: those of each client's own period, and negatives drawn beside them.

A step draws events with replacement, each client's from its seed, and for each of them negatives at the same second, in
which one end, drawn at random, is replaced by any third vertex of the client.  What is drawn depends on the client's
seed and its own events alone, not on batching or the device.  Not modelled: negatives that have had events before.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fedsim.data.event_pairs import replaced
from fedsim.data.graph import Graph, with_keys
from fedsim.learn import layout, ops

BITS = 2**62 - 1


class Fresh(NamedTuple):
    """The events of the graph's own period."""

    number: Tensor  # (M',) among the graph's events, client by client
    counts: Tensor  # (K,) of each client
    first: Tensor  # (K,) where each client's begin


def of(graph: Graph) -> Fresh:
    """Return the graph's fresh events, derived once as long as its events are the same tensors."""
    found: Fresh = layout.once(graph, "fresh", (graph["events"], graph["fresh"]), lambda: _derive(graph))
    return found


def asking(graph: Graph, seeds: Tensor, here: Tensor, batch: int, opposed: int) -> Graph:
    """Return the graph with what a step is trained on as its pairs (2, k · (1 + opposed) · batch).

    They stand client by client: `batch` events, then as many negatives, `opposed` times.  `seeds` (K,) are those of all
    clients, and `here` (k,) the clients that have events.  Negatives of clients without a third vertex are invalid.
    """
    fresh, sizes = of(graph), graph["sizes"][here]
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
