"""What trains the clients: the trainer and the optimiser that a scenario's section `training` and its model ask for.

Whole cohorts are trained at once, but for a model that is a torch module and an optimiser of torch's own, which know
of one client at a time.
"""

from collections.abc import Callable, Sequence

from fedsim.core.errors import ScenarioError, UserError
from fedsim.data.graph import Period
from fedsim.learn.algorithm import Algorithm
from fedsim.learn.engine.one_by_one import OneByOne
from fedsim.learn.engine.optimiser import Optimiser, build
from fedsim.learn.engine.training import Trainer
from fedsim.learn.task import Task
from fedsim.point.build.parts import Parts
from fedsim.scenario.learning import Training


def composed(
    parts: Parts, algorithm: Algorithm, task: Task, periods: Sequence[Sequence[Period]]
) -> tuple[Algorithm, Trainer]:
    """Return the algorithm, with what a module's buffers need, and its trainer.

    Raises ScenarioError where the model or the optimiser cannot be used.
    """
    scenario, training = parts.scenario, parts.scenario.training
    assert training is not None
    trainer_of: Callable[..., Trainer] = OneByOne if training.optimiser.of_torch else Trainer
    if task.model.is_module:
        from fedsim.learn.modules import compose

        algorithm, trainer_of = compose.module(algorithm, task, periods, scenario.privacy, training)
    trainer = trainer_of(
        optimiser(training), training.local_steps, keep_state=training.keep_state, budget=scenario.cohort.memory,
        clip=training.clip, schedule=training.schedule, reports=parts.sampler.reports,
        step_bytes=None if type(task).step_bytes is Task.step_bytes else task.step_bytes,
    )  # fmt: skip
    return algorithm, trainer


def optimiser(training: Training) -> Optimiser:
    """Return the clients' optimiser.  Raises ScenarioError for a class of torch.optim that cannot be one."""
    chosen = training.optimiser
    if not chosen.of_torch:
        return build(chosen.name, training.lr, training.weight_decay, training.momentum)
    from fedsim.learn.engine.torch_optimiser import torch_optimiser

    try:
        return torch_optimiser(chosen.name, training.lr, training.weight_decay, chosen.options)
    except UserError as error:
        option, colon, message = str(error).partition(": ")
        of_option = colon and option in chosen.options
        key = f"training.optimiser.{option}" if of_option else "training.optimiser"
        raise ScenarioError.at(key, message if of_option else str(error)) from None
