"""Class-wise reliability, by hand on tiny graphs."""

import pytest
import torch

from algorithms import fed_tad
from fedsim.data.graph import graph_of


def graph(x, pairs, y, train):
    ends = torch.tensor(pairs).T.reshape(2, -1)
    return graph_of(torch.tensor(x), torch.cat([ends, ends.flip(0)], 1), torch.tensor(y), torch.tensor(train))


def path(train=(True, True, True, True), y=(0, 1, 0, 2)):
    """Nodes 0 - 1 - 2, and 3 alone."""
    return graph([[3.0, 0.0], [3.0, 4.0], [0.0, 4.0], [0.0, 0.0]], [[0, 1], [1, 2]], list(y), list(train))


def test_walks_return_as_often_as_the_matrix_says():
    # from the middle: 1/3 to stay; after two steps 1/9 + 2 · 1/3 · 1/2
    found = fed_tad.returns(path(), 2)
    torch.testing.assert_close(found, torch.tensor([[1 / 2, 5 / 12], [1 / 3, 4 / 9], [1 / 2, 5 / 12], [1.0, 1.0]]))


def test_walks_of_many_columns_are_those_of_powers(monkeypatch):
    g = torch.Generator().manual_seed(0)
    pairs = torch.randint(15, (30, 2), generator=g)
    pairs = torch.unique(pairs[pairs[:, 0] < pairs[:, 1]], dim=0)
    own = graph([[1.0]] * 15, pairs.tolist(), [0] * 15, [True] * 15)
    matrix = torch.eye(15)
    matrix[pairs[:, 0], pairs[:, 1]] = matrix[pairs[:, 1], pairs[:, 0]] = 1.0
    walk = matrix / matrix.sum(1, keepdim=True)
    expected = torch.stack([torch.linalg.matrix_power(walk, t).diagonal() for t in range(1, 6)], 1)
    monkeypatch.setattr(fed_tad, "COLUMNS", 4)
    torch.testing.assert_close(fed_tad.returns(own, 5), expected)


def test_classes_by_hand():
    rows = torch.tensor([[3.0, 0.0, 0.5], [3.0, 4.0, 1 / 3], [0.0, 4.0, 0.5], [0.0, 0.0, 1.0]])

    def cos(i, j):
        return float(torch.cosine_similarity(rows[i], rows[j], dim=0))

    ends, middle = [(1 + cos(0, 1)) / 2, (1 + cos(1, 2)) / 2], (1 + cos(0, 1) + cos(1, 2)) / 3
    assert fed_tad.reliability(path(), 4, 1).tolist() == pytest.approx([sum(ends), middle, 1.0, 0.0])
    some = fed_tad.reliability(path(train=(True, False, False, True)), 4, 1)
    assert some.tolist() == pytest.approx([ends[0], 0.0, 1.0, 0.0])


def test_a_held_out_label_is_not_read():
    train = (True, False, True, False)
    one = fed_tad.reliability(path(train), 3, 5)
    other = fed_tad.reliability(path(train, y=(0, 2, 0, 7)), 3, 5)
    assert torch.equal(one, other)


def test_the_work_grows_with_walks_and_edges():
    n, edges = 4, 4 + 4
    assert fed_tad.reliability_flops(path(), 5) == 2 * 5 * edges * n + 2 * edges * (2 + 5)
