"""Check whether the data of points can be used: before any worker starts, each data section is made once.

Every distinct section `data` is loaded, divided and cut into periods as a run does it, with the seed of the first point
that has it, and the tasks, algorithms and splits that go with it are asked whether they can use it.  What this process
will need itself is kept (`prepared`).

Not checked: what other seeds draw, such as a client that is left without vertices.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from fedsim.core import logbook
from fedsim.core.errors import Problem, ScenarioError, UserError
from fedsim.point.parts import Parts
from fedsim.scenario import combinations
from fedsim.scenario.schema import Point, Scenario
from fedsim.scenario.yaml_file import Document

USES = ("data", "clients", "model", "task", "algorithm", "measure")  # what asks something of the data


def hold(chosen: Sequence[Point], document: Document, root: Path, keep: bool = False) -> list[str]:
    """Raise UserError, naming the file and lines, unless the data of these points can be used; return what to note.

    `root` is the folder of data sets.  With `keep` the data made last stay in memory for the points of this process.
    """
    try:
        found, notes = looked(chosen, root, keep)
        if found:
            raise document.error(found)
        return notes
    finally:
        if not keep:
            _forget()


def looked(chosen: Sequence[Point], root: Path, keep: bool = False) -> tuple[list[Problem], list[str]]:
    """Return the problems of the points' data, and what is worth a note, each once.

    Raises UserError if a data set cannot be loaded at all.
    """
    found: dict[Problem, None] = {}
    notes: dict[str, None] = {}
    seen = set[str]()
    for point in chosen:
        plain, scenario = point.scenario.plain(), point.scenario
        more = [scenario.protocol.name, [part.model_dump() for part in scenario.network.effects]]
        key = json.dumps([*(plain.get(name) for name in USES), more], sort_keys=True, default=str)
        if key in seen:
            continue
        seen.add(key)
        try:
            with logbook.set_aside():  # what is worth a message goes into the log of each point
                if note := _look(scenario, root, keep):
                    notes[note] = None
        except ScenarioError as error:
            for problem in error.problems:
                found.setdefault(Problem(combinations.blame(problem.key, point.places), problem.message))
        except UserError:
            raise
        except Exception:  # a fault of a part's code: the point fails by it, and its log has the traceback
            continue
    return [*found], [*notes]


def _look(scenario: Scenario, root: Path, keep: bool) -> str:
    """Raise UserError unless a run could begin on these data; return a note, "" without any.

    What is not kept takes none of a GPU's memory.
    """
    parts = Parts(scenario)
    if not parts.algorithm.learns or scenario.data is None:
        return ""
    from fedsim.point import learning
    from fedsim.point.assemble import check_groups

    learning.choose_device(scenario.device)
    if not keep:
        parts = Parts(scenario.model_copy(update={"device": "cpu"}))
    lesson = learning.prepare(parts, root)
    lesson.check(scenario)
    lesson.algorithm.start()
    check_groups(parts, lesson.held)
    if lesson.task.classes == 1 and scenario.task.name == "node_classification":
        return (
            f"data.dataset: {scenario.data.dataset.name!r} has a single class, so every model is right about all of it"
        )
    return ""


def _forget() -> None:
    import sys

    if prepared := sys.modules.get("fedsim.point.prepared"):  # not there where nothing is learned
        prepared.periods_of.cache_clear()
