"""Whether the task and the model of a point suit its data, told by the graph of one client."""

from fedsim.core.errors import ScenarioError
from fedsim.data.graph import EDGE_KEYS, Graph
from fedsim.learn.model import Model
from fedsim.scenario.parts import find
from fedsim.scenario.schema import Scenario


def task(scenario: Scenario, graph: Graph, classes: int) -> None:
    """Raise ScenarioError, with a remedy, unless the task can learn from such data."""
    assert scenario.data is not None
    name, judges, real = scenario.task.name, find.build("task", scenario.task).judges, "real" in graph
    if "classes" in judges and real:
        why = f"has real targets, and {name!r} learns classes; write task: regression, or make y classes"
    elif "classes" in judges and not classes:
        why = "has no labels to learn; take a data set with labels, or another task"
    elif "values" in judges and not real:
        why = f"has classes, and {name!r} learns real targets; write targets: real for data of your own"
    else:
        return
    raise ScenarioError.at("data.dataset", f"{scenario.data.dataset.name!r} {why}")


def model(name: str, built: Model, graph: Graph) -> None:
    """Raise ScenarioError, with a remedy, unless the model reads all of such a graph."""
    unread = [key for key in EDGE_KEYS if key in graph and key not in built.reads]
    if graph["x"].ndim > 2 and not built.is_module:
        shape = tuple(graph["x"].shape[1:])
        why = f"takes rows of numbers, and these have the shape {shape}; take a torch module"
    elif unread:
        leave_out = f"leave it out of the data: ignore: [{', '.join(unread)}]"
        why = f"does not read {unread[0]!r} of edges; take a torch module, or {leave_out}"
    else:
        return
    raise ScenarioError.at("model", f"{name!r} {why}")
