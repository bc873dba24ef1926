"""What is derived from graphs: the parts of a union joined are what the union's own edges give."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn

from fedsim.data.graph import Graph, with_keys, with_masks
from fedsim.learn.engine import joining, layout

sizes = st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any)


def alone(union):
    """The same graph with nothing derived of it yet."""
    return layout.of(Graph(**{name: value for name, value in union.items() if name != "layout"}))


def same(one, other):
    names = ("crow", "column", "value")
    return one.shape == other.shape and all(torch.equal(getattr(one, n), getattr(other, n)) for n in names)


@settings(max_examples=25)
@given(sizes, st.booleans())
def test_a_union_joined_from_parts_is_the_one_derived_from_its_edges(counts, shared):
    joined = joining.union([drawn(n, k) for k, n in enumerate(counts)], shared=shared)
    mine, plain = joined["layout"], alone(joined)
    for norm in ("sym", "mean", "sum", "closed", "open_sym"):
        assert all(map(same, mine.matrix(norm), plain.matrix(norm))), norm
    assert all(map(same, mine.pool, plain.pool))
    for name, value in vars(plain.attention).items():
        assert torch.equal(getattr(mine.attention, name), value), name
    assert joined["sizes"].tolist() == ([sum(counts)] if shared else counts)
    assert (mine.nodes, mine.edges) == (sum(counts), joined["edges"].shape[1])


@settings(max_examples=10)
@given(sizes)
def test_sparse_features_lie_along_the_diagonal_or_one_below_the_other(counts):
    graphs = [drawn(n, k, as_csr=True) for k, n in enumerate(counts)]
    apart, under = (joining.union(graphs, shared=shared)["layout"].x for shared in (False, True))
    dense = [graph["x"].to_dense() for graph in graphs]
    assert torch.equal(apart.rows.tensor().to_dense(), torch.block_diag(*dense))
    assert torch.equal(apart.columns.tensor().to_dense(), torch.block_diag(*dense).T)
    assert torch.equal(under.rows.tensor().to_dense(), torch.cat(dense))
    assert torch.equal(under.columns.tensor().to_dense(), torch.cat(dense).T)


def test_parts_are_not_changed_by_joining_them():
    graph = drawn(8, 1)
    layout.of(graph).matrix("sym").rows.tensor().to_dense()
    before, edges = layout.of(graph).matrix("sym").rows.tensor().to_dense(), graph["edges"].clone()
    for _ in range(2):
        union = joining.union([graph, graph])
        assert torch.equal(union["layout"].matrix("sym").rows.tensor().to_dense(), torch.block_diag(before, before))
    assert torch.equal(graph["edges"], edges)
    alone_again = joining.union([graph])
    assert alone_again["layout"].matrix("sym").rows.tensor().to_dense().equal(before)


def test_nodes_of_a_split_are_counted_for_each_mask():
    graph = drawn(30, 3)
    train, val, test = (int(graph[name].sum()) for name in ("train", "val", "test"))
    assert [layout.count(graph, name) for name in ("train", "val", "test")] == [train, val, test]
    other = with_masks(graph, graph["test"], graph["val"], ~graph["val"])  # shares the layout
    assert other["layout"] is graph["layout"]
    for _ in range(2):
        assert layout.count(other, "train", "val", "test") == test + val + 30 - val
        assert layout.count(graph, "train", "val", "test") == train + val + test
    assert layout.count(graph) == 0


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_counting_looks_at_a_mask_once(split):
    graph, looks = drawn(10, 1), []

    class Mask(torch.Tensor):
        def sum(self):
            looks.append(1)
            return torch.tensor(4)

    graph[split] = graph[split].as_subclass(Mask)
    assert [layout.count(graph, split) for _ in range(3)] == [4] * 3
    assert looks == [1]


def test_what_is_derived_once_is_made_anew_only_where_other_objects_are_read():
    graph = drawn(4, 0)
    other = with_masks(graph, *(graph[name].clone() for name in ("train", "val", "test")))  # shares the layout
    made = [layout.once(one, "key", (one["train"],), object) for one in (graph, graph, other, other, graph)]
    assert made[0] is made[1] is not made[2] is made[3] is not made[4]
    assert layout.once(graph, "another key", (graph["train"],), object) is not made[4]


def test_in_a_union_degrees_that_nobody_has_told_are_those_of_ones_own_edges():
    told, untold = drawn(4, 0), drawn(5, 1)
    union = joining.union([with_keys(told, {"degree": torch.arange(4.0)}), untold])
    assert torch.equal(union["degree"], torch.cat([torch.arange(4.0), layout.of(untold).degree]))
    with pytest.raises(ValueError, match="node"):
        joining.union([with_keys(told, {"node": torch.arange(4)}), untold])
