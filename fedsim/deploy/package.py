"""A client's package: the folder with all that one client of a deployed run needs, and nothing of the others' data.

It holds the scenario, resolved (`scenario.yaml`), and the client's own periods (`data.pt`), with its edges to others'
vertices where it knows them (`neighbours.py`).  While it takes part, the client keeps its memory there too
(`memory.py`).  Tensors are stored by torch in its format without pickled code.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml

from fedsim.core.errors import UserError
from fedsim.core.version import __version__
from fedsim.data.graph import Graph, Period, to_device
from fedsim.deploy.neighbours import Known
from fedsim.scenario.schema import Scenario
from fedsim.scenario.yaml_file import dump

SCENARIO, DATA = "scenario.yaml", "data.pt"
DERIVED = "layout"  # the key of a graph that is computed from the rest


class Own(NamedTuple):
    """What a client knows: its number, how many there are, its periods, the sizes of features and labels, and its edges
    to others' vertices by snapshot, none where it does not know them.
    """

    client: int
    clients: int
    periods: list[Period]
    features: int
    classes: int
    known: Sequence[Known] = ()


def write(folder: Path, scenario: Scenario, own: Own) -> None:
    """Write a client's package into a folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCENARIO).write_text(dump(scenario), encoding="utf-8", newline="")
    periods = [{"number": one.number, "graphs": [*map(_plain, (one.graph, *one.ahead))]} for one in own.periods]
    numbers = {"client": own.client, "clients": own.clients, "features": own.features, "classes": own.classes}
    known = [dict(one) for one in own.known]
    torch.save({"fedsim": __version__, "periods": periods, "known": known, **numbers}, folder / DATA)


def read(folder: Path, device: str = "cpu") -> tuple[Scenario, Own]:
    """Return what a package holds.  Raises UserError if it is none, or one of another version of fedsim."""
    try:
        scenario = Scenario.model_validate(yaml.safe_load((folder / SCENARIO).read_text("utf-8")))
        held: Mapping[str, Any] = torch.load(folder / DATA, map_location=device, weights_only=True)
    except OSError as error:
        raise UserError(f"{folder} is no client's package ({error.strerror}: {error.filename})") from None
    if held["fedsim"] != __version__:
        raise UserError(f"{folder} was written by fedsim {held['fedsim']}, and this is {__version__}; write it anew")
    moved: dict[int, torch.Tensor] = {}
    periods = [_period(one["number"], one["graphs"], device, moved) for one in held["periods"]]
    known = [{key: one[key].cpu() if torch.is_tensor(one[key]) else one[key] for key in one} for one in held["known"]]
    return scenario, Own(held["client"], held["clients"], periods, held["features"], held["classes"], known)


def _plain(graph: Graph) -> dict[str, Any]:
    return {key: value for key, value in graph.items() if key != DERIVED}


def _period(number: int, graphs: Sequence[Any], device: str, moved: dict[int, torch.Tensor]) -> Period:
    first, *ahead = (to_device(graph, device, moved) for graph in graphs)
    return Period(number, first, tuple(ahead))
