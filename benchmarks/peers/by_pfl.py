"""The work of a case under pfl-research, in one process: python by_pfl.py WORK WARM ROUNDS FILE."""

import sys
from typing import Any

import torch
from peer_work import Meter, Weights, built, loss_of
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel


class Judged(torch.nn.Module):
    """A module with the methods that pfl asks for."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.net = module

    def loss(self, y: torch.Tensor, rows: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the loss of one client."""
        return loss_of(self.net, {"inputs": inputs, "y": y, "rows": rows})

    def metrics(self, *_: Any) -> dict[str, Any]:
        """Return nothing: nobody asks."""
        return {}


class Measured(TrainingProcessCallback):  # type: ignore[misc]
    """Tells the meter of every round."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Return that the training goes on, and no metrics."""
        self.meter.after(central_iteration + 1, lambda: weights_of(model))
        return False, Metrics()


def weights_of(model: PyTorchModel) -> Weights:
    """Return the weights of the module within."""
    state: Weights = model.pytorch_model.net.state_dict()
    return state


def main(work: str, warm: int, rounds: int, file: str) -> None:
    case = torch.load(work)
    users = [
        Dataset(raw_data=[client["y"], client["rows"], *client["inputs"]], user_id=str(number))
        for number, client in enumerate(case["clients"])
    ]
    data = FederatedDataset(users.__getitem__, get_user_sampler("minimize_reuse", [*range(len(users))]))
    judged = Judged(built(case))
    params = NNAlgorithmParams(
        central_num_iterations=warm + rounds,
        evaluation_frequency=10**9,
        train_cohort_size=len(users),
        val_cohort_size=0,
    )
    FederatedAveraging().run(
        algorithm_params=params,
        backend=SimulatedBackend(training_data=data, val_data=data, postprocessors=[WeightByDatapoints()]),
        model=PyTorchModel(judged, torch.optim.Adam, torch.optim.SGD(judged.parameters(), lr=1.0)),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=case["lr"], local_batch_size=None
        ),
        callbacks=[Measured(Meter(warm, rounds, file))],
        send_metrics_to_platform=False,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
