"""Rows of a stacked tree: nobody can tell them from dicts of tensors, and what is done with all of them is the same."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.core import wire
from fedsim.learn.engine import rows, tree


def stacked(clients, seed=0, scale=1.0):
    g = torch.Generator().manual_seed(seed)
    layers = {"weight": torch.randn(clients, 3, 2, generator=g), "bias": torch.randn(clients, 2, generator=g)}
    return tree.transform(
        lambda leaf: leaf * scale, {"one": layers, "two": {"gain": torch.randn(clients, generator=g)}}
    )


def plain(whole, clients):
    """The same trees, without rows."""
    return [tree.at(whole, place) for place in range(clients)]


def gap(one, other):
    return max(float((a - b).abs().max()) for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True))


def untouched(row):
    return row.origin is not None


def test_a_cohorts_trees_are_rows_until_they_are_read():
    whole = stacked(3)
    some = tree.unstack(whole, 3)
    assert all(map(untouched, some))
    assert isinstance(some[1], dict)
    assert torch.equal(some[1]["one"]["weight"], whole["one"]["weight"][1])
    assert list(map(untouched, some)) == [True, False, True]
    assert type(some[1]["one"]) is dict


READS = {
    "len": lambda row: len(row) == 2,
    "in": lambda row: "one" in row and "three" not in row,
    "list": lambda row: list(row) == ["one", "two"],
    "reversed": lambda row: list(reversed(row)) == ["two", "one"],
    "get": lambda row: row.get("two")["gain"].shape == () and row.get("three", 7) == 7,
    "items": lambda row: [key for key, _ in row.items()] == ["one", "two"],
    "keys": lambda row: row.keys() == {"one": 0, "two": 0}.keys(),
    "values": lambda row: len(list(row.values())) == 2,
    "dict": lambda row: dict(row).keys() == {"one": 0, "two": 0}.keys(),
    "unpacked": lambda row: list({**row, "three": 3}) == ["one", "two", "three"],
    "called with": lambda row: (lambda **given: list(given))(**row) == ["one", "two"],
    "or": lambda row: list(row | {"three": 3}) == ["one", "two", "three"],
    "or of another": lambda row: list({"zero": 0} | row) == ["zero", "one", "two"],
    "updated by": lambda row: (lambda other: other.update(row) or list(other))({}) == ["one", "two"],
    "bool": bool,
    "copy": lambda row: list(row.copy()) == ["one", "two"],
    "copied": lambda row: type(copy.copy(row)) is dict and list(copy.copy(row)) == ["one", "two"],
    "deep copy": lambda row: type(copy.deepcopy(row)) is dict and len(copy.deepcopy(row)) == 2,
    "pickled": lambda row: list(pickle.loads(pickle.dumps(row))) == ["one", "two"],
    "text": lambda row: "gain" in repr(row) and "gain" in str(row),
    "encoded": lambda row: wire.decode(wire.encode(row)).keys() == {"one": 0, "two": 0}.keys(),
    "setdefault": lambda row: row.setdefault("three", 3) == 3 and len(row) == 3,
    "pop": lambda row: row.pop("one").keys() == {"weight": 0, "bias": 0}.keys() and list(row) == ["two"],
    "popitem": lambda row: row.popitem()[0] == "two",
    "equal": lambda row: row != {} and row == dict(row),
}


@pytest.mark.parametrize("how", READS)
def test_it_is_read_like_any_dict(how):
    (row, _) = tree.unstack(stacked(2), 2)
    assert READS[how](row)
    assert not untouched(row)


def test_every_method_of_a_dict_fills_it_first():
    for name in set(dir(dict)) - set(dir(object)) - {"fromkeys", "__class_getitem__"}:
        assert getattr(rows.PlacedTree, name) is not getattr(dict, name), name
    assert rows.PlacedTree.__eq__ is not dict.__eq__
    assert rows.PlacedTree.__repr__ is not dict.__repr__


@pytest.mark.parametrize("change", [
    lambda row: row.update(two={"gain": torch.tensor(50.0)}),
    lambda row: row.__setitem__("two", {"gain": torch.tensor(50.0)}),
    lambda row: row["two"].update(gain=torch.tensor(50.0)),
    lambda row: row["two"]["gain"].fill_(50.0),
])  # fmt: skip
def test_a_row_that_is_changed_counts_as_changed(change):
    whole = stacked(3)
    some, zero = tree.unstack(whole, 3), tree.zeros_like(tree.at(whole, 0))
    tree.sub(some[0], zero)  # whatever was computed for all of them before
    change(some[1])
    assert float(tree.sub(some[1], zero)["two"]["gain"]) == 50
    mean = tree.mean(some, [1, 1, 2])
    assert float(mean["two"]["gain"]) == pytest.approx(
        float((whole["two"]["gain"][0] + 50 + 2 * whole["two"]["gain"][2]) / 4), rel=1e-6
    )


def test_a_row_without_one_of_its_parts_or_with_one_more_has_the_size_it_then_has():
    (one, two, three) = tree.unstack(stacked(3), 3)
    whole = len(wire.encode(plain(stacked(3), 3)[0]))
    assert wire.size(one) == whole
    assert untouched(one)
    del two["one"]["bias"]
    three["more"] = torch.zeros(9)
    assert wire.size(two) == len(wire.encode(two)) < whole < wire.size(three) == len(wire.encode(three))
    assert wire.array_bytes(three) == wire.array_bytes(one) + 36 == 4 * (6 + 2 + 1) + 36


def test_differences_of_a_cohort_are_computed_once_and_are_those_of_each():
    whole, start = stacked(4), tree.at(stacked(1, seed=9), 0)
    some = tree.unstack(whole, 4)
    sent = [tree.sub(row, start) for row in some]
    assert len({id(row.origin[0]) for row in sent}) == 1
    assert all(map(untouched, some + sent))
    for row, one in zip(sent, plain(whole, 4), strict=True):
        assert gap(row, tree.transform(torch.sub, one, start)) == 0


def test_another_subtrahend_gives_another_difference():
    some, starts = tree.unstack(stacked(3), 3), [tree.at(stacked(1, seed=k), 0) for k in (7, 8)]
    for start in (*starts, starts[0]):
        kept = tree.sub(some[0], start)
        for row, one in zip(some, plain(stacked(3), 3), strict=True):
            assert gap(tree.sub(row, start), tree.transform(torch.sub, one, start)) == 0
        assert untouched(kept)


@pytest.mark.parametrize("start", [
    tree.at(stacked(1), 0) | {"three": torch.zeros(1)},
    {"one": torch.zeros(2), "two": {"gain": torch.tensor(0.0)}},
])  # fmt: skip
def test_trees_of_other_shapes_are_refused_as_they_are_without_rows(start):
    with pytest.raises((ValueError, AttributeError, KeyError)):
        tree.sub(tree.unstack(stacked(2), 2)[0], start)


@settings(max_examples=30)
@given(st.data())
def test_means_over_several_stacks_are_those_of_the_leaves(data):
    cohorts = [(stacked(k, seed=k), k) for k in (3, 1, 4)]
    some = [row for whole, k in cohorts for row in tree.unstack(whole, k)]
    same = [one for whole, k in cohorts for one in plain(whole, k)]
    chosen = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=9))
    weights = data.draw(st.lists(st.integers(0, 40), min_size=len(chosen), max_size=len(chosen)))
    factors = data.draw(st.none() | st.lists(st.floats(0, 1), min_size=len(chosen), max_size=len(chosen)))
    mine = tree.mean([some[i] for i in chosen], weights, factors)
    assert all(map(untouched, some))
    shares = [1.0] * len(chosen) if factors is None else factors
    scaled = [tree.scale(same[i], share) for i, share in zip(chosen, shares, strict=True)]
    assert gap(mine, tree.mean(scaled, weights)) < 1e-5


@pytest.mark.parametrize("order", [[2, 0, 3, 1], [3, 2, 1, 0], [0, 1, 2, 3], [1, 3, 0], [2, 2, 0, 1]])
def test_each_row_has_its_own_weight_in_whatever_order_they_come(order):
    whole = stacked(4)
    some, same, weights = tree.unstack(whole, 4), plain(whole, 4), [1, 20, 300, 4000][: len(order)]
    assert gap(tree.mean([some[k] for k in order], weights), tree.mean([same[k] for k in order], weights)) < 1e-6


def test_what_is_not_counted_may_be_infinite():
    whole = stacked(3)
    whole["two"]["gain"][1] = float("nan")
    some = tree.unstack(whole, 3)
    assert bool(tree.mean([some[0], some[2]], [1, 1])["two"]["gain"].isfinite())
    assert bool(tree.mean(some, [1, 1, 1])["two"]["gain"].isnan())


@pytest.mark.parametrize("places", [[0, 1, 2, 3], [2, 0], [3, 2], [1, 1, 0]])
def test_stacking_rows_again_takes_them_from_the_stack(places):
    whole = stacked(4)
    some = tree.unstack(whole, 4)
    again = tree.stack([some[place] for place in places])
    assert all(map(untouched, some))
    assert gap(again, tree.stack([plain(whole, 4)[place] for place in places])) == 0


@pytest.mark.parametrize("whole", [
    {"a": torch.zeros(2, 3), "n": None},
    {"a": torch.zeros(2, 3), "n": [torch.zeros(2)]},
    {"a": torch.zeros(2, dtype=torch.long)},
    {"a": torch.zeros(2, 3, requires_grad=True)},
    {"a": {}, "b": torch.zeros(2)},
    [torch.zeros(2, 3)],
])  # fmt: skip
def test_other_trees_are_cut_up_at_once(whole):
    one, two = tree.unstack(whole, 2)
    assert type(one) is type(two) is type(whole)
    assert len(one) == len(whole)


def test_gathered_states_are_those_of_the_places_whatever_lies_together():
    first, second = stacked(3, seed=1), stacked(2, seed=2)
    joined = rows.gather([(second, [1]), (first, [2, 0]), (first, [1])])
    wanted = [plain(second, 2)[1], plain(first, 3)[2], plain(first, 3)[0], plain(first, 3)[1]]
    assert gap(joined, tree.stack(wanted)) == 0
    lists = rows.gather([([torch.arange(3)], [2]), ([torch.arange(3)], [0, 1])])
    assert lists[0].tolist() == [2, 0, 1]


def test_a_stack_lives_no_longer_than_its_rows():
    import weakref

    some, start = tree.unstack(stacked(2), 2), tree.at(stacked(1), 0)
    sent = [tree.sub(row, start) for row in some]
    watched = weakref.ref(sent[0].origin[0])
    assert watched() is not None
    del sent
    assert watched() is None
