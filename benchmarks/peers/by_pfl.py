"""The work of a case under pfl-research: python by_pfl.py WORK ROUNDS FILE."""

import sys

import peer_nets
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel

work, rounds, file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
case = torch.load(work)
module = peer_nets.built(case)


class Judged(torch.nn.Module):
    """The module with the methods that pfl asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.net = module

    def loss(self, y, rows, *inputs, is_eval=False):
        """Return the loss of one client."""
        return peer_nets.loss_of(self.net, list(inputs), y, rows)

    @torch.no_grad()
    def metrics(self, *_):
        """Return nothing: nobody asks."""
        return {}


users = [
    Dataset(raw_data=[client["y"], client["rows"], *client["inputs"]], user_id=str(number))
    for number, client in enumerate(case["clients"])
]
data = FederatedDataset(lambda user: users[user], get_user_sampler("minimize_reuse", [*range(len(users))]))
judged = Judged()
model = PyTorchModel(judged, torch.optim.SGD, torch.optim.SGD(judged.parameters(), lr=1.0))
FederatedAveraging().run(
    algorithm_params=NNAlgorithmParams(
        central_num_iterations=rounds, evaluation_frequency=10**9, train_cohort_size=len(users), val_cohort_size=0
    ),
    backend=SimulatedBackend(training_data=data, val_data=data, postprocessors=[WeightByDatapoints()]),
    model=model,
    model_train_params=NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=case["lr"], local_batch_size=None
    ),
    callbacks=[],
    send_metrics_to_platform=False,
)
torch.save(module.state_dict(), file)
