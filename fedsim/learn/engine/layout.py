"""What the operations derive once from a graph: sparse matrices and orderings.

Everything is computed for one client's graph and kept there; a union of K graphs (`joining.union`) only joins
the parts (block diagonals), so that a cohort of known clients costs no sorting.  Indices are int32, for which
sparse products are several times faster than for int64.  It models fixed graphs: a graph's tensors must not
change afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn.engine import blocks
from fedsim.learn.engine.blocks import Csr, Matrix

Made = TypeVar("Made")
LARGE = 64  # mean rows from which one product per client is faster than one padded product


@dataclass(frozen=True)
class Attention:
    """Edges with one self-loop a node, sorted by target; `order` permutes them into the order of the transpose."""

    crow: Tensor
    source: Tensor
    target: Tensor
    order: Tensor
    crow_of_source: Tensor
    target_by_source: Tensor


class Bucket(NamedTuple):
    """Clients k0..k1 on rows r0..r1, padded to `size` rows each; `place` is None if all are that size.

    `one_by_one`: whether one product for each client is faster than one padded product.
    """

    k0: int
    k1: int
    r0: int
    r1: int
    size: int
    place: Tensor | None
    one_by_one: bool


class GraphLayout:
    """The derived parts of one graph or of a union."""

    alone = False  # whether it is only ever computed by itself, and sums by client need no place for others

    def __init__(self, graph: Graph, parts: Sequence["GraphLayout"] = (), *, shared: bool = False) -> None:
        """Describe a graph, or the union of the parts' graphs; `shared` means one set of weights for all of them."""
        self.graph = graph
        self.parts = list(parts)
        self.shared = shared
        self.counts: dict[str, tuple[Tensor, int]] = {}  # nodes in a split, with the mask that was counted
        self.kept: dict[Any, tuple[tuple[Any, ...], Any]] = {}  # see `once`
        self._matrices: dict[str, Matrix] = {}

    @cached_property
    def sizes(self) -> list[int]:
        """Nodes of each client."""
        return [int(size) for size in self.graph["sizes"].tolist()]

    @cached_property
    def x(self) -> Matrix:
        """Sparse features as (N, K F): row i of client k uses columns k F to (k + 1) F."""
        if self.parts:
            if self.shared:
                rows = blocks.joined([part.x.rows for part in self.parts], stacked=True)
                return Matrix(rows, blocks.transposed(rows))
            return blocks.block_diagonal([part.x for part in self.parts])
        x = self.graph["x"]
        rows = Csr(x.crow_indices().int(), x.col_indices().int(), x.values(), (x.shape[0], x.shape[1]))
        return Matrix(rows, blocks.transposed(rows))

    @cached_property
    def nodes(self) -> int:
        """Nodes of the graph."""
        return len(self.graph["y"])

    @cached_property
    def edges(self) -> int:
        """Directed edges of the graph."""
        return self.graph["edges"].shape[1]

    @cached_property
    def nonzeros(self) -> int:
        """Non-zero numbers in x (all of them if x is dense)."""
        x = self.graph["x"]
        return int(x.values().numel() if x.layout == torch.sparse_csr else x.numel())

    def matrix(self, norm: str) -> Matrix:
        """Return the matrix (N, N), row = target, that sums over each node's neighbours.

        `sum` is A, `closed` A + I, `mean` D^-1 A, zero where a node has no neighbours; `sym` is
        D^-1/2 (A + I) D^-1/2 with D the in-degrees of A + I, and `open_sym` D^-1/2 A D^-1/2 with self-loops
        left out.
        """
        if norm not in self._matrices:
            parts = [part.matrix(norm) for part in self.parts]
            self._matrices[norm] = blocks.block_diagonal(parts) if parts else self._weighted(norm)
        return self._matrices[norm]

    @cached_property
    def degree(self) -> Tensor:
        """(N,): the neighbours of each node, itself counted."""
        return self.matrix("closed").rows.crow.diff().float()

    @cached_property
    def leaves(self) -> list["GraphLayout"]:
        """The single graphs that this is made of, or itself if it is one."""
        return [leaf for part in self.parts for leaf in part.leaves] if self.parts else [self]

    @cached_property
    def apart(self) -> tuple["GraphLayout", Tensor] | None:
        """Every single graph as a separate client, and its original client; None if no client has more than one."""
        if not self.shared and not any(part.parts for part in self.parts):
            return None
        device = self.graph["y"].device
        owner = [0 if self.shared else k for k, part in enumerate(self.parts) for _ in part.leaves]
        sizes = torch.tensor([leaf.nodes for leaf in self.leaves], device=device)
        client = torch.repeat_interleave(torch.arange(len(sizes), device=device), sizes)
        joined = Graph(**{**self.graph, "client": client, "sizes": sizes})
        return GraphLayout(joined, self.leaves), torch.tensor(owner, device=device)

    @cached_property
    def pool(self) -> Matrix:
        """(K, N): sums the rows of each client."""
        sizes, client = self.sizes, self.graph["client"].int()
        n, device = sum(sizes), client.device
        crow = torch.tensor([0, *accumulate(sizes)], dtype=torch.int32).to(device)
        every = torch.arange(n + 1, device=device, dtype=torch.int32)
        ones = torch.ones(n, device=device)
        return Matrix(Csr(crow, every[:n], ones, (len(sizes), n)), Csr(every, client, ones, (n, len(sizes))))

    @cached_property
    def attention(self) -> Attention:
        """Edges as `attend` reads them."""
        if self.parts:
            parts = [part.attention for part in self.parts]
            counts = [len(part.source) for part in parts]
            nodes, edges = blocks.offsets([part.nodes for part in self.parts]), blocks.offsets(counts)
            return Attention(
                blocks.join_pointers([part.crow for part in parts], counts),
                blocks.shifted([part.source for part in parts], counts, nodes),
                blocks.shifted([part.target for part in parts], counts, nodes),
                blocks.shifted([part.order for part in parts], counts, edges),
                blocks.join_pointers([part.crow_of_source for part in parts], counts),
                blocks.shifted([part.target_by_source for part in parts], counts, nodes),
            )
        source, target = self._edges(loops=True)
        n = len(self.graph["y"])
        order = torch.argsort(source * max(n, 1) + target)
        return Attention(
            blocks.row_pointers(target, n),
            source.int(),
            target.int(),
            order.int(),
            blocks.row_pointers(source, n),
            target[order].int(),
        )

    @cached_property
    def buckets(self) -> list[Bucket]:
        """Runs of clients of similar size, for batched products with at most a quarter of padding."""
        found: list[Bucket] = []
        k0 = r0 = 0
        sizes = [sum(self.sizes)] if self.shared else self.sizes
        while k0 < len(sizes):
            k1, rows, largest = k0, 0, 0
            while k1 < len(sizes):
                grown = max(largest, sizes[k1])
                if k1 > k0 and grown * (k1 + 1 - k0) > 1.25 * (rows + sizes[k1]) + 64:
                    break
                rows, largest, k1 = rows + sizes[k1], grown, k1 + 1
            place, device = None, self.graph["y"].device
            if rows != largest * (k1 - k0):
                counts = torch.tensor(sizes[k0:k1])
                start = torch.arange(k1 - k0) * largest - (counts.cumsum(0) - counts)
                place = (torch.arange(rows) + torch.repeat_interleave(start, counts)).to(device)
            # on a GPU one large product is faster than many small ones
            one_by_one = rows >= LARGE * (k1 - k0) and place is not None and device.type == "cpu"
            found.append(Bucket(k0, k1, r0, r0 + rows, largest, place, one_by_one))
            k0, r0 = k1, r0 + rows
        return found

    @cached_property
    def each(self) -> int | None:
        """The nodes of every client, None where they are not as many everywhere, or none."""
        sizes = {*self.sizes}
        return (sizes.pop() or None) if len(sizes) == 1 else None

    def _edges(self, loops: bool, *, open_: bool = False) -> tuple[Tensor, Tensor]:
        """Sources and targets sorted by target, then source; existing self-loops are replaced by one for each node.

        Without `loops` they stay as they are, or are left out if `open_`.
        """
        source, target = self.graph["edges"]
        n = len(self.graph["y"])
        if loops or open_:
            keep = source != target
            source, target = source[keep], target[keep]
        if loops:
            own = torch.arange(n, device=source.device)
            source, target = torch.cat([source, own]), torch.cat([target, own])
        order = torch.argsort(target * max(n, 1) + source)
        return source[order], target[order]

    def _weighted(self, norm: str) -> Matrix:
        source, target = self._edges(loops=norm in ("sym", "closed"), open_=norm == "open_sym")
        n = len(self.graph["y"])
        degree = torch.bincount(target, minlength=n).float()
        if norm in ("sym", "open_sym"):
            root = degree.clamp(min=1).rsqrt()
            value = root[source] * root[target]
        else:
            value = 1 / degree[target] if norm == "mean" else torch.ones_like(target, dtype=torch.float32)
        rows = Csr(blocks.row_pointers(target, n), source.int(), value, (n, n))
        columns = blocks.transposed(rows)
        return Matrix(rows, rows if blocks.equal(rows, columns) else columns)


def of(graph: Graph) -> GraphLayout:
    """Return the graph's layout, derived at the first call and kept with the graph."""
    if "layout" not in graph:
        graph["layout"] = GraphLayout(graph)
    return graph["layout"]  # type: ignore[no-any-return]


def apart(graph: Graph) -> tuple[Graph, Tensor] | None:
    """Return a union with every single graph as a separate client, and the client of each: (graphs,).

    None if no client has more than one graph.  For values computed from a whole graph, not node by node.
    """
    found = of(graph).apart
    if found is None:
        return None
    layout, owner = found
    axis = {"client": layout.graph["client"], "sizes": layout.graph["sizes"]}
    if "seed" in graph:
        axis["seed"] = graph["seed"][owner]
    return Graph(**{**graph, **axis, "layout": layout}), owner  # type: ignore[typeddict-item]


def once(graph: Graph, key: Any, read: tuple[Any, ...], make: Callable[[], Made]) -> Made:
    """Return `make()` for a graph, recomputed only if the objects `read` differ: graphs may share a layout."""
    kept = of(graph).kept
    known = kept.get(key)
    if known is None or any(one is not other for one, other in zip(known[0], read, strict=True)):
        known = kept[key] = read, make()
    return known[1]


def count(graph: Graph, *splits: str) -> int:
    """Return how many nodes are in these splits, counted once as long as their masks are the same tensors."""
    counts, total = of(graph).counts, 0
    for split in splits:
        known, mask = counts.get(split), graph[split]  # type: ignore[literal-required]
        if known is None or known[0] is not mask:  # a graph with other masks may share its layout
            known = counts[split] = mask, int(mask.sum())
        total += known[1]
    return total
