"""`--status`: how far the runs of a scenario are, by its folder of results alone; nothing is run or written.

A run is `done`; `failed`, with its error.log; `begun`: it is under way, or was interrupted and goes on from
its checkpoint; `outdated`: done, but from sources that have changed since, so that it would be repeated; or
`to do`.

Not covered: how much of a run that is under way has passed, which its own process shows; runs of other
forms of the scenario in the same folder; runs that a deployment has measured.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from fedsim.core.whole_files import reported
from fedsim.point.results.folders import ERROR, PARTIAL, finished, places, writer
from fedsim.scenario.schema import Point
from fedsim.sweep.runner import Sweep

STATES = ("done", "failed", "begun", "outdated", "to do")


def status(sweep: Sweep) -> dict[str, Any]:
    """Return the folder, the process that writes into it (None without one), and each run's state and place.

    Raises UserError if the folder cannot be read.
    """
    with reported(sweep.out):
        where = places(sweep.out, sweep.points)
        done, _ = sweep.standing(where)

    def state(point: Point) -> str:
        if point.id in done:
            return "done"
        if (sweep.out / f"{PARTIAL}{point.id}").is_dir():
            return "begun"
        if (where[point.id] / ERROR).is_file():
            return "failed"
        return "outdated" if finished(where[point.id]) else "to do"

    runs = [{"run": where[point.id].name, "axes": point.axes, "state": state(point)} for point in sweep.points]
    return {"folder": str(sweep.out), "writer": writer(sweep.out), "runs": runs}


def lines(found: dict[str, Any], every: bool) -> Iterator[str]:
    """Yield how many runs are in which state, who writes, and the failed runs, or every one."""
    counts = Counter(run["state"] for run in found["runs"])
    yield f"{found['folder']}: {len(found['runs'])} runs, " + ", ".join(f"{counts[s]} {s}" for s in STATES if counts[s])
    if found["writer"]:
        yield f"process {found['writer']} is running them"
    for run in found["runs"]:
        if every or run["state"] == "failed":
            yield f"{run['state']:<8}  {run['run']}"
