"""The work of a case under FLGo, in one process: python by_flgo.py WORK WARM ROUNDS FILE.

FLGo reads a task from a folder and looks its pipe and calculator up in a module `core` of a benchmark; here
this script is that module.  A client's data are one batch, so that no loader puts rows together.
"""

import json
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import flgo
import torch
from flgo.algorithm import fedavg
from flgo.benchmark.base import BasicTaskCalculator, BasicTaskPipe
from peer_work import Meter, Weights, built, loss_of

BENCHMARK = "peer_task"
case: dict[str, Any] = {}  # set by `main`; FLGo gives its hooks no argument for it
meters: list[Meter] = []


class Rows:
    """A client's data."""

    def __init__(self, client: dict[str, Any]) -> None:
        self.client = client

    def __len__(self) -> int:
        return len(self.client["y"])


class TaskPipe(BasicTaskPipe):  # type: ignore[misc]
    """Deals the data to clients."""

    def load_data(self, running_time_option: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return what each party has, by its name."""
        found: dict[str, dict[str, Any]] = {"server": {"test": None, "val": None}}
        for name, client in zip(self.feddata["client_names"], case["clients"], strict=True):
            found[name] = {"train": Rows(client), "val": None, "test": None}
        return found


class TaskCalculator(BasicTaskCalculator):  # type: ignore[misc]
    """Computes the loss."""

    def get_dataloader(self, dataset: Rows, *_: Any, **__: Any) -> list[dict[str, Any]]:
        """Return the batches: one."""
        return [dataset.client]

    def compute_loss(self, model: torch.nn.Module, data: dict[str, Any], *_: Any) -> dict[str, torch.Tensor]:
        """Return the loss of one client."""
        return {"loss": loss_of(model, data)}


class Server(fedavg.Server):  # type: ignore[misc]
    """FedAvg's server, which tells the meter of every round."""

    def iterate(self) -> Any:
        """Make a round."""
        updated = super().iterate()
        meters[0].after(self.current_round, self.weights)
        return updated

    def weights(self) -> Weights:
        """Return the weights of the module within."""
        state: Weights = self.model.model.state_dict()
        return state


class Algorithm:
    """What FLGo asks an algorithm's module for."""

    Server, Client = Server, fedavg.Client


def main(work: str, warm: int, rounds: int, file: str) -> None:
    case.update(torch.load(work))
    meters.append(Meter(warm, rounds, file))
    sys.modules[BENCHMARK] = types.ModuleType(BENCHMARK)
    sys.modules[f"{BENCHMARK}.core"] = sys.modules[__name__]
    option = {
        "num_rounds": warm + rounds, "num_steps": 1, "batch_size": -1, "optimizer": "Adam",
        "learning_rate": case["lr"], "proportion": 1.0, "sample": "full", "aggregate": "other",
        "train_holdout": 0.0, "eval_interval": -1, "no_log_console": True, "log_level": "ERROR",
    }  # fmt: skip
    sys.argv = sys.argv[:1]  # FLGo reads it too
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task"
        (task / "record").mkdir(parents=True)
        (task / "log").mkdir()
        names = [f"Client{number}" for number in range(len(case["clients"]))]
        (task / "info").write_text(json.dumps({"benchmark": BENCHMARK, "scene": "horizontal"}))
        (task / "data.json").write_text(json.dumps({"client_names": names}))
        model = flgo.convert_model(lambda: built(case), "net")
        flgo.init(str(task), algorithm=Algorithm, option=option, model=model).run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
