"""Running: what is missing is run, once, and taken over; one cell alone is the same as in the table."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_plan import bench, cell_of, written

from analysis.read.stored import tables
from fedsim.core.errors import UserError
from fedsim.point.results.folders import place_of
from fedsim.point.run import run as run_point
from fedsim.reference import build, results, running
from fedsim.reference.build import missing
from fedsim.reference.results import COLUMNS, COURSE, Results

EMPTY = Results(pd.DataFrame(columns=COLUMNS), pd.DataFrame(columns=COURSE))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The small plan, run to its end."""
    plan, place = written(tmp_path_factory.mktemp("plan"))
    *_, found = running.run(plan, place, missing(plan, EMPTY), {}, bench())
    return plan, place, found


def as_in_table(rerun):
    """Whether a rerun has what the table has, scores to the last bit."""
    return bool(rerun.clock) and rerun.gap == 0


def test_all_cells_are_done_and_in_the_plans_order(whole):
    plan, place, found = whole
    assert [*found.cells["cell"]] == [str(cell) for cell in plan.cells()] or len(found.cells) == 16
    kept = results.read(place.tables)
    assert [*kept.cells["cell"]] == [str(cell) for cell in plan.cells()]
    assert {*kept.cells["status"]} == {"done"}
    assert missing(plan, kept) == []


def test_a_course_is_the_score_over_all_periods_with_what_had_moved_by_then(whole):
    plan, place, found = whole
    for name in ("office/small/static/prox/sync/given/1", "office/small/arriving/fedavg/sync/given/0"):
        cell = cell_of(name)
        folder = place_of(place.out / "-".join(cell.setting), build.point(plan, place.plan, cell, {}))
        scores, transfers = (tables(folder)[table] for table in ("scores", "transfers"))
        split = "all_periods" if cell.task == "arriving" else "test"
        own = found.courses[found.courses["cell"] == name]
        rows = scores[scores["split"] == split]
        assert [*own["seconds"]] == sorted({*rows.loc[rows["version"] > 0, "time"]})
        last = rows[rows["version"] == rows["version"].max()]
        means = [np.average(part["value"], weights=part["weight"]) for _, part in last.groupby("period")]
        assert own["score"].iloc[-1] == pytest.approx(np.mean(means))
        for _, row in own.iterrows():
            moved = transfers.loc[transfers["arrived"] <= row["seconds"], "wire_bytes"].sum()
            assert row["bytes"] == moved


def test_the_last_budget_to_be_used_up_ends_a_run(tmp_path):
    plan, place = written(tmp_path)
    ended = []
    for moved in (10, 1_000_000):
        tight = {"time": 0.2, "bytes": moved, "halved": {}}
        changed = plan.model_copy(update={"settings": [plan.settings[0].model_copy(update=tight)]})
        cells = [cell for cell in changed.cells() if (cell.method, cell.protocol, cell.seed) == ("fedavg", "sync", 0)]
        *_, found = running.run(changed, place, cells, {}, bench())
        ended.append(found.cells.set_index("task").loc["static"])
    time_last, bytes_last = ended
    assert 0.2 <= time_last["seconds"] < bytes_last["seconds"]
    assert time_last["updates"] == 2
    assert bytes_last["updates"] == 3  # all rounds


def test_a_run_whose_budget_allows_no_update_has_no_score(tmp_path):
    plan, place = written(tmp_path)
    poor = plan.model_copy(
        update={"settings": [plan.settings[0].model_copy(update={"bytes": 10, "time": 0.01, "halved": {}})]}
    )
    cells = [cell for cell in poor.cells() if cell.method == "fedavg" and cell.task == "static" and cell.seed == 0]
    *_, found = running.run(poor, place, cells, {}, bench())
    assert found.cells["score"].isna().all()
    assert found.courses.empty
    again = running.compared(cells[0], found, Results(found.cells[found.cells["cell"] == str(cells[0])], found.courses))
    assert as_in_table(again)
    assert all(
        as_in_table(one) for one in running.rerun(poor, replace(place, out=tmp_path / "alone"), cells, {}, bench())
    )
    assert "nan" not in [*running.lines([again], 200)][1]


def test_what_is_there_is_not_run_again_and_only_says_which(whole):
    plan, _, found = whole
    partly = Results(found.cells[found.cells["seed"] == 0], found.courses)
    left = missing(plan, partly)
    assert {cell.seed for cell in left} == {1}
    assert len(left) == len(found.cells) // 2
    some = missing(plan, partly, ["office/small/static/prox", "office/small/arriving/fedavg/buffered"])
    assert {(cell.method, cell.protocol) for cell in some} == {("prox", "sync"), ("fedavg", "buffered")}


def test_a_failed_cell_is_recorded_and_missing_still(tmp_path):
    plan, place = written(tmp_path)
    cells = [cell_of(f"office/small/static/fedavg/sync/given/{seed}") for seed in (0, 1)]

    def run(point, *rest):
        if point.scenario.seed:
            raise RuntimeError("made to fail")
        return run_point(point, *rest)

    *_, found = running.run(plan, place, cells, {}, replace(bench(), run=run))
    assert [*found.cells["status"]] == ["done", "failed"]
    assert cells[1] in missing(plan, found)
    assert cells[0] not in missing(plan, found)
    assert {*found.courses["cell"]} == {str(cells[0])}


def test_what_has_finished_before_ctrl_c_is_kept(tmp_path):
    plan, place = written(tmp_path)
    cells = [cell_of(f"office/small/static/fedavg/sync/given/{seed}") for seed in (0, 1)]

    def run(point, *rest):
        if point.scenario.seed:
            raise KeyboardInterrupt
        return run_point(point, *rest)

    with pytest.raises(KeyboardInterrupt):
        [*running.run(plan, place, cells, {}, replace(bench(), run=run))]
    kept = results.read(place.tables)
    assert [*kept.cells["cell"]] == [str(cells[0])]


def test_no_part_begins_after_the_hours_are_over(tmp_path):
    plan, place = written(tmp_path)
    assert [*running.run(plan, place, missing(plan, EMPTY), {}, bench(), seconds=-1.0)] == []


def test_a_cell_alone_is_as_in_the_table(whole, tmp_path):
    plan, place, _ = whole
    own = replace(place, out=tmp_path)
    cells = running.named(plan, "office/small/arriving/fedavg/buffered/given")
    found = [*running.rerun(plan, own, cells, {}, bench())]
    assert [one.cell.seed for one in found] == [0, 1]
    assert all(as_in_table(one) for one in found)
    assert all("as in the table" in line for line in [*running.lines(found, 200)][1:])


def test_a_cell_that_differs_from_the_table_is_reported(whole):
    _, _, known = whole
    name = "office/small/static/prox/sync/given/0"
    row, course = (frame[frame["cell"] == name] for frame in (known.cells, known.courses))
    same = running.compared(cell_of(name), known, Results(row, course))
    assert as_in_table(same)
    slower = running.compared(cell_of(name), known, Results(row.assign(seconds=row["seconds"] * (1 + 1e-9)), course))
    assert (slower.clock, slower.gap) == (False, 0)
    better = running.compared(cell_of(name), known, Results(row, course.assign(score=course["score"] + 0.01)))
    assert better.clock
    assert better.gap == pytest.approx(0.01)
    assert "points apart" in [*running.lines([better], 200)][1]
    later = running.compared(cell_of(name), known, Results(row, course.iloc[1:]))
    assert later.gap == np.inf
    unknown = running.compared(cell_of(name), EMPTY, Results(row, course))
    assert (unknown.clock, unknown.gap) == (None, None)


@pytest.mark.parametrize(("name", "says"), [("nowhere", "no such cell"), ("office/small/static", "several methods")])
def test_alone_means_one_contender(whole, name, says):
    with pytest.raises(UserError, match=says):
        running.named(whole[0], name)


def test_what_was_spent_adds_up(whole):
    plan, _, found = whole
    half = Results(found.cells[found.cells["task"] == "static"], found.courses)
    parts = results.by_setting(plan, half)
    assert [(one.name, one.done, one.left) for one in parts] == [
        ("office/small/static", 12, 0),
        ("office/small/arriving", 0, 4),
    ]
    assert parts[0].seconds == pytest.approx(half.cells["real_seconds"].sum())
    assert "4 cells of the plan are still to be run" in results.summary(plan, half)
    assert "still to be run" not in results.summary(plan, found)


def test_tables_are_replaced_cell_by_cell_and_read_back(tmp_path):
    rows = [
        {**cell_of(f"a/b/c/d/e/given/{seed}").row, "cell": f"a/b/c/d/e/given/{seed}", "status": "done"}
        for seed in (1, 0)
    ]
    courses = [
        pd.DataFrame({"cell": row["cell"], "seconds": [0.0, 1.5], "bytes": [0.0, 7.0], "score": [0.1, 1 / 3]})
        for row in rows
    ]
    first = EMPTY.with_rows(rows, courses)
    second = first.with_rows([{**rows[0], "score": 0.5}], [courses[0].iloc[:1]])
    assert [*second.cells["cell"]] == [rows[1]["cell"], rows[0]["cell"]]
    assert len(second.courses) == 3
    results.write(second, tmp_path, order=[rows[0]["cell"], rows[1]["cell"]])
    again = results.read(tmp_path)
    assert [*again.cells["cell"]] == [rows[0]["cell"], rows[1]["cell"]]
    assert again.courses["score"].tolist() == [0.1, 0.1, 1 / 3]
    assert results.read(Path(tmp_path / "none")).cells.empty
