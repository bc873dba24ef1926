"""Pseudo graphs against lists sorted by hand; labels as even as can be."""

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learn.synthetic import pseudo_graphs
from fedsim.learn.synthetic.pseudo_graphs import adjacency, knn_graph, pseudo_graph, uniform_labels


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pairs(edges):
    return set(zip(*edges.tolist(), strict=True))


def by_hand(x, k):
    """Every row's k most similar rows, sorted one row at a time."""
    found = set()
    for i, row in enumerate(x):
        others = [j for j in range(len(x)) if j != i]
        others.sort(key=lambda j: -float(F.cosine_similarity(row, x[j], dim=0)))
        found |= {(i, j) for j in others[: k - 1]} | {(j, i) for j in others[: k - 1]}
    return found


@settings(max_examples=25)
@given(n=st.integers(0, 14), k=st.integers(1, 6), seed=st.integers(0, 99))
def test_edges_are_those_found_by_sorting(n, k, seed):
    x = torch.randn(n, 5, generator=seeded(seed))
    edges = knn_graph(x, k)
    assert pairs(edges) == by_hand(x, k)
    assert edges.shape == (2, len(pairs(edges)))  # none is there twice


def test_rows_looked_at_in_parts_are_rows_looked_at_together(monkeypatch):
    x = torch.randn(23, 4, generator=seeded())
    whole = knn_graph(x, 5)
    monkeypatch.setattr(pseudo_graphs, "ROWS", 4)
    assert torch.equal(knn_graph(x, 5), whole)


def test_length_does_not_matter_and_equal_rows_are_no_loops():
    x = torch.randn(9, 4, generator=seeded())
    assert torch.equal(knn_graph(x, 3), knn_graph(x * torch.rand(9, 1, generator=seeded(1)).add(0.1), 3))
    edges = knn_graph(torch.ones(6, 4), 3)
    assert bool((edges[0] != edges[1]).all())
    assert bool((torch.bincount(edges[0], minlength=6) >= 2).all())


def test_a_pseudo_graph_is_all_to_train_on_and_carries_no_gradient():
    x = torch.randn(8, 3, generator=seeded(), requires_grad=True)
    graph = pseudo_graph(x, torch.arange(8) % 2, 3)
    assert bool(graph["train"].all())
    assert not bool((graph["val"] | graph["test"]).any())
    assert not graph["x"].requires_grad
    matrix = adjacency(graph["edges"], 8)
    assert torch.equal(matrix, matrix.T)
    assert float(matrix.sum()) == graph["edges"].shape[1]
    assert float(matrix.diagonal().sum()) == 0


def test_a_matrix_has_neither_loops_nor_twos():
    edges = torch.tensor([[0, 0, 1, 2, 2], [1, 1, 0, 2, 2]])
    assert adjacency(edges, 3).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


@settings(max_examples=25)
@given(n=st.integers(0, 60), classes=st.integers(1, 9), seed=st.integers(0, 9))
def test_labels_are_uniform_up_to_the_rest(n, classes, seed):
    counts = torch.bincount(uniform_labels(n, classes, seeded(seed)), minlength=classes)
    assert counts[:-1].tolist() == [n // classes] * (classes - 1)
    assert int(counts[-1]) == n // classes + n % classes


def test_labels_are_shuffled():
    first, second = (uniform_labels(60, 3, seeded(seed)) for seed in (0, 1))
    assert not torch.equal(first, first.sort().values)
    assert not torch.equal(first, second)
