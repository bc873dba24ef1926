"""The work of a case in fedsim; it also makes the cases and checks what others have learned.

python by_fedsim.py make CASE CLIENTS WORK          write each client's tensors and the module's first weights
python by_fedsim.py run WORK WARM ROUNDS FILE       whole rounds through clock, network and records
python by_fedsim.py stacked WORK WARM ROUNDS FILE   the same with fedsim's own GCN instead of the plain module
python by_fedsim.py hand WORK WARM ROUNDS FILE      rounds by hand: one resident module and nothing around it
python by_fedsim.py apart WORK FILE                 print how far FILE is from one round by hand
"""

import fedsim  # noqa: F401  (before torch: it chooses torch's kernels, as in a command of fedsim)

# isort: split
import gc
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu import islands
from peer_work import Meter, Weights, built, loss_of
from rounds import SPLIT, next_round, plain

from fedsim.core.record import Recorder
from fedsim.point.build.assemble import Built, build
from fedsim.scenario.schema import Scenario

RATE = 0.01
MODELS: dict[str, Any] = {
    "gcn": "peer_work.GCN",
    "cnn": "peer_work.Convolutions",
    "stacked": {"name": "gcn", "hidden": 64, "dropout": 0},
}


def assembled(case: str, clients: int, folder: Path, model: str) -> Built:
    """Return fedsim's run of a case."""
    images = {"dataset": "digit_images", "partition": "random", "split": SPLIT}
    data = images if case == "cnn" else islands(folder, clients)
    training = {"optimiser": "adam", "lr": RATE, "keep_state": False}
    asked = plain(clients, data, model=MODELS[model], training=training)
    return build(Scenario.model_validate(asked), Path(), Recorder())


def reached(made: Built) -> Weights:
    """Return copies of the server's weights under the names of the plain module."""
    model = made.world.server.state.value["model"]
    if not all(isinstance(value, dict) for value in model.values()):
        return {name: value.clone() for name, value in model.items()}
    first, last = model.values()  # of fedsim's GCN, whose weights are transposed
    return {
        "first.weight": first["weight"].T.clone(), "first_bias": first["bias"].clone(),
        "last.weight": last["weight"].T.clone(), "last_bias": last["bias"].clone(),
    }  # fmt: skip


def make(case: str, clients: int, work: Path, folder: Path) -> None:
    """Write the case."""
    made = assembled(case, clients, folder, case)
    first = reached(made)
    next_round(made.world)  # until then clients have no data
    tensors = []
    for number in range(clients):
        graph = made.learner.clients[number].data
        assert graph is not None
        inputs = [graph["x"]] if case == "cnn" else [graph["x"], graph["edges"]]
        rows = graph["train"].nonzero().squeeze(1)
        tensors.append({"inputs": inputs, "y": graph["y"], "rows": rows})
    sizes = (tensors[0]["inputs"][0].shape[1], 1 + int(max(client["y"].max() for client in tensors)))
    module = MODELS[case].rpartition(".")[2]
    whole = {"case": case, "module": module, "sizes": sizes, "weights": first, "clients": tensors, "lr": RATE}
    torch.save(whole, work)


def run(work: Path, warm: int, rounds: int, file: str, folder: Path, *, stacked: bool) -> None:
    """Run and measure."""
    case = torch.load(work)
    model = "stacked" if stacked else case["case"]
    made = assembled(case["case"], len(case["clients"]), folder, model)
    torch.save(reached(made), Path(file).with_suffix(".first"))
    gc.freeze()  # as `fedsim.point.run` does for a whole run
    meter = Meter(warm, rounds, file)
    for number in range(1, warm + rounds + 1):
        next_round(made.world)
        meter.after(number, lambda: reached(made))


def hand(work: Path, warm: int, rounds: int, file: str) -> None:
    """Measure the rounds by hand."""
    case = torch.load(work)
    module, weights, meter = built(case), case["weights"], Meter(warm, rounds, file)
    for number in range(1, warm + rounds + 1):
        weights = by_hand(case, module, weights)
        meter.after(number, weights.copy)


def by_hand(case: dict[str, Any], module: torch.nn.Module, first: Weights) -> Weights:
    """Return the mean of the clients' weights after one round from these."""
    total = sum(len(client["y"]) for client in case["clients"])
    mean = {name: torch.zeros_like(value) for name, value in first.items()}
    for client in case["clients"]:
        module.load_state_dict(first)
        optimiser = torch.optim.Adam(module.parameters(), lr=case["lr"])
        optimiser.zero_grad()
        loss_of(module, client).backward()
        optimiser.step()
        for name, value in module.state_dict().items():
            mean[name] += len(client["y"]) / total * value
    return mean


def apart(work: Path, file: Path) -> float:
    """Return the largest difference between a file's weights and those of a round by hand."""
    case, found, own = torch.load(work), torch.load(file), file.with_suffix(".first")
    expected = by_hand(case, built(case), torch.load(own) if own.exists() else case["weights"])
    assert expected.keys() == found.keys()
    return max(float((found[name] - value).abs().max()) for name, value in expected.items())


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        if what == "make":
            make(given[0], int(given[1]), Path(given[2]), Path(name))
        elif what == "apart":
            print(apart(Path(given[0]), Path(given[1])))
        elif what == "hand":
            hand(Path(given[0]), int(given[1]), int(given[2]), given[3])
        else:
            run(Path(given[0]), int(given[1]), int(given[2]), given[3], Path(name), stacked=what == "stacked")
