"""What a run is built with where its model is a module: the module itself, its trainer, and its buffers."""

from collections.abc import Callable, Sequence
from functools import partial

from fedsim.core.errors import ScenarioError, UserError
from fedsim.data.graph import EDGE_KEYS, Graph, Period
from fedsim.learn.algorithm import Algorithm, title_of
from fedsim.learn.engine.training import Trainer
from fedsim.learn.modules import buffers
from fedsim.learn.modules.batches import Batches
from fedsim.learn.modules.module_model import ModuleModel
from fedsim.learn.modules.resident import Resident
from fedsim.learn.modules.trainer import ModuleTrainer
from fedsim.learn.task import Task
from fedsim.scenario.learning import Privacy, Training


def module(
    algorithm: Algorithm,
    task: Task,
    periods: Sequence[Sequence[Period]],
    privacy: Privacy,
    training: Training | None = None,
) -> tuple[Algorithm, Callable[..., Trainer]]:
    """Return the algorithm with the module's buffers, and what makes its trainer, in batches if `training` says so.

    The module is built and tried on the first graph that has a row.  With privacy averaged buffers are refused, since
    no mechanism protects them.  Raises ScenarioError where the module does not fit.
    """
    model = getattr(task.model, "one", task.model)  # an ensemble's members are of one model
    assert isinstance(model, ModuleModel)
    graphs = (period.graph for client in periods for period in client)
    sample = next((graph for graph in graphs if len(graph["y"])), None)
    if sample is None:
        raise ScenarioError.at("data", "no client has a row, so that the module cannot be tried")
    try:
        model.settle(task.features, task.outputs, task.seed, sample)
        if "vectors" in algorithm.needs and (what := _no_vectors(model.resident, sample)):
            message = f"{title_of(type(algorithm))} makes or changes rows of its own, which are plain vectors: {what}"
            raise ScenarioError.at("algorithm", message)
        if "embed" in algorithm.needs:
            model.resident.measure_embedding()
    except ScenarioError:
        raise
    except UserError as error:
        raise ScenarioError.at("model", str(error)) from error
    resident = model.resident
    if resident.buffers and model.buffers == "refuse":
        message = (
            f"{resident.name} has buffers ({', '.join(resident.buffers)}); write buffers: average or buffers: local"
        )
        raise ScenarioError.at("model.buffers", message)
    if resident.buffers and model.buffers == "average" and (privacy.clip is not None or privacy.secure_aggregation.on):
        message = f"the buffers of {resident.name} would be averaged, and nothing protects them; write buffers: local"
        raise ScenarioError.at("model.buffers", message)
    if resident.buffers:
        policy = model.buffers if algorithm.talks else "local"
        if message := buffers.unfit(algorithm, policy):
            raise ScenarioError.at("model.buffers", message)
        algorithm = buffers.carried(algorithm, policy)
    trainer_of = partial(ModuleTrainer, resident=resident)
    if training is not None and training.batch is not None:
        trainer_of = partial(trainer_of, step_data=Batches(training.batch, training.neighbours or ()))
    return algorithm, trainer_of


def _no_vectors(resident: Resident, sample: Graph) -> str:
    """Return what of these data or of the module is more than vectors, "" without any."""
    if sample["x"].dim() != 2:
        return f"take data whose rows are vectors, not {tuple(sample['x'].shape[1:])}"
    more = [name for name in EDGE_KEYS if name in sample and name in resident.takes]
    return f"take a module without {more[0]!r}" if more else ""
