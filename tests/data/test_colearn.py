"""The steps of CoLearn against hand-made cases and slow oracles written from the definitions."""

import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from drawn_graphs import drawn, graphs
from extras import METIS
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fedsim.core.errors import ScenarioError
from fedsim.data.colearn.follow import Shot, Step, follow, full, grown, names, parts_for
from fedsim.data.colearn.newcomers import deal, join
from fedsim.data.colearn.parts import EPSILON, PartStatistics
from fedsim.data.colearn.stages import Rule, border, grow, secondary, settle_border
from fedsim.data.colearn.web import Web, chained, seeds_of, web_of
from fedsim.data.datasets.planetoid import Planetoid
from fedsim.data.graph import Graph
from fedsim.data.partition import cut
from fedsim.data.partitions.colearn import CoLearn
from fedsim.data.partitions.metis import Metis
from fedsim.data.partitions.random import Random

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from cuts import moved

PATH6 = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
CLIQUES = [(a, b) for base in (0, 5) for a in range(base, base + 5) for b in range(a + 1, base + 5)]
BRIDGED = [*CLIQUES, (4, 5)]
STAGES = ["mincut_first", "balance_first", "label_first"]


def both_ways(pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    edges = np.array([*pairs], dtype=np.int64).reshape(-1, 2)
    return np.concatenate([edges, edges[:, ::-1]]).T


def web(pairs: Iterable[tuple[int, int]], nodes: int) -> Web:
    return web_of(both_ways(pairs), nodes)


def shot(pairs: Iterable[tuple[int, int]], nodes: int, present: Any = None, labels: Any = None) -> Shot:
    here = np.arange(nodes) if present is None else np.array(present)
    return Shot(both_ways(pairs), here, np.zeros(nodes, dtype=np.int64) if labels is None else np.array(labels))


def snapshots(seed: int, count: int, nodes: int = 40, edges: int = 70) -> list[Graph]:
    """Random graphs on nodes that arrive bit by bit, in a random order; edges come and go."""
    rng = np.random.default_rng(seed)
    when = rng.integers(0, count, nodes)
    when[:5] = 0
    found = []
    for number in range(count):
        graph = drawn(nodes, 3, seed, edges=0)
        ends = rng.choice(np.flatnonzero(when <= number), (edges, 2))
        ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
        graph["edges"] = torch.from_numpy(both_ways(map(tuple, ends.tolist())))
        graph["arrived"] = torch.from_numpy(when <= number)
        found.append(graph)
    return found


# --- webs and seeds


@given(graph=graphs, start=st.integers(0, 4))
@settings(max_examples=30, deadline=None)
def test_distances_are_those_of_networkx(graph: Graph, start: int) -> None:
    nodes = len(graph["y"])
    told = nx.Graph(graph["edges"].T.tolist())
    told.add_nodes_from(range(nodes))
    expected = nx.single_source_shortest_path_length(told, start)
    found = web_of(graph["edges"].numpy(), nodes).distances(start)
    assert found.tolist() == [expected.get(node, -1) for node in range(nodes)]


@given(graph=graphs, starts=st.lists(st.integers(0, 4), min_size=2, max_size=5))
@settings(max_examples=30, deadline=None)
def test_a_search_that_stops_early_finds_the_nearest_of_several(graph: Graph, starts: list[int]) -> None:
    guide = chained(web_of(graph["edges"].numpy(), len(graph["y"])))
    nearest = guide.distances(starts[0])
    for start in starts[1:]:
        nearest = guide.nearer(start, nearest)
    reached = nearest >= 0
    reached[starts] = True
    every = np.stack([guide.distances(start) for start in starts])
    assert nearest[reached].tolist() == np.where(every < 0, 999, every).min(axis=0)[reached].tolist()


def test_a_web_takes_edges_in_any_order_and_repeated() -> None:
    made = web([(2, 1), (0, 1), (1, 2)], 4)
    assert made.starts.tolist() == [0, 1, 3, 4, 4]
    assert made.ends.tolist() == [1, 0, 2, 1]
    at, near = made.around(np.array([3, 1, 0]))
    assert (at.tolist(), near.tolist()) == ([1, 1, 2], [0, 2, 1])
    assert made.tally.scanned == 3


def test_components_are_chained_by_their_lowest_nodes_and_isolated_ones_stay_alone() -> None:
    # components {1, 4}, {2, 6, 7}, {3, 5}; node 0 has no edge
    guide = chained(web([(1, 4), (2, 6), (6, 7), (3, 5)], 8))
    pairs = {(v, int(u)) for v in range(8) for u in guide.row(v) if v < u}
    assert pairs == {(1, 4), (2, 6), (6, 7), (3, 5), (1, 2), (2, 3)}
    assert (guide.distances(1) >= 0).tolist() == [False] + [True] * 7


@given(seed=st.integers(0, 999), size=st.integers(2, 25), count=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_seeds_are_as_far_apart_as_on_a_tree_they_can_be(seed: int, size: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    tree = web([(int(rng.integers(v)), v) for v in range(1, size)], size)
    swept, exact = seeds_of(tree, count), seeds_of(tree, count, exact=True)
    far = np.stack([tree.distances(v) for v in range(size)])
    for found in (swept, exact):
        assert len(found) == len(set(found.tolist())) == min(count, size)
        if len(found) > 1:
            assert far[found[0], found[1]] == far.max()
        for at in range(2, len(found)):
            assert far[found[:at], found[at]].min() == far[found[:at]].min(axis=0).max()


def test_exact_seeds_find_the_farthest_pair_where_a_sweep_may_not() -> None:
    drawn_one = drawn(30, 2, 5, edges=45)
    guide = chained(web_of(drawn_one["edges"].numpy(), 30))
    far = np.stack([guide.distances(v) for v in range(30)])
    first, second = seeds_of(guide, 2, exact=True)
    assert far[first, second] == far.max()


def test_seeds_of_a_path_are_its_ends_and_then_its_middle() -> None:
    assert seeds_of(web([(v, v + 1) for v in range(8)], 9), 3).tolist() == [8, 0, 4]
    assert seeds_of(web([], 3), 2).tolist() == []


# --- the full partition


def test_a_path_is_cut_in_its_middle() -> None:
    parts, _ = full(shot(PATH6, 6), 2, Rule())
    assert sorted(np.flatnonzero(parts.owner == part).tolist() for part in range(2)) == [[0, 1, 2], [3, 4, 5]]
    assert parts.edges.tolist() == [2, 2]
    # of an odd path the middle is in conflict: one neighbour each, so the lowest part takes it
    parts, _ = full(shot([(0, 1), (1, 2), (2, 3), (3, 4)], 5), 2, Rule())
    assert parts.owner.tolist() == [1, 1, 0, 0, 0]


def test_two_cliques_are_parted_at_their_bridge() -> None:
    for stages in STAGES:
        parts, _ = full(shot(BRIDGED, 10), 2, Rule(stages=stages))  # type: ignore[arg-type]
        assert sorted([parts.owner[:5].tolist(), parts.owner[5:].tolist()]) == [[0] * 5, [1] * 5]
        assert parts.edges.tolist() == [10, 10]


def test_synthetic_edges_are_in_no_count() -> None:
    # two cliques without a bridge, and a pair: synthetic edges 0-5 and 5-10 lead the search
    for rule in (Rule(), Rule("balance_first", tau=0.0), Rule("label_first", tau=0.0)):
        parts, _ = full(shot([*CLIQUES, (10, 11)], 12), 3, rule)
        assert parts.total == 21
        assert parts.edges.sum() == 21
        assert parts.web.degree.sum() == 42
        assert len(border(parts, np.arange(12))) == 0
        assert {len(set(parts.owner[group].tolist())) for group in (slice(5), slice(5, 10), slice(10, 12))} == {1}


def oracle(graph: Graph, count: int, rule: Rule) -> tuple[list[int], int]:
    """The full partition of the nodes with an edge, from the definitions, node by node."""
    nodes, labels = len(graph["y"]), graph["y"].tolist()
    real = nx.Graph(graph["edges"].T.tolist())
    guide = real.copy()
    lowest = sorted(min(component) for component in nx.connected_components(real))
    guide.add_edges_from(pairwise(lowest))
    able = sorted(real)
    far = dict(nx.all_pairs_shortest_path_length(guide))
    first = max(able, key=lambda v: (far[able[0]][v], -v))
    seeds = [first]
    while len(seeds) < min(count, len(able)):
        seeds.append(max(able, key=lambda v: (min(far[s][v] for s in seeds), -v)))
    owner = {seed: part for part, seed in enumerate(seeds)}

    def inner(part: int) -> int:
        return sum(1 for a, b in real.edges if owner.get(a) == owner.get(b) == part)

    def held(v: int, part: int) -> int:
        return sum(1 for u in real[v] if owner.get(u) == part)

    def same(v: int, part: int) -> int:
        return sum(1 for u in owner if owner[u] == part and labels[u] == labels[v])

    def unlike(v: int, part: int) -> float:
        return 1 - same(v, part) / (sum(1 for u in owner if owner[u] == part) + EPSILON)

    edges = real.number_of_edges()
    primary = {"mincut_first": held, "balance_first": lambda v, part: 1 - inner(part) / edges, "label_first": unlike}[
        rule.stages
    ]
    conflicts, frontier = set(), set(seeds)
    while frontier:
        rivals = {
            v: {owner[u] for u in guide[v] if u in frontier} for f in frontier for v in guide[f] if v not in owner
        }
        owner |= {v: next(iter(of)) for v, of in rivals.items() if len(of) == 1}
        for v in sorted(rivals):
            if len(rivals[v]) > 1:
                conflicts.add(v)
                owner[v] = max(sorted(rivals[v]), key=lambda part: primary(v, part))
        frontier = set(rivals)

    def raised(v: int, part: int) -> float:
        with_v = sum(1 for a, b in real.edges if all(u == v or owner[u] == part for u in (a, b)))
        balance = 1 - with_v / edges
        near = held(v, part) if rule.raw else held(v, part) / real.degree[v]
        label = same(v, part) if rule.raw else unlike(v, part)
        pair = {
            "mincut_first": (balance, unlike(v, part)),
            "balance_first": (near, label),
            "label_first": (near, balance),
        }[rule.stages]
        return rule.alpha * pair[0] + (1 - rule.alpha) * pair[1]

    edgy = conflicts | {v for v in able if any(owner[u] != owner[v] for u in real[v])}
    moves = 0
    for v in sorted(edgy - set(seeds)):
        gains = {
            part: raised(v, part) - raised(v, owner[v])
            for part in sorted({owner[u] for u in real[v]} - {owner[v]})
            if held(v, owner[v]) - held(v, part) <= (np.inf if rule.most_cut is None else rule.most_cut)
        }
        if gains and max(gains.values()) > rule.tau + 1e-12:
            owner[v] = max(gains, key=lambda part: (round(gains[part], 12), -part))
            moves += 1
    return [owner.get(v, -1) for v in range(nodes)], moves


@pytest.mark.parametrize("stages", STAGES)
@given(
    graph=graphs,
    count=st.integers(1, 6),
    tau=st.sampled_from([0.4, 0.03]),
    alpha=st.sampled_from([0.5, 0.83]),
    raw=st.booleans(),
    most_cut=st.sampled_from([float("inf"), 0.0]),
)
@settings(max_examples=40, deadline=None)
def test_a_full_partition_is_that_of_the_definitions(
    stages: Any, graph: Graph, count: int, tau: float, alpha: float, raw: bool, most_cut: float
) -> None:
    rule = Rule(stages, alpha, tau, most_cut, raw)
    nodes = len(graph["y"])
    if not graph["edges"].shape[1]:
        return
    expected, moves = oracle(graph, count, rule)
    parts, _ = full(Shot(graph["edges"].numpy(), np.arange(nodes), graph["y"].numpy()), count, rule)
    joined = np.array(expected) >= 0
    assert parts.owner[joined].tolist() == np.array(expected)[joined].tolist()
    assert parts.web.tally.moves == moves


def test_the_secondary_scores_by_hand() -> None:
    # A triangle 0, 1, 2 in part 0 and an edge 3-4 in part 1; 2 and 3 are joined.  |E| = 5.
    parts = PartStatistics(web([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)], 5), np.array([7, 7, 8, 8, 8]), 2)
    parts.settle(np.arange(5), np.array([0, 0, 0, 1, 1]))
    assert (parts.edges.tolist(), parts.sizes.tolist()) == ([3, 1], [3, 2])
    near = parts.neighbours_by_part(2)
    assert near == {0: 2, 1: 1}
    # own part: 3 of 5 edges, one of three alike; the other with it: 2 of 5 edges, both alike
    assert secondary(parts, 2, 0, near, Rule()) == pytest.approx(0.5 * 2 / 5 + 0.5 * 2 / 3, abs=1e-6)
    assert secondary(parts, 2, 1, near, Rule()) == pytest.approx(0.5 * 3 / 5 + 0.5 * 0, abs=1e-6)
    assert secondary(parts, 2, 1, near, Rule("balance_first")) == pytest.approx(0.5 / 3, abs=1e-6)
    assert secondary(parts, 2, 1, near, Rule("label_first", alpha=0.25)) == pytest.approx(0.25 / 3 + 0.75 * 3 / 5)
    assert secondary(parts, 2, 1, near, Rule("balance_first", raw=True)) == 0.5 * 1 + 0.5 * 2
    settle_border(parts, np.array([2]), Rule(tau=-1.0))
    assert parts.web.tally.moves == 1
    assert parts.owner.tolist() == [0, 0, 1, 1, 1]
    assert (parts.edges.tolist(), parts.labels.tolist()) == ([1, 2], [[2, 0], [0, 3]])


def test_a_cap_on_new_cut_edges_forbids_a_move() -> None:
    for most_cut, moves in ((0.0, 0), (1.0, 1)):
        parts = PartStatistics(web([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)], 5), np.array([7, 7, 8, 8, 8]), 2)
        parts.settle(np.arange(5), np.array([0, 0, 0, 1, 1]))
        settle_border(parts, np.array([2]), Rule(tau=-1.0, most_cut=most_cut))
        assert parts.web.tally.moves == moves


def test_without_labels_the_label_score_tells_for_nobody() -> None:
    parts = PartStatistics(web(PATH6, 6), np.full(6, -1), 2)
    parts.settle(np.arange(6), np.array([0, 0, 0, 0, 1, 1]))
    assert [parts.spread(3, part) for part in range(2)] == [0.0, 0.0]
    assert parts.labels.sum() == 0


def test_isolated_nodes_are_dealt_in_turn_to_the_most_varied_or_stay() -> None:
    def held(way: Any, before: Any = None) -> list[int]:
        parts = PartStatistics(web([(0, 1), (2, 3)], 8), np.array([0, 0, 0, 1, 2, 2, 2, 2]), 3)
        parts.settle(np.arange(4), np.array([0, 0, 1, 1]))
        deal(parts, np.arange(4, 8), way, before)
        return parts.owner[4:].tolist()

    assert held("round_robin") == [2, 0, 1, 2]  # the empty part first
    assert held("labels") == [1, 1, 1, 1]
    assert held("stay", np.array([-1] * 4 + [1, -1, 1, 9])) == [1, 2, 1, 0]


# --- newcomers


def test_newcomers_join_by_hand() -> None:
    # Owned: 0 1 (part 0), 2 3 (part 1).  4 knows 0, 1 and 2; 5 knows 2 and 4; 6 knows 5 only; 7 and 8 each other only.
    pairs = [(0, 1), (2, 3), (4, 0), (4, 1), (4, 2), (5, 2), (5, 4), (6, 5), (7, 8)]
    owner = np.array([0, 0, 1, 1, -1, -1, -1, -1, -1])
    parts, dealt = grown(shot(pairs, 9), owner, 2, Rule(tau=9.0), dealt=3)
    # 4 goes first, with three ties, to part 0.  5 has one tie to each; two hops away part 0 has three (4 through 2,
    # 0 and 1 through 4) and part 1 two (3 through 2, 2 through 4).  6 follows 5.  7 is dealt, and 8 follows it.
    assert parts.owner.tolist() == [0, 0, 1, 1, 0, 0, 0, 1, 1]
    assert dealt == 4


def test_the_one_with_most_ties_goes_first_and_the_count_grows() -> None:
    # 2 knows 0 and (later) 3; 3 knows 1, 1' and 2.  Were 2 first it would go to part 0; it still does, but 3 decides
    # for 4, whose ties are even until 3 has joined.
    pairs = [(0, 2), (1, 3), (5, 3), (3, 4), (0, 4), (2, 4), (5, 4)]
    owner = np.array([0, 1, -1, -1, -1, 1])
    parts = PartStatistics(web(pairs, 6), np.zeros(6, dtype=np.int64), 2)
    parts.settle(np.array([0, 1, 5]), owner[[0, 1, 5]])
    join(parts, np.array([2, 3, 4]), 0)
    # 3 and 4 have two ties each: 3 is the lower one and joins part 1; 4 now has 0 against 5 and 3: part 1; 2 ties: 0, 4
    assert parts.owner[[3, 4]].tolist() == [1, 1]
    # two hops from 2: through 0 only 4 (part 1); through 4: 0, 3, 5, so part 1 has more
    assert parts.owner[2] == 1


def slow_join(pairs: Iterable[tuple[int, int]], owner: list[int], new: list[int], count: int) -> list[int]:
    graph = nx.Graph()
    graph.add_nodes_from(range(len(owner)))
    graph.add_edges_from(pairs)
    dealt, left = 0, set(new)
    while left:
        v = max(left, key=lambda u: (sum(owner[w] >= 0 for w in graph[u]), -u))
        near = [sum(owner[u] == part for u in graph[v]) for part in range(count)]
        if not any(near):
            part, dealt = dealt % count, dealt + 1
        else:
            two = [sum(owner[w] == part for u in graph[v] for w in graph[u]) for part in range(count)]
            inner = [sum(owner[a] == owner[b] == part for a, b in graph.edges) for part in range(count)]
            part = min(range(count), key=lambda one: (-near[one], -two[one], inner[one], one))
        owner[v] = part
        left.remove(v)
    return owner


@given(graph=graphs, count=st.integers(1, 4), seed=st.integers(0, 99), share=st.floats(0.1, 1.0))
@settings(max_examples=60, deadline=None)
def test_newcomers_join_in_the_order_of_the_definition(graph: Graph, count: int, seed: int, share: float) -> None:
    nodes = len(graph["y"])
    rng = np.random.default_rng(seed)
    owner = np.where(rng.random(nodes) < share, -1, rng.integers(0, count, nodes))
    new = np.flatnonzero(owner < 0)
    parts = PartStatistics(web_of(graph["edges"].numpy(), nodes), graph["y"].numpy(), count)
    parts.settle(np.flatnonzero(owner >= 0), owner[owner >= 0])
    join(parts, new, 0)
    assert parts.owner.tolist() == slow_join(graph["edges"].T.tolist(), owner.tolist(), new.tolist(), count)
    source, target = graph["edges"].numpy()
    same = parts.owner[source] == parts.owner[target]
    assert parts.edges.tolist() == (np.bincount(parts.owner[source[same]], minlength=count) // 2).tolist()


def test_a_newcomer_passes_the_secondary_stage_once_and_the_old_ones_do_not() -> None:
    # 5 joins part 0 by two ties to one.  There: 5 of 7 edges, all alike: 0.5 * 2/7.  In part 1: 2 of 7 edges, none
    # alike: 0.5 * 5/7 + 0.5.  The gain is 5/7.
    pairs = [(0, 1), (1, 2), (0, 2), (3, 4), (5, 0), (5, 1), (5, 3)]
    owner, labels = np.array([0, 0, 0, 1, 1, -1]), np.array([0, 0, 0, 1, 1, 0])
    for tau, expected in ((0.72, 0), (0.71, 1)):
        parts, _ = grown(shot(pairs, 6, labels=labels), owner, 2, Rule(tau=tau), 0)
        assert parts.owner.tolist() == [0, 0, 0, 1, 1, expected]
        assert parts.web.tally.moves == expected
    parts, _ = grown(shot(pairs, 6, labels=labels), owner, 2, Rule(tau=-9.0), 0)
    assert parts.owner[:5].tolist() == [0, 0, 0, 1, 1]


def test_the_work_of_newcomers_is_theirs_alone() -> None:
    size = 400
    pairs = [(v, v + 1) for v in range(size - 1)]
    owner = np.zeros(size, dtype=np.int64)
    owner[-3:] = -1
    parts, _ = grown(shot(pairs, size), owner, 1, Rule(), 0)
    assert parts.web.tally.scanned <= 8 * 6


# --- snapshots


def test_the_number_of_parts_follows_the_edges() -> None:
    assert [parts_for(entries, 510, 10) for entries in (0, 509, 510, 1019, 1020, 99999)] == [1, 1, 1, 1, 2, 10]


@given(seed=st.integers(0, 500), clients=st.integers(1, 5), stages=st.sampled_from(STAGES), per=st.integers(20, 90))
@settings(max_examples=40, deadline=None)
def test_every_arrived_node_has_one_owner_and_history_stays(seed: int, clients: int, stages: Any, per: int) -> None:
    shots = snapshots(seed, 5)
    partition = CoLearn(stages=stages, per_client=per, tau=0.05)
    found = partition.follow(shots, clients, np.random.default_rng(0))
    steps = [*partition.steps(shots, clients)]
    for graph, own in zip(shots, found, strict=True):
        assert len(own) == clients
        assert np.array_equal(np.sort(np.concatenate(own)), graph["arrived"].nonzero().squeeze(1).numpy())
        assert all(mine.dtype == np.int64 for mine in own)
        cut(graph, [mine for mine in own if len(mine)])
    for number in range(1, 5):
        before, after = steps[number - 1], steps[number]
        assert after.full == (after.parts != before.parts)
        assert after.parts == parts_for(shots[number]["edges"].shape[1], per, clients)
        assert after.moved == moved(found[number - 1], found[number])
        if not after.full:
            stayed = before.owner >= 0
            assert after.owner[stayed].tolist() == before.owner[stayed].tolist()
            assert after.moved == 0


def test_who_is_gone_keeps_the_owner_and_a_lost_edge_moves_nobody() -> None:
    there, gone = [*range(10)], [0, 1, 2, 3, 5, 6, 7, 8, 9]
    without = [(a, b) for a, b in BRIDGED if 4 not in (a, b)]
    steps = run([shot(BRIDGED, 10, there), shot(without, 10, gone), shot([(4, 5)], 10, there)], 2, per_client=1)
    assert [step.full for step in steps] == [True, False, False]
    assert steps[1].owner[4] == -1
    assert steps[2].owner.tolist() == steps[0].owner.tolist()


def run(shots: list[Shot], most: int, **options: Any) -> list[Step]:
    return [*follow(shots, most, Rule(**options))]


def test_a_full_partition_is_named_after_the_one_before() -> None:
    owner, before = np.array([0, 0, 0, 1, 1, 2]), np.array([2, 2, 0, 0, 0, 1])
    assert names(owner, before, 3).tolist() == [2, 0, 1]
    assert names(owner, np.full(6, -1), 3).tolist() in (
        [0, 1, 2],
        [2, 1, 0],
        [1, 0, 2],
        [0, 2, 1],
        [1, 2, 0],
        [2, 0, 1],
    )
    same = [shot(BRIDGED, 10)] * 3
    steps = run(same, 2, per_client=1, repartition=True)
    assert [step.full for step in steps] == [True] * 3
    assert [step.moved for step in steps] == [0] * 3
    assert steps[2].scanned == steps[0].scanned > 0


def test_a_partition_found_in_another_order_moves_few_nodes() -> None:
    # the tail draws the first seed, which was in the second clique before, to the side of the first clique
    joined = [*CLIQUES, (0, 5)]
    steps = run(
        [shot(joined, 12, range(10)), shot([*joined, (1, 10), (10, 11)], 12)], 2, per_client=1, repartition=True
    )
    assert steps[1].owner[1:10].tolist() == steps[0].owner[1:10].tolist()
    assert steps[1].moved <= 1


def test_partitions_without_a_way_of_their_own_assign_once_on_the_union() -> None:
    shots = snapshots(3, 4)
    own = Random().follow(shots, 3, np.random.default_rng(1))
    for number, graph in enumerate(shots):
        assert np.array_equal(np.sort(np.concatenate(own[number])), graph["arrived"].nonzero().squeeze(1).numpy())
    assert all(moved(own[at], own[at + 1]) == 0 for at in range(3))


@METIS
def test_anew_at_each_snapshot_covers_it_and_equals_an_assignment_of_it() -> None:
    shots = snapshots(3, 4)
    own = Metis(each_snapshot=True).follow(shots, 3, np.random.default_rng(1))
    for graph, mine in zip(shots, own, strict=True):
        assert np.array_equal(np.sort(np.concatenate(mine)), graph["arrived"].nonzero().squeeze(1).numpy())
    assert any(moved(own[at], own[at + 1]) for at in range(3))
    again = Metis(each_snapshot=True).follow([shots[3], shots[3]], 3, np.random.default_rng(1))
    kept = sum(len(np.intersect1d(*pair)) for pair in zip(*again, strict=True))
    assert kept >= 40 / 3  # named by their overlap: never less than chance


# --- one static graph


@pytest.mark.parametrize("stages", STAGES)
@given(graph=graphs, clients=st.integers(1, 12))
@settings(max_examples=20, deadline=None)
def test_a_static_graph_is_covered_and_no_client_is_empty(stages: Any, graph: Graph, clients: int) -> None:
    partition, nodes = CoLearn(stages=stages), len(graph["y"])
    if clients > nodes:
        with pytest.raises(ScenarioError, match=r"clients\.count"):
            partition.assign(graph, clients, np.random.default_rng(0))
        return
    first, again = (partition.assign(graph, clients, np.random.default_rng(seed)) for seed in (0, 0))
    assert [len(mine) > 0 for mine in first] == [True] * clients
    assert np.sort(np.concatenate(first)).tolist() == list(range(nodes))
    assert all(np.array_equal(*pair) for pair in zip(first, again, strict=True))


def test_new_names_take_the_counts_along() -> None:
    parts = PartStatistics(web([(0, 1), (1, 2), (3, 4)], 6), np.array([0, 0, 1, 1, 1, 0]), 3)
    parts.settle(np.arange(6), np.array([0, 0, 0, 1, 1, 2]))
    parts.rename(np.array([1, 2, 0]))
    assert parts.owner.tolist() == [1, 1, 1, 2, 2, 0]
    assert (parts.edges.tolist(), parts.sizes.tolist()) == ([0, 2, 1], [1, 3, 2])
    assert parts.labels.tolist() == [[1, 0], [2, 1], [0, 2]]


def test_growth_reports_who_was_in_conflict() -> None:
    parts = PartStatistics(web(PATH6[:4], 5), np.zeros(5, dtype=np.int64), 2)
    assert grow(parts, parts.web, np.array([0, 4]), Rule()).tolist() == [2]
    assert border(parts, np.arange(5)).tolist() == [2, 3]


@pytest.mark.parametrize("wrong", [{"tau": float("nan")}, {"most_cut": -1.0}])
def test_thresholds_without_meaning_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TypeAdapter(CoLearn).validate_python(wrong)


@pytest.mark.data
def test_cora_keeps_most_of_its_edges_within_clients(data_root: Path, cached_home: Path) -> None:
    cora = Planetoid("Cora").load(data_root, 0)
    own = CoLearn().assign(cora, 10, np.random.default_rng(0))
    assert sum(part["edges"].shape[1] for part in cut(cora, own)) > 0.8 * 10556
