"""Sweeps that are killed, or whose disk is full, lose nothing that was finished, and end with the same tables."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import fake_runs
import pytest
from small_sweeps import HERE, Listener, names, table

from fedsim.core import whole_files
from fedsim.core.errors import UserError
from fedsim.point.results import stamp
from fedsim.point.results.folders import finished, name_of, place_of
from fedsim.point.resume import checkpoint
from fedsim.point.resume.checkpoint import path_in

ROOT = Path(__file__).resolve().parents[2]
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs children that have torch loaded already")
def test_twenty_kills_change_no_byte_of_any_table_and_a_full_disk_is_one_message(tmp_path):
    script = Path(__file__).resolve().parents[1] / "support" / "killed_sweeps.py"
    paths = os.pathsep.join([str(script.parent), str(ROOT)])
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    shown, full = found["kills"], found["full"]
    assert all(same for _, same in shown.values()), shown
    kills = [kill for some, _ in shown.values() for kill in some]
    assert len(kills) == 22
    assert [kill["checkpoints"] for kill in shown["writing"][0]] == [0, 1, 1, 0, 0, 0]  # the first never came to be
    assert [kill["finished"] for kill in shown["writing"][0]] == [0, 0, 0, 0, 0, 1]
    assert found["files"] > 40
    assert {name: names for name, names in found["differing"].items() if names} == {}
    assert len(found["differing"]) == 3
    assert any(kill["checkpoints"] for kill in shown["random"][0])  # some in the middle of a point
    assert (full["code"], full["told"].count("\n")) == (2, 1)
    assert "cannot be written (File too large); finished runs are kept" in full["told"]
    assert full["left"] == []  # nothing was finished, so that the folder is gone again


def left_by(swept, point, with_checkpoint=True):
    folder = swept.out / f".partial-{point.id}"
    path_in(folder).parent.mkdir(parents=True)
    (folder / "transfers.partial").write_text("half")
    if with_checkpoint:
        checkpoint.write(folder, stamp.of(point.scenario).text(), {})
    return folder


def test_only_checkpoints_of_unfinished_points_are_kept(make):
    swept, listener = make(seeds=[1, 2, 3]), Listener()
    left_by(swept, swept.points[0])
    bare = left_by(swept, swept.points[1], with_checkpoint=False)
    (swept.out / ".partial-0123456789ab" / "state").mkdir(parents=True)
    seen = {}

    def interrupted(point, folder, data, told):
        seen[point.id] = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
        if point.id == swept.points[2].id:
            path_in(folder).parent.mkdir()
            path_in(folder).write_text("whole")
            raise KeyboardInterrupt
        return fake_runs.run(point, folder, data, told)

    with pytest.raises(KeyboardInterrupt):
        swept.run(interrupted, HERE, listener)
    assert seen == {swept.points[0].id: ["state", "state/checkpoint"], swept.points[1].id: [], swept.points[2].id: []}
    assert listener.notes == ["1 run resumes from an earlier call's checkpoint"]
    assert not bare.exists()
    assert [name for name in names(swept.out) if name.startswith(".partial")] == [f".partial-{swept.points[2].id}"]
    swept.run(fake_runs.run, HERE, Listener(), fresh=True)
    assert not [name for name in names(swept.out) if name.startswith(".partial")]


def test_a_full_disk_ends_the_sweep_with_one_message_and_what_is_finished_stays(make):
    swept = make(seeds=[1, 2, 3])

    def filling(point, folder, data, told):
        if point.id == swept.points[1].id:
            path_in(folder).parent.mkdir()
            path_in(folder).write_text("whole")
            (folder / "transfers.parquet").write_text("half")
            raise FULL
        return fake_runs.run(point, folder, data, told)

    with pytest.raises(UserError, match=r"cannot be written \(No space left on device\); finished runs are kept: make"):
        swept.run(filling, HERE, Listener())
    first, second, _ = swept.points
    assert names(swept.out) == [f".partial-{second.id}", "points", "scenario.yaml", "summary.csv"]
    assert names(swept.out / "points") == [name_of(first)]
    assert names(swept.out / f".partial-{second.id}") == ["state"]
    rows = swept.run(fake_runs.run, HERE, Listener())
    assert [row["status"] for row in rows] == ["done"] * 3


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_summary_that_cannot_be_written_loses_no_point(make, monkeypatch, number):
    swept, write = make(seeds=[1, 2]), whole_files.replace

    def barred(path, text):
        if path.name == "summary.csv" and sum(map(bool, (finished(place_of(swept.out, p)) for p in swept.points))):
            raise OSError(number, os.strerror(number), str(path))
        write(path, text)

    monkeypatch.setattr(whole_files, "replace", barred)
    with pytest.raises(UserError, match="the same command continues"):
        swept.run(fake_runs.run, HERE, Listener())
    monkeypatch.undo()
    assert [row["status"] for row in table(swept.out)] == []
    assert finished(place_of(swept.out, swept.points[0]))
    assert [row["status"] for row in swept.run(fake_runs.run, HERE, Listener())] == ["done", "done"]


def test_other_errors_of_a_point_are_its_own(make):
    def lacking(point, folder, data, told):
        raise PermissionError(errno.EACCES, "Permission denied", "/somewhere/else")

    assert [row["status"] for row in make(seeds=[1]).run(lacking, HERE, Listener())] == ["failed"]


def test_half_a_file_is_never_left_where_the_disk_is_full(tmp_path):
    path = tmp_path / "summary.csv"
    whole_files.replace(path, "first")
    resource = pytest.importorskip("resource", reason="needs a system that bounds the size of files")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="too large") as told:
            whole_files.replace(path, "x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == ["summary.csv"]
    assert path.read_text() == "first"
    assert whole_files.unwritable(tmp_path, told.value)
