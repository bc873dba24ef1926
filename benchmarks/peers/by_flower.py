"""The work of a case under Flower's simulation, with one actor: python by_flower.py WORK WARM ROUNDS FILE.

The actor imports this file, so that it reads the case once and a message carries nothing but weights.
"""

import os
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from peer_work import Meter, built, loss_of

client = ClientApp()


@cache
def given() -> tuple[dict[str, Any], torch.nn.Module]:
    """Return the case and its module, which stays in memory."""
    case = torch.load(os.environ["PEER_WORK"])
    return case, built(case)


@client.train()  # type: ignore[untyped-decorator]
def train(message: Message, context: Context) -> Message:
    """Take a step from the server's weights."""
    case, module = given()
    own = case["clients"][int(context.node_config["partition-id"])]
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.Adam(module.parameters(), lr=case["lr"])
    optimiser.zero_grad()
    loss_of(module, own).backward()
    optimiser.step()
    metrics = MetricRecord({"num-examples": len(own["y"])})
    found = RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": metrics})
    return Message(found, reply_to=message)


class Measured(FedAvg):  # type: ignore[misc]
    """FedAvg that tells the meter of every round."""

    def __init__(self, meter: Meter, clients: int) -> None:
        super().__init__(
            fraction_evaluate=0.0, min_train_nodes=clients, min_evaluate_nodes=0, min_available_nodes=clients
        )
        self.meter = meter

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average."""
        arrays, metrics = super().aggregate_train(server_round, replies)
        assert arrays is not None, "no client has answered"
        self.meter.after(server_round, arrays.to_torch_state_dict)
        return arrays, metrics


def main(work: str, warm: int, rounds: int, file: str) -> None:
    os.environ["PEER_WORK"] = work
    case, module = given()
    server = ServerApp()

    @server.main()  # type: ignore[untyped-decorator]
    def serve(grid: Grid, context: Context) -> None:
        strategy = Measured(Meter(warm, rounds, file), len(case["clients"]))
        strategy.start(grid, ArrayRecord(module.state_dict()), num_rounds=warm + rounds)

    run_simulation(
        server,
        client,
        num_supernodes=len(case["clients"]),
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 1, "include_dashboard": False, "logging_level": "error"},
        },
    )


if __name__ == "__main__":
    import by_flower  # so that what goes to the actor is named by this file and not sent

    by_flower.main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
