"""Ego-graphs of fixed shape, and their means (FedEgo: Zhang et al., ACM TKDD 18(2), 2024).

An ego-graph of fan-out (f1, f2) has 1 + f1 + f1 f2 slots: the centre, f1 of its neighbours, f2 of each one's; slot
1 + f1 + f2 i + j is joined to slot 1 + i.  Neighbours are drawn with replacement, and a node without any counts as
its own neighbour.  A batch of centres is averaged ("mashed") into one: slot by slot the mean of features and of labels.
The edges are the same in all of them and need not be sent.
"""

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph, graph_of
from fedsim.learn.engine import layout


def slots(fanout: Sequence[int]) -> int:
    """Return the number of slots of an ego-graph."""
    return 1 + fanout[0] + fanout[0] * fanout[1]


def edges(fanout: Sequence[int]) -> Tensor:
    """Return the edges (2, S - 1) of one ego-graph, each from a slot to the one it is joined to."""
    first, second = fanout
    parents = [0] * first + [1 + i for i in range(first) for _ in range(second)]
    return torch.tensor([list(range(1, len(parents) + 1)), parents])


def sampled(graph: Graph, centres: Tensor, fanout: Sequence[int], generator: Generator) -> Tensor:
    """Return the nodes (n, S) in the slots of each centre's (n,) ego-graph."""
    matrix = layout.of(graph).matrix("sum").rows
    crow, column = matrix.crow.long(), matrix.column.long()

    def drawn(of: Tensor, count: int) -> Tensor:
        places = torch.rand((len(of), count), generator=generator).to(of.device)
        degree = crow.diff()[of].unsqueeze(1)
        if not len(column):
            return of.unsqueeze(1).expand(-1, count)
        at = crow[of].unsqueeze(1) + (places * degree).long().clamp(max=(degree - 1).clamp(min=0))
        return torch.where(degree > 0, column[at.clamp(max=len(column) - 1)], of.unsqueeze(1))

    near = drawn(centres, fanout[0])
    far = drawn(near.flatten(), fanout[1]).reshape(len(centres), fanout[0] * fanout[1])
    return torch.cat([centres.unsqueeze(1), near, far], 1)


def batches(count: int, size: int) -> int:
    """Return the number of batches of a given size at most."""
    return -(-count // size)


def mashed(rows: Tensor, chosen: Tensor, size: int) -> Tensor:
    """Return the means (B, S, F) of rows (N, F) over batches of the chosen nodes (n, S).

    The B batches, of at most `size`, are of equal size, give or take one.
    """
    parts = torch.tensor_split(chosen, max(1, batches(len(chosen), size)))
    if not len(chosen):
        return rows.new_zeros(0, chosen.shape[1], rows.shape[1])
    return torch.stack([rows[part.flatten()].reshape(*part.shape, rows.shape[1]).mean(0) for part in parts])


def joined(x: Tensor, fanout: Sequence[int]) -> Graph:
    """Return ego-graphs of features (B, S, F) side by side as one graph, without labels."""
    count, width = x.shape[:2]
    start = (torch.arange(count) * width).view(-1, 1, 1)
    ends = (edges(fanout).unsqueeze(0) + start).permute(1, 0, 2).reshape(2, -1).to(x.device)
    return graph_of(x.flatten(0, 1), ends, torch.zeros(count * width, dtype=torch.long, device=x.device))


def distance(first: Tensor, second: Tensor) -> float:
    """Return the earth mover's distance of two label distributions (C,), all labels 1 apart: 0 to 2."""
    return float((first - second).abs().sum())
