"""A stand-in for fedsim.point.run.run for worker processes: what a point scores is a formula of its options.

Files in the folder of the data say what else happens: `fail` (above which mu a point fails), `stop` (how many points
are run before Ctrl-C).  Each call is noted in `calls`.
"""

import math
import time

from fedsim.point.results.folders import FILES

LR = 0.005  # that of the scenario of the tests, and the best


def run(point, folder, data, progress):
    calls = data / "calls"
    done = calls.read_text().split() if calls.exists() else []
    if (data / "stop").exists() and len(done) >= int((data / "stop").read_text()):
        raise KeyboardInterrupt
    with calls.open("a") as file:
        file.write(f"{point.id}\n")
    options = point.scenario.algorithm.options
    mu = float(options.get("mu", 0.01))
    if (data / "fail").exists() and mu > float((data / "fail").read_text()):
        raise RuntimeError("the numbers do not add up")
    time.sleep(int(point.id[0], 16) / 1000)  # so that workers end in another order than they began
    for name in FILES:
        if name != "row.json":
            (folder / name).write_text(point.id)
    bend = math.log10(mu) + 3 + float(options.get("lambda_loss", 0)) / 1e5
    bend += float(options.get("threshold", 0)) / 1e5 + 10 * abs(point.scenario.training.lr - LR)
    return {"am": 1 / (1 + bend**2) - point.scenario.seed / 100}
