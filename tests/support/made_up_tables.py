"""Small made-up tables of a reference study: courses are given, the cells follow from them."""

from collections.abc import Mapping, Sequence

import pandas as pd

from fedsim.reference.plan import Plan
from fedsim.reference.results import Results

UNTRAINED = (0.0, 0.0, 0.1)  # seconds, bytes, score

Course = Sequence[tuple[float, float, float]]


def tables(runs: Mapping[str, Course], failed: Sequence[str] = ()) -> Results:
    """The tables of these runs, named "campus/digits/static/power/sync/given/3"; a course begins after UNTRAINED."""
    cells, courses = [], []
    for cell, course in runs.items():
        whole = [UNTRAINED, *course]
        seconds, moved, score = whole[-1]
        cells.append(_row(cell, "done", seconds, moved, score, len(course)))
        courses += [(cell, *scoring) for scoring in whole]
    cells += [_row(cell, "failed", float("nan"), float("nan"), float("nan"), 0) for cell in failed]
    return Results(pd.DataFrame(cells), pd.DataFrame(courses, columns=["cell", "seconds", "bytes", "score"]))


def _row(cell, status, seconds, moved, score, updates):
    names = ("deployment", "data", "task", "method", "protocol", "links", "seed")
    place = dict(zip(names, cell.split("/"), strict=True))
    rest = {"run": "p", "stamp": "s", "seconds": seconds, "bytes": moved, "updates": updates, "score": score}
    return {"cell": cell, **place, "seed": int(place["seed"]), "status": status, **rest, "real_seconds": 1.0}


def seeds(place: str, finals: Sequence[float], moved: float = 100.0, seconds: float = 100.0) -> dict[str, Course]:
    """Runs of one contender, a seed for each final score, which is scored once, at the end."""
    return {f"{place}/{seed}": [(seconds, moved, score)] for seed, score in enumerate(finals)}


def plan(*settings: str, **options: object) -> Plan:
    """A plan of these settings, each with 1 MB and 50 s, and of no method."""
    parts = [setting.split("/") for setting in settings]
    return Plan.model_validate(
        {
            "seeds": [0, 1, 2, 3, 4],
            "trials": {"seeds": [9], "count": 3, "share": 0.5, "lr": [0.001, 0.1]},
            "data": {data: {} for _, data, _ in parts},
            "tasks": {task: {} for _, _, task in parts},
            "deployments": {deployment: {"protocols": {}} for deployment, _, _ in parts},
            "methods": {},
            "settings": [
                {
                    "deployment": deployment,
                    "data": data,
                    "tasks": [task],
                    "protocols": [],
                    "bytes": "1 MB",
                    "time": "50 s",
                }
                for deployment, data, task in parts
            ],
            **options,
        }
    )
