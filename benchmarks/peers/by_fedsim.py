"""The work of a case, in fedsim: make it, run it, and check what others have learned against a loop by hand.

    python by_fedsim.py make CASE FILE           write each client's tensors and the first weights
    python by_fedsim.py run CASE ROUNDS FILE     whole rounds through clock, network and records; write the weights
    python by_fedsim.py loop WORK ROUNDS FILE    the same by hand, nothing else
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu import islands, scenario
from rounds import next_round

from fedsim.core.record import Recorder
from fedsim.point.build.assemble import Built, build
from fedsim.scenario.schema import Scenario

CLIENTS, RATE = 100, 0.1
CASES: dict[str, Any] = {
    "gcn": "peer_nets.GCN",
    "cnn": "peer_nets.Convolutions",
    "stacked gcn": {"name": "gcn", "hidden": 64, "dropout": 0},
}


def assembled(case: str, folder: Path) -> Built:
    """Return the run of a case."""
    split = {"train": 0.5, "val": 0.2, "test": 0.3}
    images = {"dataset": "digit_images", "partition": "random", "split": split}
    data = images if case == "cnn" else islands(folder, CLIENTS)
    training = {"optimiser": "sgd", "lr": RATE}
    asked = scenario(CLIENTS, data, model=CASES[case], training=training)
    return build(Scenario.model_validate(asked), Path(), Recorder())


def make(case: str, file: Path, folder: Path) -> None:
    """Write the case's clients and first weights."""
    import torch

    built = assembled(case, folder)
    weights = built.world.server.state.value["model"]
    next_round(built.world)  # until then clients have no data
    clients = []
    for number in range(CLIENTS):
        graph = built.learner.clients[number].data
        assert graph is not None
        inputs = [graph["x"]] if case == "cnn" else [graph["x"], graph["edges"]]
        rows = graph["train"].nonzero().squeeze(1)
        clients.append({"inputs": inputs, "y": graph["y"], "rows": rows})
    classes = int(max(client["y"].max() for client in clients)) + 1
    sizes = (clients[0]["inputs"][0].shape[1], classes)
    module = CASES[case].rpartition(".")[2]
    first = {name: value.clone() for name, value in weights.items()}
    torch.save({"module": module, "sizes": sizes, "weights": first, "clients": clients, "lr": RATE}, file)


def run(case: str, rounds: int, file: Path, folder: Path) -> None:
    """Run so many rounds and write the weights."""
    import torch

    built = assembled(case, folder)
    for _ in range(rounds):
        next_round(built.world)
    model = built.world.server.state.value["model"]
    torch.save(model if case in ("gcn", "cnn") else {}, file)


def loop(work: Path, rounds: int, file: Path) -> None:
    """Train the clients by hand from one resident module, and write the mean weights."""
    import peer_nets
    import torch

    case = torch.load(work)
    module = peer_nets.built(case)
    owned, state = [*module.parameters()], {k: v.clone() for k, v in module.state_dict().items()}
    shares = torch.tensor([float(len(client["y"])) for client in case["clients"]])
    shares /= shares.sum()
    for _ in range(rounds):
        mean = {name: torch.zeros_like(value) for name, value in state.items()}
        for client, share in zip(case["clients"], shares.tolist(), strict=True):
            module.load_state_dict(state)
            optimiser = torch.optim.SGD(owned, lr=case["lr"])
            optimiser.zero_grad()
            peer_nets.loss_of(module, client["inputs"], client["y"], client["rows"]).backward()
            optimiser.step()
            for name, value in module.state_dict().items():
                mean[name] += share * value
        state = mean
    torch.save(state, file)


if __name__ == "__main__":
    what, given, *rest = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        if what == "make":
            make(given, Path(rest[0]), Path(name))
        elif what == "run":
            run(given, int(rest[0]), Path(rest[1]), Path(name))
        else:
            loop(Path(given), int(rest[0]), Path(rest[1]))
