"""What the operations derive once from a graph: sparse matrices and orderings, joined for many clients.

Everything is computed for one client's graph and kept there; a union of K graphs only joins the parts (block
diagonals), so that a cohort of known clients costs no sorting.  Indices are int32, for which sparse products
are several times faster than for int64.  It models fixed graphs: a graph's tensors must not change afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedsim.data.graph import ABSENT_IS_ZERO, Graph, csr, under, vertex_keys


class Matrix(NamedTuple):
    """A constant sparse matrix and its transpose, each as CSR; the same object if it is symmetric."""

    rows: Tensor
    columns: Tensor


@dataclass(frozen=True)
class Attention:
    """Edges with one self-loop a vertex, sorted by target; `order` permutes them into the order of the transpose."""

    crow: Tensor
    source: Tensor
    target: Tensor
    order: Tensor
    crow_of_source: Tensor
    target_by_source: Tensor


class Bucket(NamedTuple):
    """Clients k0..k1 on rows r0..r1, padded to `size` rows each; `place` is None if all are that size."""

    k0: int
    k1: int
    r0: int
    r1: int
    size: int
    place: Tensor | None


class Layout:
    """The derived parts of one graph or of a union."""

    def __init__(self, graph: Graph, parts: Sequence["Layout"] = (), *, shared: bool = False) -> None:
        """Describe a graph, or the union of the parts' graphs; `shared` means one set of weights for all of them."""
        self.graph = graph
        self.parts = list(parts)
        self.shared = shared
        self.counts: dict[str, tuple[Tensor, int]] = {}  # vertices in a split, with the mask that was counted
        self.kept: dict[Any, tuple[tuple[Any, ...], Any]] = {}  # see `once`

    @cached_property
    def sizes(self) -> list[int]:
        """Vertices of each client."""
        return [int(size) for size in self.graph["sizes"].tolist()]

    @cached_property
    def x(self) -> Matrix:
        """Sparse features as (N, K F): row i of client k uses columns k F to (k + 1) F."""
        if self.parts:
            if self.shared:
                rows = _blocks([part.x.rows for part in self.parts], stacked=True)
                return Matrix(rows, transposed(rows))
            return block_diagonal([part.x for part in self.parts])
        x = self.graph["x"]
        rows = csr(x.crow_indices().int(), x.col_indices().int(), x.values(), tuple(x.shape))
        return Matrix(rows, transposed(rows))

    @cached_property
    def vertices(self) -> int:
        """Vertices of the graph."""
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

    @cached_property
    def symmetric(self) -> Matrix:
        """D^-1/2 (A + I) D^-1/2 with D the in-degrees of A + I: (N, N), row = target."""
        return self._joined("symmetric") if self.parts else self._weighted(loops=True, norm="sym")

    @cached_property
    def average(self) -> Matrix:
        """D^-1 A: the mean over a vertex's neighbours, zero where it has none."""
        return self._joined("average") if self.parts else self._weighted(loops=False, norm="mean")

    @cached_property
    def total(self) -> Matrix:
        """A: the sum over a vertex's neighbours."""
        return self._joined("total") if self.parts else self._weighted(loops=False, norm="sum")

    @cached_property
    def closed(self) -> Matrix:
        """A + I: the sum over a vertex's neighbours and itself."""
        return self._joined("closed") if self.parts else self._weighted(loops=True, norm="sum")

    @cached_property
    def open_symmetric(self) -> Matrix:
        """D^-1/2 A D^-1/2 with D the in-degrees of A, self-loops left out: zero where a vertex has no neighbours."""
        return self._joined("open_symmetric") if self.parts else self._weighted(loops=False, norm="open_sym")

    @cached_property
    def degree(self) -> Tensor:
        """(N,): the neighbours of each vertex, itself counted."""
        return self.closed.rows.crow_indices().diff().float()

    @cached_property
    def leaves(self) -> list["Layout"]:
        """The single graphs that this is made of, or itself if it is one."""
        return [leaf for part in self.parts for leaf in part.leaves] if self.parts else [self]

    @cached_property
    def apart(self) -> tuple["Layout", Tensor] | None:
        """Every single graph as a separate client, and its original client; None if no client has more than one."""
        if not self.shared and not any(part.parts for part in self.parts):
            return None
        device = self.graph["y"].device
        owner = [0 if self.shared else k for k, part in enumerate(self.parts) for _ in part.leaves]
        sizes = torch.tensor([leaf.vertices for leaf in self.leaves], device=device)
        client = torch.repeat_interleave(torch.arange(len(sizes), device=device), sizes)
        joined = Graph(**{**self.graph, "client": client, "sizes": sizes})
        return Layout(joined, self.leaves), torch.tensor(owner, device=device)

    @cached_property
    def pool(self) -> Matrix:
        """(K, N): sums the rows of each client."""
        sizes = self.graph["sizes"]
        n, device = int(sum(self.sizes)), sizes.device
        crow = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]).int()
        ones = torch.ones(n, device=device)
        rows = csr(crow, torch.arange(n, device=device, dtype=torch.int32), ones, (len(self.sizes), n))
        by_vertex = torch.arange(n + 1, device=device, dtype=torch.int32)
        return Matrix(rows, csr(by_vertex, self.graph["client"].int(), ones, (n, len(self.sizes))))

    @cached_property
    def attention(self) -> Attention:
        """Edges as `attend` reads them."""
        if self.parts:
            parts = [part.attention for part in self.parts]
            counts = [len(part.source) for part in parts]
            vertices, edges = _offsets([part.vertices for part in self.parts]), _offsets(counts)
            return Attention(
                _join_crow([part.crow for part in parts], counts),
                _shifted([part.source for part in parts], counts, vertices),
                _shifted([part.target for part in parts], counts, vertices),
                _shifted([part.order for part in parts], counts, edges),
                _join_crow([part.crow_of_source for part in parts], counts),
                _shifted([part.target_by_source for part in parts], counts, vertices),
            )
        source, target = self._edges(loops=True)
        n = len(self.graph["y"])
        order = torch.argsort(source * max(n, 1) + target)
        return Attention(
            _crow(target, n), source.int(), target.int(), order.int(), _crow(source, n), target[order].int()
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
            place = None
            if rows != largest * (k1 - k0):
                counts = torch.tensor(sizes[k0:k1])
                start = torch.arange(k1 - k0) * largest - (counts.cumsum(0) - counts)
                place = (torch.arange(rows) + torch.repeat_interleave(start, counts)).to(self.graph["y"].device)
            found.append(Bucket(k0, k1, r0, r0 + rows, largest, place))
            k0, r0 = k1, r0 + rows
        return found

    def _joined(self, name: str) -> Matrix:
        return block_diagonal([getattr(part, name) for part in self.parts])

    def _edges(self, loops: bool, *, open_: bool = False) -> tuple[Tensor, Tensor]:
        """Sources and targets sorted by target, then source; existing self-loops are replaced by one for each vertex.

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

    def _weighted(self, loops: bool, norm: str) -> Matrix:
        source, target = self._edges(loops, open_=norm == "open_sym")
        n = len(self.graph["y"])
        degree = torch.bincount(target, minlength=n).float()
        if norm in ("sym", "open_sym"):
            root = degree.clamp(min=1).rsqrt()
            value = root[source] * root[target]
        else:
            value = 1 / degree[target] if norm == "mean" else torch.ones_like(target, dtype=torch.float32)
        rows = csr(_crow(target, n), source.int(), value, (n, n))
        columns = transposed(rows)
        return Matrix(rows, rows if _equal(rows, columns) else columns)


def of(graph: Graph) -> Layout:
    """Return the graph's layout, derived at the first call and kept with the graph."""
    layout: Layout | None = graph.get("layout")
    if layout is None:
        layout = graph["layout"] = Layout(graph)
    return layout


def apart(graph: Graph) -> tuple[Graph, Tensor] | None:
    """Return a union with every single graph as a separate client, and the client of each: (graphs,).

    None if no client has more than one graph.  For values computed from a whole graph, not vertex by vertex.
    """
    found = of(graph).apart
    if found is None:
        return None
    own, owner = found
    known = own.graph
    alone = Graph(**{**graph, "client": known["client"], "sizes": known["sizes"], "layout": own})
    if "seed" in graph:
        alone["seed"] = graph["seed"][owner]
    return alone, owner


def once(graph: Graph, key: Any, read: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """Return `make()` for a graph, recomputed only if the objects `read` differ: graphs may share a layout."""
    kept = of(graph).kept
    known = kept.get(key)
    if known is None or any(one is not other for one, other in zip(known[0], read, strict=True)):
        known = kept[key] = read, make()
    return known[1]


def count(graph: Graph, *splits: str) -> int:
    """Return how many vertices are in these splits, counted once as long as their masks are the same tensors."""
    counts, total = of(graph).counts, 0
    for split in splits:
        known, mask = counts.get(split), graph[split]  # type: ignore[literal-required]
        if known is None or known[0] is not mask:  # a graph with other masks may share its layout
            known = counts[split] = mask, int(mask.sum())
        total += known[1]
    return total


def union(graphs: Sequence[Graph], *, shared: bool = False) -> Graph:
    """Return K graphs side by side as one, its layout joined from theirs.

    With `shared` all of them count as one client (K = 1), as when one set of parameters is scored on many graphs.
    """
    first = graphs[0]["y"]
    parts = [of(graph) for graph in graphs]
    vertices = [part.vertices for part in parts]
    sizes = torch.tensor([sum(vertices)] if shared else vertices, device=first.device)
    joined = Graph(
        x=under([graph["x"] for graph in graphs]),
        edges=_shifted([graph["edges"] for graph in graphs], [part.edges for part in parts], _offsets(vertices)),
        y=torch.cat([graph["y"] for graph in graphs]),
        train=torch.cat([graph["train"] for graph in graphs]),
        val=torch.cat([graph["val"] for graph in graphs]),
        test=torch.cat([graph["test"] for graph in graphs]),
        client=torch.repeat_interleave(torch.arange(len(sizes), device=first.device), sizes),
        sizes=sizes,
    )
    joined = Graph(**{**joined, **_by_vertex(graphs)})  # type: ignore[typeddict-item]
    if any("pairs" in graph for graph in graphs):
        _join_pairs(joined, graphs, vertices)
    joined["layout"] = Layout(joined, parts, shared=shared)
    return joined


def _join_pairs(joined: Graph, graphs: Sequence[Graph], vertices: Sequence[int]) -> None:
    """Add the pairs of those graphs that have any to their union."""
    asking = [(graph, start) for graph, start in zip(graphs, _offsets(vertices), strict=True) if "pairs" in graph]
    pairs = [graph["pairs"] for graph, _ in asking]
    joined["pairs"] = _shifted(pairs, [part.shape[1] for part in pairs], [start for _, start in asking])
    joined["links"] = torch.cat([graph["links"] for graph, _ in asking])
    joined["asked"] = torch.cat([graph["asked"] for graph, _ in asking])


def _by_vertex(graphs: Sequence[Graph]) -> dict[str, Tensor]:
    """Join the optional keys of one row a vertex.  Raises ValueError for a missing key without a default."""
    joined = {}
    for key in dict.fromkeys(key for graph in graphs for key in vertex_keys(graph)):
        some: Tensor = next(graph[key] for graph in graphs if key in graph)  # type: ignore[literal-required]
        joined[key] = torch.cat([_rows(graph, key, some) for graph in graphs])
    return joined


def _rows(graph: Graph, key: str, some: Tensor) -> Tensor:
    """Return the key's rows; if the graph lacks it, zeros like `some`, or the graph's own degrees."""
    if key in graph:
        return graph[key]  # type: ignore[literal-required, no-any-return]
    if key == "degree":  # it knows of no edges elsewhere
        return of(graph).degree
    if key in ABSENT_IS_ZERO or key.startswith("delta"):
        return some.new_zeros(len(graph["y"]), *some.shape[1:])
    raise ValueError(f"some graphs of a union have {key!r} and others do not; give it to all of them or to none")


def block_diagonal(matrices: Sequence[Matrix]) -> Matrix:
    """Join matrices along the diagonal."""
    rows = _blocks([matrix.rows for matrix in matrices])
    if all(matrix.rows is matrix.columns for matrix in matrices):
        return Matrix(rows, rows)
    return Matrix(rows, _blocks([matrix.columns for matrix in matrices]))


def _blocks(blocks: Sequence[Tensor], *, stacked: bool = False) -> Tensor:
    """Join CSR blocks along the diagonal, or `stacked` one below the other over the same columns."""
    heights, widths = zip(*[block.shape for block in blocks], strict=True)
    columns, values = [block.col_indices() for block in blocks], [block.values() for block in blocks]
    filled = [len(value) for value in values]
    column = torch.cat(columns) if stacked else _shifted(columns, filled, _offsets(widths))
    crow = _join_crow([block.crow_indices() for block in blocks], filled)
    return csr(crow, column, torch.cat(values), (sum(heights), max(widths) if stacked else sum(widths)))


def _join_crow(crows: Sequence[Tensor], filled: Sequence[int]) -> Tensor:
    """Join row pointers of parts with `filled` entries each."""
    heights = [len(crow) - 1 for crow in crows]
    tails = [crow.narrow(0, 1, height) for crow, height in zip(crows, heights, strict=True)]
    return torch.cat([crows[0].new_zeros(1), _shifted(tails, heights, _offsets(filled))])


def _shifted(parts: Sequence[Tensor], counts: Sequence[int], shifts: Sequence[int]) -> Tensor:
    """Concatenate parts (…, count), each plus its shift, with one sum for all of them."""
    joined = torch.cat(list(parts), dim=-1)
    shift = torch.tensor(shifts, dtype=joined.dtype, device=joined.device)
    total = torch.tensor(counts, device=joined.device)
    return joined.add_(torch.repeat_interleave(shift, total, output_size=joined.shape[-1]))


def _offsets(counts: Sequence[int]) -> list[int]:
    total, offsets = 0, []
    for count in counts:
        offsets.append(total)
        total += count
    return offsets


def _crow(index: Tensor, n: int) -> Tensor:
    """Row pointers (n + 1,) of a sorted or unsorted row index."""
    crow = torch.zeros(n + 1, dtype=torch.int32, device=index.device)
    crow[1:] = torch.bincount(index, minlength=n).cumsum(0)
    return crow


def _equal(one: Tensor, other: Tensor) -> bool:
    parts = ((each.crow_indices(), each.col_indices(), each.values()) for each in (one, other))
    return all(torch.equal(a, b) for a, b in zip(*parts, strict=True))


def transposed(matrix: Tensor) -> Tensor:
    """Return a CSR matrix's transpose as CSR."""
    n, width = matrix.shape
    counts = matrix.crow_indices().diff().long()
    row = torch.repeat_interleave(torch.arange(n, device=matrix.device), counts)
    column = matrix.col_indices().long()
    order = torch.argsort(column, stable=True)
    return csr(_crow(column, width), row[order].int(), matrix.values()[order], (width, n))
