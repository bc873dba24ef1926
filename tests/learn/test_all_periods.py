"""The split all_periods against scores found one graph at a time, and what it leaves as it was."""

from collections import defaultdict

import pytest
import small_points
import torch
from learnlab import drawn_task
from test_evaluate import Guess, Rows, direct, models, observer_of, periods_of, world_of

from analysis.measures.frontier import ALL_PERIODS, over_all_periods
from fedsim.core.errors import ScenarioError
from fedsim.scenario.parts import find

CLOCKS = {"name": "class_incremental", "classes": 1, "every": "poisson(2 s)", "offset": "uniform(0 s, 2 s)"}


def test_both_sides_give_the_split_one_name():
    assert ALL_PERIODS in find.names("split")


@pytest.mark.parametrize("as_shared", [True, False])
@pytest.mark.parametrize("seen", [[1, 1, 1], [3, 2, 0], [3, 3, 3]])
def test_every_client_is_scored_on_every_period_met_or_not(as_shared, seen):
    torch.manual_seed(0)
    task, rows = drawn_task(), Rows()
    own = models(task)
    shared = models(task)[0] if as_shared else None
    world = world_of(Guess(shared, own), seen)
    whole = [periods_of(client) for client in range(3)]
    observer = observer_of(world, task, rows, splits=["test", "all_periods"], periods=whole)
    observer.score()
    expected = {}
    for client in range(3):
        for period in whole[client]:
            for model in ("global", "local"):
                params = shared if model == "global" and as_shared else own[client]
                for metric in ("accuracy", "macro_f1"):
                    value, weight = direct(task, params, period, "test", metric)
                    if weight:
                        expected[model, metric, client, period.number] = (pytest.approx(value), weight, seen[client])
    mine = [r for r in rows.rows if r.split == "all_periods" and r.client >= 0]
    assert {(r.model, r.metric, r.client, r.period): (r.value, r.weight, r.seen) for r in mine} == expected
    assert len(mine) == len(expected)
    plain = Rows()
    observer_of(world_of(Guess(shared, own), seen), task, plain, splits=["test"]).score()
    assert [r for r in rows.rows if r.split == "test"] == plain.rows


def test_a_later_scoring_says_what_was_met_by_then():
    torch.manual_seed(0)
    task, rows = drawn_task(), Rows()
    world = world_of(Guess(models(task)[0], models(task)), [1, 1, 0])
    whole = [periods_of(client) for client in range(3)]
    observer = observer_of(world, task, rows, splits=["test", "all_periods"], periods=whole, models=["global"])
    observer.score()
    world.held[2].seen.append(whole[2][0])
    world.server.version = 2
    observer.score()
    found = defaultdict(set)
    values = defaultdict(list)
    for row in rows.rows:
        if row.split == "all_periods" and row.client >= 0:
            found[row.version, row.client].add(row.seen)
            values[row.version].append(row.value)
    assert {key: min(seen) for key, seen in found.items()} == {
        (1, 0): 1, (1, 1): 1, (1, 2): 0, (2, 0): 1, (2, 1): 1, (2, 2): 1,
    }  # fmt: skip
    assert values[1] == values[2]  # the same model on the same test


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["fedavg", "power", {"name": "fed_pub", "proxy_blocks": 1}, "fedgta"])
def test_a_run_is_the_same_but_for_these_rows(tmp_path, algorithm):
    kept = {}
    for name, splits in (("without", ["test"]), ("with", ["test", "all_periods"])):
        measure = {"metrics": ["accuracy"], "models": ["global", "local"], "splits": splits}
        row = small_points.run_in(tmp_path / name, data__stream=CLOCKS, algorithm=algorithm, measure=measure)
        tables = {table: small_points.table(tmp_path / name, table) for table in small_points.TABLES}
        whole = [one for one in tables["scores"] if one["split"] == "all_periods"]
        tables["scores"] = [one for one in tables["scores"] if one["split"] != "all_periods"]
        kept[name] = {k: v for k, v in row.items() if k not in ("real_seconds", "score")}, tables
    assert kept["with"] == kept["without"]
    tested = {(one["client"], one["period"]) for one in whole}
    moments = {(one["time"], one["version"]) for one in whole}
    assert {one["client"] for one in whole} == set(range(5))
    for moment in moments:
        for model in ("global", "local"):
            now = [one for one in whole if (one["time"], one["version"]) == moment and one["model"] == model]
            assert {(one["client"], one["period"]) for one in now} == tested
    last = max(moments)
    scores = small_points.table(tmp_path / "with", "scores")
    met = [one for one in scores if one["split"] == "test" and one["period"] < one["seen"]]
    same = {(one["client"], one["period"], one["model"]): one["value"] for one in whole if one["time"] == last[0]}
    ended = [one for one in met if (one["time"], one["version"]) == last]
    assert ended
    for one in ended:
        assert same[one["client"], one["period"], one["model"]] == pytest.approx(one["value"])


def test_the_end_of_the_curve_is_the_score_where_all_has_been_met(tmp_path):
    import pandas as pd

    measure = {"metrics": ["accuracy"], "splits": ["test", "all_periods"]}
    row = small_points.run_in(tmp_path / "run", measure=measure)
    scores = pd.DataFrame(small_points.table(tmp_path / "run", "scores"))
    whole = over_all_periods(scores, "global", "accuracy")
    assert whole["whole"].iloc[-1] == pytest.approx(row["score"])
    assert len(whole) == row["updates"]


SNAPSHOTS = {
    "dataset": {"name": "drifting", "nodes": 120, "edges": 300, "snapshots": 5, "classes": 3, "features": 6},
    "partition": "random", "split": {"train": 0.4, "val": 0.2, "test": 0.4},
}  # fmt: skip


@pytest.mark.parametrize("scored", ["ahead", "ahead_split", "split"])
def test_on_snapshots_it_needs_a_test_of_their_own(tmp_path, scored):
    stream = {"name": "snapshots", "steps": 5, "every": "2 updates", "scored": scored}
    changes = {
        "data": {**SNAPSHOTS, "stream": stream}, "measure": {"splits": ["test", "all_periods"]},
        "protocol": {**small_points.SYNC, "rounds": 3},
    }  # fmt: skip
    if scored == "split":
        small_points.run_in(tmp_path / "run", **changes)
        rows = [r for r in small_points.table(tmp_path / "run", "scores") if r["split"] == "all_periods"]
        assert {row["period"] for row in rows} == set(range(5))
    else:
        with pytest.raises(ScenarioError, match=r"measure\.splits: 'all_periods' .* data\.stream\.scored: split"):
            small_points.run_in(tmp_path / "run", **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"measure": {"splits": ["all_periods", "test"]}}, "put 'test' or 'val' before it"),
        ({"measure": {"splits": ["all_periods"]}}, "put 'test' or 'val' before it"),
        (
            {"data__split": {"train": 0.5, "val": 0.5, "test": 0}, "measure": {"splits": ["val", "all_periods"]}},
            r"give data\.split\.test a share",
        ),
        (
            {
                "algorithm": "fed_gcn", "data__stream": {"name": "static", "numbered": True},
                "measure": {"splits": ["test", "all_periods"]},
            },
            "their latest graph only",
        ),
    ],
)  # fmt: skip
def test_where_it_says_nothing_it_is_refused(tmp_path, changes, message):
    with pytest.raises(ScenarioError, match=rf"measure\.splits: 'all_periods' scores the test nodes .*{message}"):
        small_points.run_in(tmp_path / "run", **changes)
