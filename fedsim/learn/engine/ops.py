"""The operations that models and losses are made of, each aware of the client axis.

Parameters carry a leading axis K, the graphs of K clients stand side by side as one (`joining.union`), and a
loss is a vector (K,).  No padding of graphs, no mapping over clients, no copies: the mathematics is written
once.  The one rule for authors: reduce over nodes only with this module, and over parameters only with
`tree`.

A loss may contain gradients (`create_graph`): these operations can be differentiated any number of times.
Every sum runs in a fixed order, on a GPU too, so that equal input gives equal output, bit for bit.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fedsim.core.arrays import Ints
from fedsim.core.seeds import integer
from fedsim.data.graph import Graph, csr
from fedsim.learn.engine import layout
from fedsim.learn.engine.blocks import Csr, Matrix
from fedsim.learn.engine.layout import Attention
from fedsim.learn.engine.products import ClientMean, by_client, product, rows_of, times

# Odd constants of the SplitMix64 generator (Steele, Lea and Flood, OOPSLA 2014), as signed 64-bit integers.
GOLDEN = -7046029254386353131
MIX_1 = -4658895280553007687
MIX_2 = -7723592293110705685
Words = TypeVar("Words", Tensor, Ints)


def generator(seed: int, *name: object) -> Generator:
    """Return the random stream of that name, on the CPU."""
    return Generator().manual_seed(integer(seed, *name))


def linear(x: Tensor, weight: Tensor, graph: Graph, bias: Tensor | None = None) -> Tensor:
    """Return the rows of client k times weight[k], plus bias[k].

    x (N, F) dense, or the graph's own sparse features; weight (K, F, H); bias (K, H); result (N, H).
    """
    derived = layout.of(graph)
    if x.layout != torch.sparse_csr:
        return by_client(x, weight, derived, bias)
    return product(weight.flatten(0, 1), derived.x, bias, derived)


def root(x: Tensor) -> Tensor:
    """Return square roots, rounded alike on every processor; at 0 they have no gradient.

    Those of torch begin with the processor's approximate reciprocal (`core/kernels.py`).
    """
    return x.rsqrt().reciprocal()


def by_row(values: Tensor, graph: Graph) -> Tensor:
    """Give every node its client's row: (K, H) → (N, H), or (K,) → (N,)."""
    if len(values) == 1:
        return values.expand(len(graph["y"]), *values.shape[1:])
    return rows_of(values, layout.of(graph))


def propagate(h: Tensor, graph: Graph, norm: str = "sym", bias: Tensor | None = None) -> Tensor:
    """Return the sum over each node's in-neighbours of h (N, H), for all clients in one sparse product.

    Plus bias[k] (K, H), if given, at every node of client k.

    `sym` adds self-loops and weighs by D^-1/2 on both sides (GCN), `mean` averages over neighbours (SAGE),
    `sum` adds them up.  A node without neighbours gets zero under `mean` and `sum`.  `closed` adds up
    neighbours and the node itself; `open_sym` is `sym` without the self-loops.
    """
    derived = layout.of(graph)
    return product(h, derived.matrix(norm), bias, derived)


class _Attend(torch.autograd.Function):
    """Softmax over each node's in-edges and the weighted sum over them, with its own backward pass."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, source: Tensor, target: Tensor, edges: Attention, slope: float) -> Tensor:
        raw = source.index_select(0, edges.source) + target.index_select(0, edges.target)
        score = F.leaky_relu(raw, slope)
        top = torch.segment_reduce(score, "max", offsets=edges.crow)
        share = torch.exp(score - top.index_select(0, edges.target))
        share = share / torch.segment_reduce(share, "sum", offsets=edges.crow).index_select(0, edges.target)
        ctx.save_for_backward(h, source, target, share, raw)
        ctx.edges, ctx.slope = edges, slope
        return times(Csr(edges.crow, edges.source, share, (len(h), len(h))), h)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, source, target, share, raw = ctx.saved_tensors
        edges: Attention = ctx.edges
        if torch.is_grad_enabled():  # this gradient will be differentiated again
            return *_attend_back(grad, h, source, target, edges, ctx.slope), None, None
        grad, shape = grad.contiguous(), (len(h), len(h))
        back = Csr(edges.crow_of_source, edges.target_by_source, share.index_select(0, edges.order), shape)
        to_share = _dots(grad, h.detach(), edges)
        inner = torch.segment_reduce(share * to_share, "sum", offsets=edges.crow)
        to_score = share * (to_share - inner.index_select(0, edges.target))
        to_raw = torch.where(raw > 0, to_score, to_score * ctx.slope)
        to_target = torch.segment_reduce(to_raw, "sum", offsets=edges.crow)
        to_source = torch.segment_reduce(to_raw.index_select(0, edges.order), "sum", offsets=edges.crow_of_source)
        return times(back, grad), to_source, to_target, None, None


def _dots(at_target: Tensor, at_source: Tensor, edges: Attention) -> Tensor:
    """Return for every edge (E,) the inner product of its target's row with its source's row."""
    n, count = len(at_target), len(edges.source)
    if count > n * n:  # so many parallel edges that torch refuses the sampled product
        return (at_target.index_select(0, edges.target) * at_source.index_select(0, edges.source)).sum(1)
    where = csr(edges.crow, edges.source, at_target.new_zeros(count), (n, n))
    return torch.sparse.sampled_addmm(where, at_target, at_source.T, beta=0.0).values()  # type: ignore[no-any-return]


def _ends(edges: Attention, like: Tensor) -> tuple[Matrix, Matrix]:
    """Return the matrices (E, N) that give every edge its source's row, and its target's."""
    count, n = len(edges.source), len(like)
    every = torch.arange(count + 1, dtype=torch.int32, device=like.device)
    ones = torch.ones(count, dtype=like.dtype, device=like.device)

    def choice(ends: Tensor, crow: Tensor, order: Tensor) -> Matrix:
        return Matrix(Csr(every, ends, ones, (count, n)), Csr(crow, order, ones, (n, count)))

    return (
        choice(edges.source, edges.crow_of_source, edges.order),
        choice(edges.target, edges.crow, every[:count]),
    )


def _shares(source: Tensor, target: Tensor, edges: Attention, slope: float) -> tuple[Tensor, Tensor]:
    """Return the attention of every edge, (E, 1) and differentiable, and the slope of its rectifier (E, 1)."""
    at_source, at_target = _ends(edges, source)
    raw = product(source.unsqueeze(1), at_source) + product(target.unsqueeze(1), at_target)
    slopes = torch.where(raw > 0, 1.0, slope).to(raw.dtype)
    score = raw * slopes
    top = torch.segment_reduce(score.detach().flatten(), "max", offsets=edges.crow)
    share = torch.exp(score - top.index_select(0, edges.target).unsqueeze(1))
    total = product(product(share, at_target.transpose), at_target)
    return share / total, slopes


def _attend_back(
    grad: Tensor, h: Tensor, source: Tensor, target: Tensor, edges: Attention, slope: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `_Attend.backward` does, using products that can be differentiated again."""
    at_source, at_target = _ends(edges, h)
    to_source, to_target = at_source.transpose, at_target.transpose
    share, slopes = _shares(source, target, edges, slope)
    pull = product(grad, at_target)
    to_share = (pull * product(h, at_source)).sum(1, keepdim=True)
    inner = product(product(share * to_share, to_target), at_target)
    to_raw = share * (to_share - inner) * slopes
    back = product(share * pull, to_source)
    return back, product(to_raw, to_source).squeeze(1), product(to_raw, to_target).squeeze(1)


def attend(h: Tensor, source: Tensor, target: Tensor, graph: Graph, slope: float = 0.2) -> Tensor:
    """Return GAT's attention over each node's in-neighbours and itself (Veličković et al., ICLR 2018, Eq. 3-4).

    h (N, H) are the nodes' values; source (N,) and target (N,) are each node's part of the score as the
    source and as the target of an edge, before the leaky rectifier.  One head.
    """
    if len(h) == 0:
        return h
    return _Attend.apply(h, source, target, layout.of(graph).attention, slope)  # type: ignore[no-any-return, no-untyped-call]


def coefficients(source: Tensor, target: Tensor, graph: Graph, slope: float = 0.2) -> Tensor:
    """Return the weights of `attend`, one for each edge and self-loop, sorted by target: (E + N,)."""
    if len(source) == 0:
        return source
    return _shares(source, target, layout.of(graph).attention, slope)[0].squeeze(1)


def sum_by_client(values: Tensor, graph: Graph) -> Tensor:
    """Sum the rows of each client: (N,) → (K,), or (N, H) → (K, H)."""
    flat = values.unsqueeze(1) if values.dim() == 1 else values
    return product(flat, layout.of(graph).pool).view(-1, *values.shape[1:])


def mean_by_client(values: Tensor, graph: Graph, mask: Tensor) -> Tensor:
    """Average values (N,) over each client's masked nodes: (K,); an empty split gives zero, not NaN."""

    def counted() -> tuple[Tensor, Tensor]:
        weight = mask.to(values.dtype)
        return weight, sum_by_client(weight, graph).clamp(min=1)

    weight, count = layout.once(graph, ("masses", values.dtype), (mask,), counted)
    derived = layout.of(graph)
    if derived.alone:
        return torch.dot(values, weight) / count
    return ClientMean.apply(values, weight, count, derived)  # type: ignore[no-any-return, no-untyped-call]


def cross_entropy(logits: Tensor, graph: Graph) -> Tensor:
    """Return the mean cross-entropy of logits (N, C) at each client's training nodes, zero without any: (K,)."""
    # nodes of classes without an output may pass messages, but never train
    labels = torch.where(graph["train"], graph["y"], 0)
    return mean_by_client(F.cross_entropy(logits, labels, reduction="none"), graph, graph["train"])


def training_labels(graph: Graph, classes: int) -> Tensor:
    """Return the one-hot labels (N, C) of training nodes, int64; zeros at all other nodes."""
    return F.one_hot(torch.where(graph["train"], graph["y"], 0), classes) * graph["train"].unsqueeze(1)


def spread_labels(first: Tensor, share: float, steps: int, around: Callable[[Tensor], Tensor]) -> Tensor:
    """Propagate labels (N, C): y ← share · around(y) + (1 − share) · first, within 0 and 1, so many times."""
    y = first
    for _ in range(steps):
        y = (share * around(y) + (1 - share) * first).clamp(0, 1)
    return y


def by_class(h: Tensor, graph: Graph, classes: int, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Average h (N, H) over each client's masked nodes of each class: (K, C, H), with the counts (K, C)."""
    clients = len(graph["sizes"])
    rows = mask.nonzero().squeeze(1)
    cell = graph["client"][rows] * classes + graph["y"][rows]
    order = torch.argsort(cell, stable=True)
    counts = torch.bincount(cell, minlength=clients * classes)
    crow = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).int()
    ones = torch.ones(len(rows), dtype=h.dtype, device=h.device)
    forth = Csr(crow, rows[order].int(), ones, (clients * classes, len(h)))
    where = torch.full((len(h) + 1,), 0, dtype=torch.int32, device=h.device)
    where[1:] = mask.int().cumsum(0)
    back = Csr(where, cell.int(), ones, (len(h), clients * classes))
    mean = product(h, Matrix(forth, back)) / counts.clamp(min=1).unsqueeze(1)
    return mean.view(clients, classes, -1), counts.view(clients, classes)


def dropout(h: Tensor, share: float, graph: Graph, layer: int) -> Tensor:
    """Zero that share of h (N, H) and scale the rest while training, that is where the graph carries `seed` (K,).

    What is dropped depends only on the client's seed, the layer, and the entry's place in the client's own
    graph, through a counter-based generator (SplitMix64), and not on batching or the device.
    """
    if "seed" not in graph or share == 0:
        return h
    words = -(-h.shape[1] // 4)
    base = _mix(graph["seed"] + _golden(layer))
    sizes, client = graph["sizes"], graph["client"]

    def places() -> Tensor:
        return torch.arange(len(h), device=h.device) - (sizes.cumsum(0) - sizes).index_select(0, client)

    place: Tensor = layout.once(graph, "place", (sizes, client), places)
    counter = place.unsqueeze(1) * words + torch.arange(words, device=h.device)
    bits = _mix(base.index_select(0, client).unsqueeze(1) + counter * GOLDEN).view(torch.int16)[:, : h.shape[1]]
    keep = bits >= round(share * 65536) - 32768
    return h * (keep.to(h.dtype) / (1 - share))


def _golden(count: int) -> int:
    """The counter's increment, count times, wrapped to a signed 64-bit word."""
    return (count * GOLDEN + 2**63) % 2**64 - 2**63


def _mix(z: Words) -> Words:
    """Scramble int64 words: SplitMix64's finaliser, with logical shifts spelled out for signed words."""
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * MIX_1
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * MIX_2
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


def words(seeds: Tensor, counter: Tensor) -> Tensor:
    """Return 64 random bits, int64, for each seed and counter (broadcast together), independent of dropout's."""
    return _mix(_mix(seeds + _golden(2**32)) + (counter + 1) * GOLDEN)


def seed_steps(seeds: Words, step: int, use: int) -> Words:
    """Return the dropout seeds (K,) of one training step and one use of the graph (0: the data, 1…: given graphs).

    They are int64, a tensor or an array.
    """
    return _mix(seeds + _golden(step * 64 + use + 1))
