"""Whether the section `training` suits the model and the task: its optimiser, and batches of rows."""

from fedsim.core.errors import Problem, ScenarioError
from fedsim.point.build.parts import Parts
from fedsim.scenario.parts import find


def problems(parts: Parts) -> list[Problem]:
    """Return what does not suit; nothing where the point learns nothing."""
    scenario, training = parts.scenario, parts.scenario.training
    if training is None or scenario.model is None or not parts.algorithm.learns:
        return []
    from fedsim.learn.task import Task  # which loads torch
    from fedsim.point.build.training import optimiser

    try:
        optimiser(training)
    except ScenarioError as error:
        return [*error.problems]
    if training.batch is None:
        return []
    if not find.build("model", scenario.model).is_module:
        message = f"{scenario.model.name!r} trains a whole cohort on all its rows at once: leave batch out, or take a "
        return [Problem("training.batch", f"{message}torch module as the model")]
    if type(find.build("task", scenario.task)).examples is not Task.examples:
        message = f"{scenario.task.name!r} does not learn from rows one by one: leave batch out"
        return [Problem("training.batch", message)]
    return []
