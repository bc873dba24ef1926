"""Same scenario and seed, same tables: run in whatever way, four small points leave the bytes of the reference run.

Where the same sums are taken in other groups, scores may differ by a flipped prediction, and nothing else differs.
"""

from functools import partial

import pandas as pd
import pytest
import ways_of_running as ways
from ways_of_running import interrupt, last_dies_once, stopped_once

from analysis.read.stored import tables
from fedsim.point.build import prepared
from fedsim.point.results.folders import place_of
from fedsim.sweep.engines.local import Local

pytestmark = pytest.mark.long

HERE = Local(1)
FLIPPED = 1  # of a client's predictions on a period, which are ten and more
SCORES = ("score", "am", "la", "fm", "prequential")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The folder of the points that were run one after the other in this process."""
    return ways.sweep(tmp_path_factory.mktemp("reference") / "runs", HERE)


@pytest.fixture(scope="module")
def pool():
    with Local(4) as pool:
        yield pool


@pytest.fixture
def in_pool(pool, tmp_path):
    """Run points by four workers, which hash otherwise and work elsewhere."""

    def run(out, *how, **more):
        with ways.elsewhere(tmp_path / "elsewhere"):
            return ways.sweep(out, pool, *how, **more)

    return run


@pytest.fixture
def again(tmp_path):
    """Run points in this process, which has forgotten their data."""

    def run(out, *how, **more):
        prepared.periods_of.cache_clear()
        return ways.sweep(out, HERE, *how, **more)

    return run


@pytest.fixture
def interrupted(again):
    """Run points in this process, each of which is ended by Ctrl-C in the middle."""

    def run(out):
        for _ in ways.CASES:
            with pytest.raises(KeyboardInterrupt):
                again(out, partial(stopped_once, stop=interrupt))
        return again(out, partial(stopped_once, stop=interrupt))

    return run


@pytest.fixture
def in_another_order(again):
    return lambda out: again(out, those=ways.points()[::-1])


@pytest.fixture
def with_a_worker_killed(in_pool):
    def run(out):
        in_pool(out, last_dies_once)
        assert len([*out.glob("*.stopped")]) == 1
        return out

    return run


@pytest.mark.parametrize("way", ["in_another_order", "interrupted", "in_pool", "with_a_worker_killed"])
def test_it_leaves_the_same_bytes(way, reference, tmp_path, request):
    out = request.getfixturevalue(way)(tmp_path / "runs")
    (files, rows), (wanted, wanted_rows) = ways.left(out), ways.left(reference)
    assert [name for name, data in files.items() if data != wanted[name]] == []
    assert rows == wanted_rows


def test_ray_leaves_the_same_bytes(ray_engine, reference, tmp_path):
    some = [1, 2]  # both algorithms, both protocols
    out = ways.sweep(tmp_path / "runs", ray_engine, those=[ways.points()[number] for number in some])
    (files, rows), (wanted, wanted_rows) = ways.left(out, some), ways.left(reference, some)
    assert files == wanted
    assert len(rows) == 2
    assert all(row in wanted_rows for row in rows)


GROUPED = {
    "loop": ("again", {"cohort": "loop"}),
    "memory": ("again", {"cohort": {"memory": "20 kB"}}),
    "threads": ("in_pool", {"threads": 2}),
}


@pytest.mark.parametrize("name", GROUPED)
def test_it_leaves_the_same_but_for_flipped_predictions(name, reference, tmp_path, request):
    way, host = GROUPED[name]
    those = ways.points(**host)
    out = request.getfixturevalue(way)(tmp_path / "runs", those=those)
    rows, wanted_rows = (ways.summary(folder, ("real_seconds", *SCORES)) for folder in (out, reference))
    assert [*rows.values()] == [*wanted_rows.values()]
    for one, other in zip(those, ways.points(), strict=True):
        found, wanted = tables(place_of(out, one)), tables(place_of(reference, other))
        for table in found.keys() - {"scores"}:
            pd.testing.assert_frame_equal(found[table], wanted[table], check_exact=True)
        scores, wanted_scores = found["scores"], wanted["scores"]
        pd.testing.assert_frame_equal(scores.drop(columns="value"), wanted_scores.drop(columns="value"))
        flipped = (scores["value"] - wanted_scores["value"]).abs() * scores["weight"]
        assert flipped.max() < FLIPPED + 0.5  # a share times a count is no whole number


def test_the_points_hold_what_they_are_to_hold(reference):
    """Or the rest would say little."""
    every = [tables(place_of(reference, point)) for point in ways.points()]
    assert all(len(each["arrivals"]) > 4 for each in every)
    assert {"lost", "cut", "delivered"} <= set(pd.concat(each["transfers"] for each in every)["fate"])
    assert {"train", "offline", "left"} <= set(pd.concat(each["spans"] for each in every)["what"])
    assert all(each["scores"]["value"].nunique() > 5 and each["scores"]["weight"].min() >= 10 for each in every)
