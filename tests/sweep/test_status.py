"""`--status`: each run's state by the folder of results, which it leaves as it is."""

import json
import os
from pathlib import Path

import pytest
import yaml
from small_points import PLAIN

from fedsim.point.results.folders import ERROR, PARTIAL, locked, writer

OUT = Path("runs/small")


@pytest.fixture
def small(tmp_path):
    grid = {"algorithm": ["fedavg", "fedprox"], "seed": [0, 1, 2]}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({**PLAIN, "grid": grid}))
    return "small.yaml"


def test_before_the_first_run_all_are_to_do_and_nothing_is_written(call, small):
    code, out, told = call(small, "--status")
    assert (code, out, told) == (0, f"{OUT}: 6 runs, 6 to do\n", "")
    assert not Path("runs").exists()


def test_every_state_is_told_from_the_others(call, small):
    assert call(small, "--jobs", "1", "--no-report", "--set", "grid.seed=[0, 1]")[0] == 0
    assert call(small, "--status")[1] == f"{OUT}: 6 runs, 4 done, 2 to do\n"
    runs = json.loads(call(small, "--status", "--json")[1])["runs"]
    assert [run["state"] for run in runs] == ["done", "done", "to do"] * 2
    done, (failed, begun) = runs[0]["run"], [run["run"] for run in runs if run["state"] == "to do"]
    stamp = OUT / "points" / done / "stamp.json"
    changed = json.loads(stamp.read_text())
    changed["modules"] = dict.fromkeys(changed["modules"], "0" * 64)
    stamp.write_text(json.dumps(changed))
    (OUT / "points" / failed).mkdir()
    (OUT / "points" / failed / ERROR).write_text("it broke\n")
    ids = [run["id"] for run in json.loads(call(small, "--dry-run", "--json")[1])["runs"]]
    (OUT / f"{PARTIAL}{ids[5]}").mkdir()
    before = {path: path.stat().st_mtime_ns for path in OUT.rglob("*")}
    assert call(small, "--status")[1].splitlines() == [
        f"{OUT}: 6 runs, 3 done, 1 failed, 1 begun, 1 outdated", f"failed    {failed}",
    ]  # fmt: skip
    lines = call(small, "--status", "-v")[1].splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["outdated", "done", "failed", "done", "done", "begun"]
    assert lines[5].endswith(begun)
    assert {path: path.stat().st_mtime_ns for path in OUT.rglob("*")} == before


def test_the_process_that_writes_is_named_and_a_dead_one_is_not(call, small):
    with locked(OUT, ""):
        found = json.loads(call(small, "--status", "--json")[1])
        assert (found["folder"], found["writer"]) == (str(OUT), str(os.getpid()))
        assert f"process {os.getpid()} is running them" in call(small, "--status")[1]
    (OUT / ".lock").touch()
    (OUT / ".holder").write_text("4194305\n")
    assert writer(OUT) is None
    assert "process" not in call(small, "--status")[1]
