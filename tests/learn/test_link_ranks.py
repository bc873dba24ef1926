"""Reciprocal ranks against loops over sources, and against what chance gives."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsim.learn.pairs import ranking

pytestmark = pytest.mark.long

RULES = ["max", "mean", "min"]


def by_chance(positives, negatives):
    """The expected 1 / rank of the best of so many positives among so many negatives, all scores alike distributed."""
    total, value, left = positives + negatives, 0.0, 1.0
    for rank in range(1, negatives + 2):
        hit = positives / (total - rank + 1)
        value, left = value + left * hit / rank, left * (1 - hit)
    return value


def one(h, positives, **options):
    """The ranking of one owner in one group."""
    zeros = torch.zeros(positives.shape[1], dtype=torch.long)
    group = options.pop("group", torch.zeros(len(h), dtype=torch.long))
    return float(ranking.mrr(h, positives, zeros, 1, group, options.pop("seed", 0), **options))


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_random_scores_rank_as_chance_has_it(degree):
    torch.manual_seed(0)
    nodes = 3000
    ends = torch.randint(nodes, (2, nodes * degree // 2))
    met = torch.bincount(ends.flatten())
    expected = np.mean([by_chance(int(d), 1000) for d in met[met > 0]])
    assert 0.007 < expected < 0.03
    assert one(torch.randn(nodes, 16), ends) == pytest.approx(expected, rel=0.25)


def test_on_low_degree_random_scores_give_a_mean_of_about_one_and_a_half_percent():
    torch.manual_seed(1)
    found = [one(torch.randn(2000, 16), torch.randint(2000, (2, 2000)), seed=seed) for seed in range(3)]
    assert np.mean(found) == pytest.approx(0.015, abs=0.004)


def test_the_first_of_all_has_rank_one_and_equal_scores_have_the_last():
    h = torch.eye(30)
    h[1] = h[0] = 2 * h[0]
    ends = torch.tensor([[0], [1]])
    assert one(h, ends) == 1
    assert one(torch.ones(30, 4), ends, count=50) == pytest.approx(1 / 51)
    assert one(torch.full((30, 4), torch.nan), ends, count=50) == pytest.approx(1 / 51)


@pytest.mark.parametrize("rule", RULES)
def test_ranks_are_those_of_a_loop_over_sources(rule, monkeypatch):
    """What is drawn is watched, so that ranks can be counted again one by one."""
    torch.manual_seed(2)
    h, group = torch.randn(40, 5), torch.arange(40) % 3
    ends = torch.tensor([(u, v) for u, v in itertools.combinations(range(40), 2) if (v - u) % 3 == 0][::11]).T
    owner = torch.arange(ends.shape[1]) % 2
    drawn, draw = [], ranking._draw

    def watched(free, which, *others):
        places = draw(free, which, *others)
        drawn.append((which, places))
        return places

    monkeypatch.setattr(ranking, "_draw", watched)
    monkeypatch.setattr(ranking, "AT_ONCE", 20 * 5 * 7)  # seven sources at once
    values = ranking.mrr(h, ends, owner, 2, group, 0, rule=rule, count=20)
    assert len(drawn) > 1
    sources = sorted({(int(k), u) for k, pair in zip(owner, ends.T.tolist(), strict=True) for u in pair})
    places = torch.cat([rows for _, rows in drawn])
    assert torch.cat([which for which, _ in drawn]).tolist() == [*range(len(sources))]
    found = {0: [], 1: []}
    for (k, u), row in zip(sources, places.tolist(), strict=True):
        own = ends[:, owner == k].T.tolist()
        mates = [v if w == u else w for w, v in own if u in (w, v)]
        rows = [u % 3 + 3 * place for place in row]  # a group's rows, in their order
        assert not {u, *mates} & {*rows}
        best = {"max": max, "mean": lambda x: sum(x) / len(x), "min": min}[rule]([float(h[u] @ h[v]) for v in mates])
        found[k].append(1 / (1 + sum(float(h[u] @ h[v]) >= best for v in rows)))
    assert values.tolist() == pytest.approx([np.mean(found[0]), np.mean(found[1])])


def test_negatives_are_all_others_of_the_group_alike(monkeypatch):
    drawn, draw = [], ranking._draw
    monkeypatch.setattr(ranking, "_draw", lambda *given: drawn.append(draw(*given)) or drawn[-1])
    one(torch.randn(10, 2), torch.tensor([[3], [7]]), count=20000)
    for row in drawn[0]:
        counts = torch.bincount(row, minlength=10)
        assert set((counts == 0).nonzero().flatten().tolist()) == {3, 7}
        assert float(counts[counts > 0].double().std()) < 4 * math.sqrt(20000 / 8)


def test_the_seed_decides_and_other_owners_do_not():
    torch.manual_seed(3)
    h, ends = torch.randn(200, 3), torch.randint(200, (2, 40))
    assert one(h, ends) == one(h, ends.flip(1))
    assert one(h, ends) != one(h, ends, seed=1)
    owner = torch.arange(40) // 20
    both = ranking.mrr(h, ends, owner, 3, torch.zeros(200, dtype=torch.long), 0)
    assert both[:2].tolist() == pytest.approx([one(h, ends[:, :20]), one(h, ends[:, 20:])])
    assert math.isnan(both[2])


def test_who_is_joined_to_all_is_left_out():
    h, ends = torch.eye(3), torch.tensor([[0, 0], [1, 2]])
    assert one(h, ends, count=10) == pytest.approx(1 / 11)  # of 1 and 2; 0 has no negatives
    assert math.isnan(one(h[:2], ends[:, :1], count=10))
    assert math.isnan(one(h, ends[:, :0], count=10))


def theirs(logits, pairs, links):
    """The rule of the public code, row by row."""
    values = []
    for u in range(int(pairs.max()) + 1):
        row = [
            (float(s), not link)
            for s, (a, b), link in zip(logits, pairs.T, links, strict=True)
            for end in (a, b)
            if end == u
        ]
        row.sort(key=lambda entry: (-entry[0], not entry[1]))
        ranks = [place for place, (_, other) in enumerate(row, 1) if not other]
        values += [np.mean([1 / rank for rank in ranks])] if ranks else []
    return np.mean(values)


@given(count=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_sampled_rows_are_those_of_a_loop(count, seed):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(8, (2, 2 * count), generator=generator)
    ends[1] += 8 * (ends[0] == ends[1])  # no loops
    logits = torch.randint(5, (2 * count,), generator=generator).float()
    links, owner = torch.arange(2 * count) % 4 < 2, torch.arange(2 * count) % 2
    values = ranking.sampled_rows(logits, ends, links, owner, 3)
    for k in (0, 1):
        own = owner == k
        if links[own].any():
            assert float(values[k]) == pytest.approx(theirs(logits[own], ends[:, own], links[own]))
    assert math.isnan(values[2])


def test_sampled_rows_flatter_random_scores():
    torch.manual_seed(4)
    ends, links = torch.randint(2000, (2, 4000)), torch.arange(4000) % 2 == 0
    value = ranking.sampled_rows(torch.randn(4000), ends, links, torch.zeros(4000, dtype=torch.long), 1)
    assert 0.46 < float(value) < 0.8
