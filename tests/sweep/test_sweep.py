import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import fake_runs
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from scenario_texts import SMALL
from small_sweeps import HERE, Listener, alive, calls, names, table

from fedsim.core.errors import ScenarioError, UserError
from fedsim.point.results import folders, stale
from fedsim.point.results.folders import place_of
from fedsim.scenario.schema import Scenario
from fedsim.sweep.engines.local import Local
from fedsim.sweep.runner import RESULTS

POOL = Local(2, prepare="fake_runs")


@pytest.fixture(scope="module", autouse=True)
def ended():
    """End the workers of the pool, which stay between tests."""
    yield
    POOL.close()


KILLS = pytest.mark.skipif(sys.platform == "win32", reason="Windows ends no process by a signal")
DEATHS = [pytest.param("die", "ended by signal SIGKILL", marks=KILLS), ("exit", "ended with exit code 3")]


@pytest.mark.parametrize("engine", [HERE, POOL], ids=["here", "pool"])
def test_every_point_is_run_once_and_kept_whole(make, tmp_path, engine):
    swept, listener = make(seeds=[3, 1, 2]), Listener()
    rows = swept.run(fake_runs.run, engine, listener)
    ids = [point.id for point in swept.points]
    assert sorted(calls(tmp_path)) == sorted(ids)
    called = [folders.name_of(point) for point in swept.points]
    assert [row["run"] for row in rows] == called
    assert names(swept.out) == ["points", "scenario.yaml", "summary.csv"]
    assert names(swept.out / "points") == sorted(called)
    wanted = sorted([*folders.FILES, stale.FILE, folders.SUMS])
    assert all(names(swept.out / "points" / name) == wanted for name in called)
    assert (swept.out / "scenario.yaml").read_text() == SMALL
    assert listener.begun == (3, 0)
    assert {name for name, _ in listener.progress} == set(ids)
    read = table(swept.out)
    assert [*read[0]] == ["run", "status", "seed", *RESULTS]
    assert [(row["run"], row["seed"], row["score"], row["status"]) for row in read] == [
        (name, str(seed), str(seed / 10), "done") for name, seed in zip(called, [3, 1, 2], strict=True)
    ]
    assert {row[key] for row in read for key in ("fm", "target", "am")} == {""}


def test_workers_tell_how_far_they_are(make):
    listener = Listener()
    make(seeds=[1]).run(fake_runs.run, POOL, listener)
    assert 0.5 in [share for _, share in listener.progress]


def test_finished_points_are_skipped_and_their_rows_kept(make, tmp_path):
    make(seeds=[1, 2]).run(fake_runs.run, HERE, Listener())
    before, listener = table(make().out), Listener()
    rows = make(seeds=[1, 2, 3]).run(fake_runs.run, HERE, listener)
    assert listener.begun == (3, 2)
    assert len(calls(tmp_path)) == 3
    assert table(make().out)[:2] == before
    assert [row["seed"] for row in rows] == [1, 2, 3]


@pytest.mark.long
@pytest.mark.parametrize("gone", folders.FILES)
def test_a_point_that_lacks_a_file_is_run_again(make, tmp_path, gone):
    swept = make(seeds=[1, 2])
    swept.run(fake_runs.run, HERE, Listener())
    (place_of(swept.out, swept.points[0]) / gone).unlink()
    swept.run(fake_runs.run, HERE, Listener())
    assert calls(tmp_path) == [swept.points[0].id, swept.points[1].id, swept.points[0].id]
    assert (place_of(swept.out, swept.points[0]) / gone).exists()


def test_a_lost_summary_is_made_again_from_the_points(make, tmp_path):
    swept = make(seeds=[1, 2])
    swept.run(fake_runs.run, HERE, Listener())
    text = (swept.out / "summary.csv").read_text()
    (swept.out / "summary.csv").unlink()
    swept.run(fake_runs.run, HERE, Listener())
    assert (swept.out / "summary.csv").read_text() == text
    assert len(calls(tmp_path)) == 2


def test_fresh_removes_what_sweeps_have_made_and_nothing_else(make, tmp_path):
    make("fail", "well", seeds=[1]).run(fake_runs.run, HERE, Listener())
    swept = make(seeds=[1])
    (swept.out / "notes.txt").write_text("mine")
    (swept.out / "0123456789ab").mkdir()  # no scenario.yaml inside: not a sweep's
    swept.run(fake_runs.run, HERE, Listener(), fresh=True)
    assert names(swept.out) == ["0123456789ab", "notes.txt", "points", "scenario.yaml", "summary.csv"]
    assert names(swept.out / "points") == [folders.name_of(swept.points[0])]
    assert len(calls(tmp_path)) == 2


def test_points_of_another_version_are_kept_but_not_listed(make):
    old = make(seeds=[1, 2])
    old.run(fake_runs.run, HERE, Listener())
    listener = Listener()
    new = make(seeds=[2, 3])
    new.run(fake_runs.run, HERE, listener)
    assert [row["seed"] for row in table(new.out)] == ["2", "3"]
    assert (place_of(new.out, old.points[0])).is_dir()
    assert listener.notes[0].startswith("1 run of an earlier form of this scenario or its parts is in ")


def test_a_point_is_found_under_another_name_if_the_axes_have_changed(make, tmp_path):
    make("well", seeds=[1]).run(fake_runs.run, HERE, Listener())
    [before] = names(make().out / "points")
    assert before.startswith("do=well,seed=1-")
    same = make("well", seeds=[1])
    point = same.points[0]
    same.points[:] = [replace(point, axes={"seed": 1})]
    [row] = same.run(fake_runs.run, HERE, Listener())
    assert (row["run"], names(same.out / "points")) == (before, [before])
    assert calls(tmp_path) == [point.id]
    path = same.out / "points" / before / "row.json"
    path.write_text(path.read_text().replace(point.id, "0123456789ab"))  # of another point, whose id begins alike
    same.run(fake_runs.run, HERE, Listener())
    assert names(same.out / "points") == [before, before.removeprefix("do=well,")]


@given(st.dictionaries(st.text(max_size=30), st.text(max_size=60) | st.integers(), max_size=6))
@example({"network.latency": "lognormal(50 ms, 0.5)", "seed": 3})
@example({"a": "CON.", "b": "../" * 40})
def test_the_name_of_a_folder_is_short_and_safe_and_ends_in_the_id(axes):
    point = replace(next(Scenario.model_validate(yaml.safe_load(SMALL)).points()), axes=axes)
    name = folders.name_of(point)
    assert len(name) <= 120
    assert re.fullmatch(r"[a-zA-Z0-9.,+_=-]+", name)
    assert not name.startswith((".", "-"))
    assert point.id.startswith(name.rpartition("-")[2])
    assert folders.NAME.fullmatch(name)


def test_a_folder_of_an_earlier_version_is_refused(make):
    swept = make(seeds=[1])
    (swept.out / "0123456789ab").mkdir(parents=True)
    (swept.out / "0123456789ab" / "scenario.yaml").write_text("")
    with pytest.raises(UserError, match="was written by an earlier version"):
        swept.run(fake_runs.run, HERE, Listener())


def test_the_columns_of_the_axes_are_those_of_the_grid(make):
    make(seeds=[1]).run(fake_runs.run, HERE, Listener())
    swept = make("well", "stall", seeds=[1])
    swept.run(fake_runs.run, HERE, Listener())
    assert [(row["algorithm.do"], row["status"]) for row in table(swept.out)] == [
        ("well", "done"),
        ("stall", "stalled"),
    ]


@pytest.mark.parametrize("engine", [HERE, POOL], ids=["here", "pool"])
def test_a_failed_point_leaves_a_log_and_the_others_finish(make, tmp_path, engine):
    swept, listener = make("well", "fail", "stall"), Listener()
    rows = swept.run(fake_runs.run, engine, listener)
    assert [row["status"] for row in rows] == ["done", "failed", "stalled"]
    log = place_of(swept.out, swept.points[1]) / folders.ERROR
    assert "RuntimeError: the numbers do not add up" in log.read_text()
    assert "Traceback" in log.read_text()
    assert "RuntimeError: the numbers do not add up (tests/support/fake_runs.py, line 17)" in listener.messages
    assert names(log.parent) == [folders.ERROR]
    assert not [*swept.out.glob(".*")]
    assert [row["score"] for row in table(swept.out)] == ["0.0", "", "0.0"]


def test_a_failed_point_is_tried_again_and_its_log_goes(make):
    swept = make("fail")
    swept.run(fake_runs.run, HERE, Listener())

    def well(point, folder, data, progress):
        return fake_runs.run(make("well").points[0], folder, data, progress)

    [row] = swept.run(well, HERE, Listener())
    assert row["status"] == "done"
    assert not [*swept.out.rglob("*.log")]


@pytest.mark.long
@pytest.mark.parametrize(("do", "told"), DEATHS)
def test_a_worker_that_dies_twice_fails_its_point_only(make, do, told):
    swept, listener = make("well", do, "stall", seeds=[1, 2]), Listener()
    rows = swept.run(fake_runs.run, POOL, listener)
    assert [row["status"] for row in rows] == ["done"] * 2 + ["failed"] * 2 + ["stalled"] * 2
    assert sum(told in message and message.startswith("tried 2 times: ") for message in listener.messages) == 2
    assert not [*swept.out.glob(".*")]


@pytest.mark.parametrize("engine", [HERE, POOL], ids=["here", "pool"])
def test_a_mistake_before_any_point_has_finished_leaves_nothing(make, tmp_path, engine):
    swept = make("mistake", seeds=[1, 2, 3])
    with pytest.raises(ScenarioError) as caught:
        swept.run(fake_runs.run, engine, Listener())
    assert caught.value.problems[0].key == "clients.count"
    assert not (tmp_path / "runs").exists()


def test_a_mistake_after_a_point_has_finished_is_a_failure(make):
    swept, listener = make("well", "mistake"), Listener()
    assert [row["status"] for row in swept.run(fake_runs.run, HERE, listener)] == ["done", "failed"]
    assert listener.messages[1].startswith("clients.count: more clients than nodes (")


def test_ctrl_c_keeps_finished_points_and_the_same_call_continues(make, tmp_path):
    swept = make("well", "interrupt", "stall")
    with pytest.raises(KeyboardInterrupt):
        swept.run(fake_runs.run, HERE, Listener())
    assert names(swept.out) == ["points", "scenario.yaml", "summary.csv"]
    assert names(swept.out / "points") == [folders.name_of(swept.points[0])]
    assert [row["status"] for row in table(swept.out)] == ["done"]


def test_leftovers_of_a_killed_run_are_removed(make):
    swept = make(seeds=[1])
    (swept.out / ".partial-0123456789ab").mkdir(parents=True)
    (swept.out / ".partial-mine").mkdir()
    (swept.out / ".lock").write_text("999999999")
    swept.run(fake_runs.run, HERE, Listener())
    assert names(swept.out) == [".partial-mine", "points", "scenario.yaml", "summary.csv"]


def test_two_processes_cannot_write_one_folder(make):
    swept = make(seeds=[1])

    def nested(point, folder, data, progress):
        with pytest.raises(UserError, match=f"is being written by process {os.getpid()}; wait until it ends"):
            swept.run(fake_runs.run, HERE, Listener())
        return fake_runs.run(point, folder, data, progress)

    assert [row["status"] for row in swept.run(nested, HERE, Listener())] == ["done"]


def test_a_folder_that_cannot_be_written_is_reported(make, tmp_path):
    (tmp_path / "runs").write_text("a file where a folder should be")
    with pytest.raises(UserError, match=r"cannot be written .*; give another folder with --out"):
        make(seeds=[1]).run(fake_runs.run, HERE, Listener())


SLEEPER = """
    import signal, sys
    from pathlib import Path
    import fake_runs, yaml
    from fedsim.sweep.engines.local import Local
    from fedsim.scenario.schema import Scenario
    from fedsim.sweep.runner import Sweep
    from small_sweeps import Listener
    from scenario_texts import SMALL

    if __name__ == "__main__":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
        root = Path(sys.argv[1])
        axes = {"algorithm.do": ["well", "sleep"], "seed": [1, 2]}
        points = [*Scenario.model_validate(yaml.safe_load(SMALL) | {"grid": axes}).points()]
        try:
            with Local(2, "fake_runs") as engine:
                Sweep(points, SMALL, root / "runs", root).run(fake_runs.run, engine, Listener())
        except KeyboardInterrupt:
            sys.exit(130)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("sent", ["SIGINT", "SIGKILL"])
def test_workers_end_with_the_sweep(tmp_path, sent):
    script = tmp_path / "sleeper.py"
    script.write_text(textwrap.dedent(SLEEPER))
    tests = Path(__file__).resolve().parents[1]
    paths = os.pathsep.join(map(str, [tests / "support", tests.parent]))
    running = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while len([*tmp_path.glob("runs/.partial-*/half.written")]) < 2 or len(calls(tmp_path)) < 2:
        assert running.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    workers = {int(line.split()[1]) for line in (tmp_path / "calls").read_text().splitlines()}
    assert all(map(alive, workers))
    began = time.monotonic()
    # a terminal's Ctrl-C reaches them all
    os.killpg(running.pid, signal.SIGINT) if sent == "SIGINT" else running.kill()
    _, told = running.communicate(timeout=20)
    assert running.returncode == (130 if sent == "SIGINT" else -signal.SIGKILL)
    while any(map(alive, workers)):
        assert time.monotonic() - began < 10
        time.sleep(0.05)
    assert b"Traceback" not in told
    if sent == "SIGINT":
        assert not [*tmp_path.glob("runs/.*")]
