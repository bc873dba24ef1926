"""The work of a case under Flower's simulation, with one worker: python by_flower.py WORK ROUNDS FILE."""

import sys

import peer_nets
import torch
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation

work, rounds, file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
case = torch.load(work)
names = [*case["weights"]]


class Client(NumPyClient):
    """One client; a worker builds it anew in each round, as Flower has it."""

    def __init__(self, client) -> None:
        self.client = client

    def fit(self, parameters, config):
        """Take a step from these parameters."""
        module = peer_nets.built(case)
        given = zip(names, parameters, strict=True)
        module.load_state_dict({name: torch.from_numpy(value) for name, value in given})
        optimiser = torch.optim.SGD(module.parameters(), lr=case["lr"])
        peer_nets.loss_of(module, self.client["inputs"], self.client["y"], self.client["rows"]).backward()
        optimiser.step()
        return [value.numpy() for value in module.state_dict().values()], len(self.client["y"]), {}


class Kept(FedAvg):
    """FedAvg that writes what it has at the end."""

    def aggregate_fit(self, server_round, results, failures):
        """Average, and write the last round's weights."""
        found = super().aggregate_fit(server_round, results, failures)
        if server_round == rounds:
            values = parameters_to_ndarrays(found[0])
            torch.save({name: torch.tensor(value) for name, value in zip(names, values, strict=True)}, file)
        return found


def client_of(context: Context):
    """Return the client of a node."""
    return Client(case["clients"][int(context.node_config["partition-id"])]).to_client()


def server_of(context: Context) -> ServerAppComponents:
    """Return the server's strategy: everybody, no evaluation."""
    first = ndarrays_to_parameters([value.numpy() for value in case["weights"].values()])
    count = len(case["clients"])
    strategy = Kept(
        fraction_fit=1.0, fraction_evaluate=0.0, min_fit_clients=count, min_available_clients=count,
        initial_parameters=first,
    )  # fmt: skip
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))


run_simulation(
    server_app=ServerApp(server_fn=server_of),
    client_app=ClientApp(client_fn=client_of),
    num_supernodes=len(case["clients"]),
    backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1}},
)
