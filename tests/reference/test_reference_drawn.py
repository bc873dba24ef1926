"""Cells of the reference table, drawn anew whenever the table changes, run alone and held against it.

Seconds, bytes and updates must be those of the table.  Scores must be too on the kind of processor that made it; on
another one sums are rounded otherwise, and a run may drift: then those drawn must agree in the mean.
"""

from pathlib import Path

import numpy as np
import pytest
from small_plan import bench, cell_of

from fedsim.core import seeds
from fedsim.reference import build, results, running, trials
from fedsim.reference import plan as plans
from fedsim.reference.running import ReferenceFolders

ROOT = Path(__file__).parents[2]
FOLDER, TABLES = ROOT / "scenarios/reference", ROOT / "docs/reference"
MOST = 12.0  # seconds that the slowest of them may have taken
NEED_NOTHING = ("digits", "drifting", "synthetic")  # data that fedsim has or draws itself
APART = 0.02  # mean difference of the last scores on another kind of processor


@pytest.mark.long
def test_ten_drawn_cells_run_alone_are_as_in_the_table(tmp_path):
    _hold_drawn(10, tmp_path, tmp_path, lambda data: data in NEED_NOTHING)


@pytest.mark.data
def test_so_are_three_of_real_graphs(tmp_path, data_root):
    _hold_drawn(3, tmp_path, data_root, lambda data: data not in NEED_NOTHING)


def _hold_drawn(count, out, data, meant):
    plan, known = plans.read(ROOT / plans.FILE), results.read(TABLES)
    done = known.cells[(known.cells["status"] == "done") & (known.cells["real_seconds"] < MOST)]
    done = done[done["data"].map(meant)]
    made_from = seeds.integer(len(known.cells), "".join(sorted(done["cell"])))
    cells = [cell_of(name) for name in np.random.default_rng(made_from).choice(done["cell"], count, replace=False)]
    place = ReferenceFolders(FOLDER, TABLES, out, data)
    chosen = trials.chosen(trials.read(FOLDER / trials.FILE))
    found = [one for cell in cells for one in running.rerun(plan, place, [cell], chosen, bench())]
    assert [one.cell for one in found] == cells
    assert all(one.clock for one in found), [*running.lines(found, 200)]
    table = done.set_index("cell")["score"]
    apart = [one.score - table[str(one.cell)] for one in found if one.score == one.score]
    assert abs(np.mean(apart)) <= APART, [*running.lines(found, 200)]


@pytest.mark.long
def test_the_table_holds_the_points_of_the_plan_as_it_is():
    plan, known = plans.read(ROOT / plans.FILE), results.read(TABLES)
    chosen = trials.chosen(trials.read(FOLDER / trials.FILE))
    ids = known.cells.set_index("cell")["run"]
    wanted = [cell for cell in plan.cells() if str(cell) in ids.index and cell.seed == 0]
    assert wanted
    assert {str(cell): build.point(plan, FOLDER, cell, chosen).id for cell in wanted} == {
        str(cell): ids[str(cell)] for cell in wanted
    }


def test_every_cell_of_the_table_is_in_the_plan_and_has_a_course_if_it_was_trained():
    plan, known = plans.read(ROOT / plans.FILE), results.read(TABLES)
    assert {*known.cells["cell"]} <= {str(cell) for cell in plan.cells()}
    trained = known.cells.loc[known.cells["score"].notna(), "cell"]
    assert {*trained} == {*known.courses["cell"]}
    ends = known.courses.groupby("cell").tail(1).set_index("cell")
    rows = known.cells.set_index("cell").loc[ends.index]
    assert (ends["score"] == rows["score"]).all()
    assert (ends["seconds"] <= rows["seconds"]).all()
    assert (ends["bytes"] <= rows["bytes"]).all()
