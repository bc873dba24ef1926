"""What engines have in common, and what the local one keeps between two calls."""

import os
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import fake_runs
import pytest
from scenario_texts import SMALL
from small_sweeps import Listener, alive, names, swept, workers

from fedsim import __main__ as command_line
from fedsim.core.errors import UserError
from fedsim.point.attempt import attempt
from fedsim.point.results.folders import LOCK
from fedsim.sweep import arguments
from fedsim.sweep.engines import choose, queue
from fedsim.sweep.engines.local import Local
from fedsim.sweep.engines.queue import Died, Queue
from fedsim.sweep.engines.ray import Ray

pytestmark = pytest.mark.long


@pytest.fixture
def pool():
    with Local(2, prepare="fake_runs") as engine:
        yield engine


def test_workers_stay_for_the_next_points_and_end_with_the_engine(tmp_path, pool):
    swept(tmp_path, "well", seeds=[1, 2, 3]).run(fake_runs.run, pool, Listener())
    first = set(workers(tmp_path))
    swept(tmp_path, "well", "stall", seeds=[4, 5]).run(fake_runs.run, pool, Listener())
    assert len(workers(tmp_path)) == 7
    assert len(first | set(workers(tmp_path))) <= 2
    assert os.getpid() not in first
    pool.close()
    assert not any(map(alive, workers(tmp_path)))


def test_no_more_workers_are_started_than_there_are_points(tmp_path):
    with Local(8, prepare="fake_runs") as pool:
        swept(tmp_path, "well").run(fake_runs.run, pool, Listener())
        assert len(pool._workers) == 1


def test_a_worker_that_dies_between_two_calls_costs_nothing(tmp_path, pool):
    swept(tmp_path, "well").run(fake_runs.run, pool, Listener())
    [idle] = workers(tmp_path)
    os.kill(idle, getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has only the latter
    until = time.monotonic() + 10
    while alive(idle):
        assert time.monotonic() < until
        time.sleep(0.02)
    rows = swept(tmp_path, "well", "stall").run(fake_runs.run, pool, Listener())
    assert [row["status"] for row in rows] == ["done", "stalled"]
    assert idle not in workers(tmp_path)[1:]


def test_leaving_early_ends_those_at_work_and_the_engine_can_go_on(tmp_path, pool):
    class Impatient(Listener):
        def ended(self, point, row, message):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path, "well", "sleep").run(fake_runs.run, pool, Impatient())
    assert not any(worker.point for worker in pool._workers)
    assert len(names(tmp_path / "runs")) == 3
    rows = swept(tmp_path, "well", "stall").run(fake_runs.run, pool, Listener())
    assert [row["status"] for row in rows] == ["done", "stalled"]
    assert len(workers(tmp_path)) == 2


def test_a_point_whose_worker_died_once_is_run_again(tmp_path, pool):
    listener = Listener()
    sweep = swept(tmp_path, "once", "well")
    rows = sweep.run(fake_runs.run, pool, listener)
    assert [row["status"] for row in rows] == ["done", "done"]
    assert listener.messages == ["", ""]
    assert len([*tmp_path.glob("*.died")]) == 1
    [told] = [note for note in listener.notes if "tried once more" in note]
    assert told.startswith(f"{sweep.points[0].id}: its worker process ")


def test_a_point_waits_again_after_all_others_and_twice_is_enough(tmp_path):
    first, second = swept(tmp_path, "well", seeds=[1, 2]).points
    line = Queue([first, second])
    assert line.next() is first
    assert line.ended(first, Died("it fell")) == []
    assert line.next() is second
    assert line.ended(second, None) == [(second, None)]
    assert line.next() is first
    assert line.ended(first, Died("it fell again")) == [(first, Died("tried 2 times: it fell again"))]
    assert not line
    assert queue.TRIES == 2


def test_a_machine_that_does_not_share_the_folder_is_reported(tmp_path):
    [point] = swept(tmp_path, "well").points
    (tmp_path / "runs").mkdir()
    outcome = attempt(fake_runs.run, tmp_path / "runs", tmp_path, None, {}, point, lambda progress: None)
    assert "must share it under the same path" in str(outcome.mistake)
    (tmp_path / "runs" / LOCK).touch()
    assert (
        attempt(fake_runs.run, tmp_path / "runs", tmp_path, None, {}, point, lambda progress: None).row["updates"] == 3
    )


# ---- the flags


def test_the_engine_is_the_one_named_with_what_the_flags_say():
    def chosen(*flags, runs=None):
        return choose.choose(arguments.parser().parse_args(flags), runs)

    assert chosen("--jobs", "3") == Local(3)
    assert chosen("--jobs", "3", runs=2) == Local(2)
    assert chosen(runs=0) == Local(1)
    assert chosen("--engine", "ray", "--jobs", "3", "--gpus-per-run", "0.25", "--ray-address", "auto", runs=2) == (
        Ray(3, "auto", 0.25)
    )
    assert chosen("--engine", "ray") == Ray()


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)

    def call(*flags):
        try:
            code = command_line.main(["small.yaml", *flags])
        except SystemExit as left:
            code = left.code
        assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]
        return code, capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--gpus-per-run", "0.25"], "fedsim: --gpus-per-run: local workers share the GPUs"),
        (["--ray-address", "auto"], "fedsim: --ray-address has no effect with the local engine"),
        (["--tune", "2", "--gpus-per-run", "1"], "fedsim: --gpus-per-run: local workers share the GPUs"),
        (["--engine", "ray", "--gpus-per-run", "1.5"], "'1.5' is neither a fraction of a GPU"),
        (["--engine", "ray", "--gpus-per-run", "0"], "'0' is neither a fraction of a GPU"),
        (["--engine", "ray", "--gpus-per-run", "all"], "'all' is neither a fraction of a GPU"),
    ],
)
def test_a_flag_that_makes_no_sense_is_one_sentence(call, flags, message):
    code, err = call(*flags)
    assert code == 2
    assert message in err


@pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed: pip install -e ".[ray]"')
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:9", "fedsim: there is no Ray cluster at '127.0.0.1:9' (ConnectionRefusedError: "),
        (
            "ray://here:9",
            "'ray://here:9' (ValueError: Ray's client mode (ray://) is not supported; give HOST:PORT of the cluster's",
        ),
    ],
)
def test_a_cluster_that_is_not_there_is_reported_at_once(call, address, message):
    code, err = call("--engine", "ray", "--ray-address", address)
    assert code == 2
    assert message in err


def test_without_ray_one_sentence_says_what_to_install(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, err = call("--engine", "ray")
    assert code == 2
    assert err.startswith("fedsim: --engine ray needs Ray, which is not installed: pip install ")
    assert len(err.splitlines()) == 1


def test_more_of_a_gpu_than_there_is_is_refused():
    left = []
    ray = SimpleNamespace(cluster_resources=lambda: {"CPU": 4.0, "GPU": 1.0}, shutdown=lambda: left.append(True))
    Ray(gpus=0.5)._refuse_gpus(ray)
    assert not left
    with pytest.raises(UserError, match="Ray has 1 GPUs, and each run asks for 2: give a smaller --gpus-per-run"):
        Ray(gpus=2.0)._refuse_gpus(ray)
    assert left


def test_every_engine_of_the_command_line_has_a_file():
    folder = Path(choose.__file__).parent
    action = next(action for action in arguments.parser()._actions if action.dest == "engine")
    assert len(action.choices) == 2
    assert all((folder / f"{name}.py").is_file() for name in action.choices)
