"""The tables of small points are those that were recorded: what a change of the inside must leave as it is.

`same_points` has the points, same_tables.json what was recorded of each: a digest of every table's columns and values,
not of the Parquet file.  Whatever the clock decides must be equal everywhere: all tables, of the scores all but their
values, and the index of the views.  Values of scores and the arrays in views come of arithmetic whose last bits depend
on torch, the C library and the architecture: they must be equal where these are as when they were recorded, whatever
the processor, and elsewhere the scores' means must be near the recorded ones.

Where a change is meant to change tables, record anew, look at what has changed, and say why in the change:

    python tests/whole/test_same_tables.py --record             # every point
    python tests/whole/test_same_tables.py --record forgers     # the points with this in their names
    git diff tests/support/same_tables.json
"""

import csv
import hashlib
import json
import math
import os
import platform
import sys
import tempfile
import warnings
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in conftest.py, which is not loaded when this is a script

import numpy as np
import pyarrow.parquet as pq
import pytest
import same_points
import small_points
import torch

from fedsim.core import kernels
from fedsim.point.resume.following import learning_key_of
from fedsim.point.run import run as run_point

FILE = Path(__file__).resolve().parents[1] / "support" / "same_tables.json"
RECORDED_AS = {"nodes": "vertices"}  # columns that were renamed since
NEAR = 0.02  # between means of scores of two architectures: some predictions flip


def run(name: str, folder: Path) -> Path:
    """Run a point, and return the folder of its tables."""
    changes = same_points.changes(name)
    if changes["protocol"] == {"name": "replay", "transfers": same_points.REPLAY_FILE}:
        (folder / "replay.csv").write_text(same_points.REPLAY, encoding="utf-8")
        changes["protocol"] = {"name": "replay", "transfers": str(folder / "replay.csv")}
    small_points.run_in(folder / "run", **changes)
    return folder / "run"


def seen(folder: Path) -> dict[str, Any]:
    """Return what is recorded of a point: digests that the clock decides, digests of floats, and means of scores."""
    clock, floats, means = {}, {}, {}
    for path in sorted(folder.glob("*.parquet")):
        columns = _columns(path)
        if path.stem == "scores":
            floats["scores"], means = _digest(columns), _means(columns)
            columns = [column for column in columns if column[0] != "value"]
        clock[path.stem] = _digest(columns)
    if (folder / "views").is_dir():
        with (folder / "views" / "views.csv").open(newline="", encoding="utf-8") as file:
            clock["views.csv"] = _digest([*csv.reader(file)])
        floats |= {f"views/{path.name}": _digest_arrays(path) for path in sorted((folder / "views").glob("*.npz"))}
    return {"clock": clock, "floats": floats, "means": means}


def _columns(path: Path) -> list[tuple[str, list[Any]]]:
    """Return the name and the values of each column, as it was recorded; how Parquet encodes them is left out."""
    return [(RECORDED_AS.get(name, name), values) for name, values in pq.read_table(path).to_pydict().items()]


def _digest(data: Any) -> str:
    """Return a digest of plain data; a float's text is the shortest that names it, so each bit of it counts."""
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:24]


def _digest_arrays(path: Path) -> str:
    with np.load(path, allow_pickle=False) as arrays:
        return _digest(
            [
                (name, str(a.dtype), a.shape, hashlib.sha256(a.tobytes()).hexdigest())
                for name, a in sorted(arrays.items())
            ]
        )


def _means(columns: list[tuple[str, list[Any]]]) -> dict[str, float]:
    table, groups = dict(columns), defaultdict(list)
    for value, *group in zip(*(table[name] for name in ("value", "metric", "model", "split")), strict=True):
        groups[" ".join(group)].append(value)
    return {group: round(math.fsum(values) / len(values), 6) for group, values in sorted(groups.items())}


def machine() -> dict[str, Any]:
    """Return what the last bits of a score depend on; the processor's model is not among them."""
    return {"machine": platform.machine(), "libc": " ".join(platform.libc_ver()),
            "kernels": "native" if kernels.differ() else torch.backends.cpu.get_cpu_capability(),
            "torch": torch.__version__, "numpy": np.__version__, "threads": torch.get_num_threads()}  # fmt: skip


def recorded() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def differing(found: dict[str, str], wanted: dict[str, str]) -> list[str]:
    """Return the names of the tables that differ, are missing or are new."""
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))


def shown(folder: Path) -> set[str]:
    """Return which of the things that `same_points.SHOWN` names have happened in a point."""
    updates, arrivals = (small_points.table(folder, name) for name in ("updates", "arrivals"))
    trained = [row for row in updates if row["step"] == "train"]
    undone = [row["time"] for row in updates if row["step"] == "restart" and row["staleness"]]
    noisy = [row["time"] for row in trained if 0 < (row["epsilon"] or 0) < math.inf]
    found = {
        "undone": undone,  # by a restart
        "noise": noisy and max(noisy) > max(undone, default=0),
        "stale": [row for row in trained if row["staleness"]],
        "unmasked": [row for row in updates if row["step"] == "unmask" and row["folded"]],
        "given up": [row for row in trained if row["late"] and not row["folded"]],
        "late": [row for row in trained if row["late"] and row["folded"]],
        "short of the quorum": "a round starts short" in (folder / "run.log").read_text(encoding="utf-8"),
        "periods at once": len({row["version"] for row in arrivals if row["period"] == 1}) > 1,
        "lost": [row for row in trained if row["lost"]],
    }
    return {what for what, there in found.items() if there}


def points() -> list[Any]:
    """Every point; half of them are left to the long tests."""
    first = [name for name in same_points.NAMES if name not in same_points.MORE][::2]
    return [pytest.param(name, marks=[pytest.mark.long] * (name not in first)) for name in same_points.NAMES]


@pytest.mark.parametrize("name", points())
def test_the_tables_are_those_that_were_recorded(name, tmp_path):
    check(name, run(name, tmp_path))


@pytest.mark.parametrize("name", same_points.REPORTING)
def test_the_losses_that_clients_report_are_the_same_from_a_record(name, tmp_path):
    made = small_points.point(**same_points.changes(name))
    leader = replace(made, learning_key=learning_key_of(made.scenario))
    for point, followed in ((leader, None), (replace(leader, id="follower"), leader.id)):
        folder = tmp_path / point.id
        folder.mkdir()
        assert run_point(point, folder, folder, lambda progress: None)["followed"] == followed
        check(name, folder)


def check(name: str, folder: Path) -> None:
    """Compare the tables in a folder with what was recorded of a point."""
    record = recorded()["points"][name]
    found, wanted, here = seen(folder), record["seen"], machine()
    changed = differing(found["clock"], wanted["clock"])
    assert not changed, f"point '{name}': other rows than recorded in {', '.join(changed)}"
    assert found["means"] == pytest.approx(wanted["means"], abs=NEAR, nan_ok=True), f"point '{name}': scores"
    if here == record["machine"]:
        changed = differing(found["floats"], wanted["floats"])
        assert not changed, f"point '{name}': other values than recorded, on an equal machine, in {', '.join(changed)}"
    else:
        assert found["floats"].keys() == wanted["floats"].keys()
    if name in same_points.SHOWN:
        assert shown(folder) >= same_points.SHOWN[name]


def test_what_was_recorded_is_of_these_points():
    assert sorted(recorded()["points"]) == sorted(same_points.NAMES)


def main(arguments: list[str]) -> int:
    """Record the points whose names contain one of the given texts, or all, and say which have changed."""
    if arguments[:1] != ["--record"]:
        print(__doc__)
        return 2
    warnings.simplefilter("error")  # a point that fails is warned of, and must not be recorded
    parts, before = arguments[1:], recorded()["points"] if FILE.exists() else {}
    chosen = [name for name in same_points.NAMES if not parts or any(part in name for part in parts)]
    points = {name: before[name] for name in same_points.NAMES if name in before}
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            found = seen(run(name, Path(folder)))
        old = points.get(name, {}).get("seen", {"clock": {}, "floats": {}})
        changed = [table for kind in ("clock", "floats") for table in differing(found[kind], old[kind])]
        print(f"{name}: {', '.join(changed) or 'unchanged'}")
        points[name] = {"machine": machine(), "seen": found}
    ordered = {name: points[name] for name in same_points.NAMES if name in points}
    FILE.write_text(json.dumps({"points": ordered}, indent=1) + "\n", encoding="utf-8", newline="\n")
    return 0 if chosen else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
