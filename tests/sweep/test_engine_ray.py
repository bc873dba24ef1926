"""Points through a real Ray of this machine's own, and through a cluster that a second process finds by its address."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import fake_runs
import pytest
import yaml
from small_points import PLAIN
from small_sweeps import Listener, alive, names, swept, table, workers

from fedsim.core.errors import ScenarioError, UserError
from fedsim.point.results import folders, stale
from fedsim.sweep.engines import ray as ray_engine_module
from fedsim.sweep.engines.ray import Ray

pytestmark = pytest.mark.long

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install -e ".[ray]"')

TESTS = Path(__file__).resolve().parents[1]
PATHS = os.pathsep.join(map(str, [TESTS / "support", TESTS.parent]))
TWO = yaml.safe_dump({**PLAIN, "grid": {"algorithm": ["fedavg", "fed_ergnn"]}})


@pytest.fixture
def engine(ray_engine):
    return ray_engine


@pytest.fixture
def address(engine, tmp_path):
    """The address of the same Ray, for other processes."""
    (tmp_path / "first").mkdir()
    swept(tmp_path / "first", "well").run(fake_runs.run, engine, Listener())
    return ray.get_runtime_context().gcs_address


def test_every_point_is_run_once_by_another_process_and_kept_whole(tmp_path, engine):
    points, listener = swept(tmp_path, "well", "stall", seeds=[3, 1]), Listener()
    rows = points.run(fake_runs.run, engine, listener)
    called = [folders.name_of(point) for point in points.points]
    assert [row["run"] for row in rows] == called
    assert [row["status"] for row in rows] == ["done", "done", "stalled", "stalled"]
    assert names(points.out) == ["points", "scenario.yaml", "summary.csv"]
    wanted = sorted([*folders.FILES, stale.FILE, folders.SUMS])
    assert all(names(points.out / "points" / name) == wanted for name in called)
    assert len(workers(tmp_path)) == 4
    assert os.getpid() not in workers(tmp_path)


def test_points_tell_how_far_they_are(tmp_path, engine):
    class Hearer(Listener):
        def progressed(self, point, progress):
            super().progressed(point, progress)
            if progress.share == 0.5:
                (tmp_path / "heard").touch()

    listener = Hearer()
    sweep = swept(tmp_path, "wait")
    [row] = sweep.run(fake_runs.run, engine, listener)
    assert row["status"] == "done"
    assert listener.progress[-1] == (sweep.points[0].id, 0.5)


def test_a_worker_that_dies_twice_fails_its_point_only_and_ray_says_nothing(tmp_path, engine, capfd):
    listener = Listener()
    rows = swept(tmp_path, "well", "die", "once", "fail").run(fake_runs.run, engine, listener)
    assert [row["status"] for row in rows] == ["done", "failed", "done", "failed"]
    told = dict(zip([row["algorithm.do"] for row in listener.rows], listener.messages, strict=True))
    assert told["die"].startswith("tried 2 times: its worker process ended (WorkerCrashedError: ")
    again = [note for note in listener.notes if note.endswith("; it is tried once more, after all others")]
    assert len(again) == 2  # of those that die, and die once
    assert told["fail"].startswith("RuntimeError: the numbers do not add up (")
    assert not [*(tmp_path / "runs").glob(".*")]
    time.sleep(0.5)  # Ray tells from a thread of its own
    assert capfd.readouterr() == ("", "")


def test_a_mistake_before_any_point_has_finished_leaves_nothing(tmp_path, engine):
    with pytest.raises(ScenarioError):
        swept(tmp_path, "mistake", seeds=[1, 2]).run(fake_runs.run, engine, Listener())
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_leaving_early_cancels_the_others_and_the_engine_can_go_on(tmp_path, engine):
    class Impatient(Listener):
        def ended(self, point, row, message):
            wait_until(None, lambda: sleepers(tmp_path))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path, "well", "sleep").run(fake_runs.run, engine, Impatient())
    wait_until(None, lambda: not any(map(alive, sleepers(tmp_path))), seconds=15.0)  # else they would sleep for 60
    assert not [*(tmp_path / "runs").glob(".*")]
    rows = swept(tmp_path, "well", "stall").run(fake_runs.run, engine, Listener())
    assert [row["status"] for row in rows] == ["done", "stalled"]


def test_no_more_points_run_at_a_time_than_jobs(tmp_path, engine, monkeypatch):
    class Slow(Listener):
        def progressed(self, point, progress):
            if progress.share == 0.5 and not (tmp_path / "heard").exists():
                time.sleep(1.0)  # in which a second point would end
                (tmp_path / "heard").touch()

    engine._connected()  # with CPUs for two
    monkeypatch.setattr(engine, "jobs", 1)
    sweep = swept(tmp_path, "wait", "well")
    sweep.run(fake_runs.run, engine, Slow())
    order = [line.split()[0] for line in (tmp_path / "calls").read_text().splitlines()]
    assert order == [point.id for point in sweep.points]


def test_a_worker_that_cannot_load_the_points_is_reported(tmp_path, engine):
    def nowhere(point, folder, data, progress):
        raise AssertionError("never begun")

    nowhere.__module__, nowhere.__qualname__ = "fake_nowhere", "nowhere"
    module = type(sys)("fake_nowhere")
    module.nowhere = nowhere
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "fake_nowhere", module)
        with pytest.raises(UserError, match=r"a Ray worker could not start .*fake_nowhere.*: install this version"):
            swept(tmp_path, "well").run(nowhere, engine, Listener())


def test_a_cluster_that_does_not_answer_is_given_up_with_its_address(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_engine_module, "CONNECTED", 2.0)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        began = time.monotonic()
        with (
            pytest.raises(UserError, match=f"no Ray cluster at '{address}' .*no answer within 2 s"),
            Ray(address=address) as lost,
        ):
            swept(tmp_path, "well").run(fake_runs.run, lost, Listener())
        assert time.monotonic() - began < 20


SLEEPER = """
    import signal, sys
    from pathlib import Path
    import fake_runs
    from fedsim.sweep.engines.ray import Ray
    from small_sweeps import swept
    from small_sweeps import Listener

    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    try:
        with Ray() as engine:
            swept(Path(sys.argv[1]), "well", "sleep").run(fake_runs.run, engine, Listener())
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("sent", ["SIGINT", "SIGKILL"])
def test_the_points_of_a_cluster_end_with_the_sweep(tmp_path, address, sent):
    script, root = tmp_path / "sleeper.py", tmp_path / "second"
    root.mkdir()
    script.write_text(textwrap.dedent(SLEEPER))
    running = subprocess.Popen(
        [sys.executable, str(script), str(root)],
        env={**os.environ, "PYTHONPATH": PATHS, "RAY_ADDRESS": address},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    asleep = wait_until(running, lambda: sleepers(root))
    os.killpg(running.pid, signal.Signals[sent])
    told, _ = running.communicate(timeout=30)
    assert running.returncode == (130 if sent == "SIGINT" else -signal.SIGKILL), told.decode()
    assert told == b""
    wait_until(None, lambda: not any(map(alive, asleep)))
    if sent == "SIGINT":
        assert not [*root.glob("runs/.*")]


def sleepers(root):
    return [int(text) for path in root.glob("*.asleep") if (text := path.read_text())]


def wait_until(running, holds, seconds=60.0):
    until = time.monotonic() + seconds
    while not (found := holds()):
        assert running is None or running.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def command(folder, address):
    """Run small.yaml of the folder from the command line, and return what it shows."""
    done = subprocess.run(
        [sys.executable, "-m", "fedsim", "small.yaml", "--engine", "ray", "--ray-address", address, "--no-report",
         "--out", "out"],
        cwd=folder, env={**os.environ, "PYTHONPATH": PATHS}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_command_line_runs_points_on_the_cluster_that_it_is_given(tmp_path, address):
    (tmp_path / "small.yaml").write_text(TWO)
    shown = command(tmp_path, address)
    assert "ray" not in shown
    assert [row["status"] for row in table(tmp_path / "out")] == ["done", "done"]


def test_points_follow_wherever_their_leader_ran(tmp_path, address):
    grid = {"network.latency": ["100 ms", "400 ms", "1 s"], "seed": [0, 1]}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({**PLAIN, "grid": grid}))
    command(tmp_path, address)
    rows = table(tmp_path / "out")
    leaders = {row["seed"]: row["run"] for row in rows if not row["followed"]}
    assert len(leaders) == 2
    assert [row["followed"] for row in rows if row["followed"]] == [
        leaders[row["seed"]] for row in rows if row["followed"]
    ]
    assert len(rows) == 6
