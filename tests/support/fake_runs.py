"""Stand-ins for fedsim.point.run.run for worker processes; the algorithm's option `do` says what happens."""

import os
import signal
import time

from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.progress import Progress
from fedsim.point.results.folders import FILES


def run(point, folder, data, progress):
    do = str(point.scenario.algorithm.options.get("do", "well"))
    (folder / "half.written").write_text("x")
    progress(Progress(1.0, 0.5, 0.25, 1))
    if do == "fail":
        raise RuntimeError("the numbers do not add up")
    if do == "mistake":
        raise ScenarioError([Problem("clients.count", "more clients than nodes")])
    if do == "die":
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    if do == "exit":
        os._exit(3)
    if do == "once" and not (data / f"{point.id}.died").exists():
        (data / f"{point.id}.died").touch()
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    if do == "wait":
        wait_for(data / "heard")
    if do == "sleep":
        (data / f"{point.id}.asleep").write_text(str(os.getpid()))
        time.sleep(60)
    if do == "interrupt":
        raise KeyboardInterrupt
    (folder / "half.written").unlink()
    for name in FILES:
        if name != "row.json":
            (folder / name).write_text(point.id)
    with (data / "calls").open("a") as file:
        file.write(f"{point.id} {os.getpid()}\n")
    return {
        "status": "stalled" if do == "stall" else "done",
        "score": point.scenario.seed / 10,
        "updates": 3,
        "fm": None,
        "target": float("nan"),
    }


def wait_for(path):
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
