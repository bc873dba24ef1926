"""A client's package: the folder with all that one client of a deployed run needs, and nothing of the others' data.

It holds the scenario, resolved (`scenario.yaml`), and the client's own periods (`data.pt`).  While it takes part, the
client keeps its memory there too (`worker.py`).  Tensors are stored by torch in its format without pickled code.

Where clients know their edges to others' nodes (streams of snapshots, and `numbered` ones), an algorithm looks them
up in the overview that the simulator's server has.  A deployed client has this part of it in its package, with the
edges in their order, so that it finds the same: the edges of its own nodes, and who owns the node at their other
end.  Edges and owners of anybody else are not in it, nor features, labels or changes.

The *description* of a package says all that its learning depends on: the scenario without what only the clock or the
server uses, the contents of the client's data, and the code of the algorithm, model, task and codecs.  The server
describes what each client should have, the client what it has; if they differ, a run would go on with clients that
learn something else, so it is refused.  Not part of it: versions of libraries and the device, which change results by
rounding at most; and the number of rounds and who is asked, so that packages serve a longer run too.

Not modelled: how a client learns of edges to others; and nodes that get another owner, which would have to travel.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import yaml

from fedsim.clock.repartition import moved
from fedsim.core.errors import ScenarioError, UserError
from fedsim.core.version import __version__
from fedsim.data.graph import Graph, Period, to_device
from fedsim.data.time.temporal import Overview
from fedsim.point.results import stamp
from fedsim.scenario.schema import HOST, Scenario
from fedsim.scenario.text.yaml_file import dump

SCENARIO, DATA = "scenario.yaml", "data.pt"
DERIVED = "layout"  # the key of a graph that is computed from the rest


NOBODY = -1  # owns a node, as far as the client knows


KnownSnapshot = Mapping[str, Any]  # of one snapshot: "edges" (2, E), "node" (m,) and "owner" (m,), "nodes" N


class Own(NamedTuple):
    """What a client knows: its number, how many there are, its periods, the sizes of features and labels, and its edges
    to others' nodes by snapshot, none where it does not know them.
    """

    client: int
    clients: int
    periods: list[Period]
    features: int
    classes: int
    known: Sequence[KnownSnapshot] = ()


def write(folder: Path, scenario: Scenario, own: Own) -> None:
    """Write a client's package into a folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCENARIO).write_text(dump(scenario), encoding="utf-8", newline="")
    periods = [{"number": each.number, "graphs": [*map(_plain, (each.graph, *each.ahead))]} for each in own.periods]
    known = [dict(each) for each in own.known]
    torch.save({"fedsim": __version__, **own._asdict(), "periods": periods, "known": known}, folder / DATA)


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
    periods = []
    for period in held["periods"]:
        first, *ahead = (to_device(graph, device, moved) for graph in period["graphs"])
        periods.append(Period(period["number"], first, tuple(ahead)))
    known = [{key: v.cpu() if torch.is_tensor(v) else v for key, v in one.items()} for one in held["known"]]
    return scenario, Own(held["client"], held["clients"], periods, held["features"], held["classes"], known)


def _plain(graph: Graph) -> dict[str, Any]:
    return {key: value for key, value in graph.items() if key != DERIVED}


def check_owners(overview: Overview) -> None:
    """Raise ScenarioError if nodes change owners."""
    if any(len(moved(overview, t)[0]) for t in range(1, len(overview.owners))):
        message = "nodes get other owners as the graph changes, and what would have to travel then is not deployed"
        remedy = "take a partition that keeps them, such as 'louvain'"
        raise ScenarioError.at("data.partition", f"{message}; {remedy}")


def known_to(client: int, overview: Overview) -> Iterator[KnownSnapshot]:
    """Yield what a client knows of each snapshot."""
    for snapshot, owners in zip(overview.snapshots, overview.owners, strict=True):
        owner = torch.from_numpy(owners)
        edges = snapshot["edges"][:, (owner[snapshot["edges"]] == client).any(dim=0)]
        node = torch.unique(torch.cat([edges.flatten(), (owner == client).nonzero().squeeze(1)]))
        yield {"edges": edges, "node": node, "owner": owner[node], "nodes": len(owner)}


def overview_of(known: Sequence[KnownSnapshot]) -> Overview | None:
    """Return the part of an overview that this is; None where the client knows of no edges to others."""
    if not known:
        return None
    owners = []
    for snapshot in known:
        owner = np.full(snapshot["nodes"], NOBODY, dtype=np.int64)
        owner[snapshot["node"].numpy()] = snapshot["owner"].numpy()
        owners.append(owner)
    return Overview([cast(Graph, {"edges": snapshot["edges"]}) for snapshot in known], owners)


LEARNING = ("seed", "data", "model", "task", "training", "algorithm", "aggregation", "privacy", "cohort")  # sections
RUN_BY_CLIENTS = ("model", "task", "codec", "algorithm")  # kinds of parts
SHOWN = 3  # differences in a message
Description = dict[str, str]  # of one client: values as JSON by dotted key, and digests of data and code


def described(scenario: Scenario, own: Own) -> Description:
    """Return the description of what a client with this scenario and these data would learn."""
    plain = scenario.plain()
    description = {key: value for section in LEARNING for key, value in _flat(section, plain[section])}
    description |= dict(_flat("network.codec", plain["network"]["codec"]))
    description |= dict(_flat("clients.sampler", plain["clients"].get("sampler")))
    description["protocol"] = json.dumps(scenario.protocol.name)
    description |= {"client": str(own.client), "clients": str(own.clients), "the client's data": _digest(own)}
    return {key: value for key, value in description.items() if key not in HOST}


def code(scenario: Scenario) -> Description:
    """Return the description of the code that clients run: each module, with what it imports of fedsim and the user."""
    modules = stamp.of_parts((kind, part) for kind, _, part in scenario.parts() if kind in RUN_BY_CLIENTS)
    return {f"the code of {name}": meaning for name, meaning in modules.items()}


def digest(description: Mapping[str, str]) -> str:
    """Return 32 hexadecimal digits of a description."""
    return hashlib.blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=16).hexdigest()


def differences(theirs: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return in words what differs between a client's description and the server's, "" if nothing does."""
    keys = sorted(key for key in {*theirs, *here} if theirs.get(key) != here.get(key))
    shown = [_difference(key, theirs.get(key), here.get(key)) for key in keys[:SHOWN]]
    return ", ".join([*shown, *([f"and {len(keys) - SHOWN} more"] if len(keys) > SHOWN else [])])


def _difference(key: str, theirs: str | None, here: str | None) -> str:
    if key.startswith("the "):
        return key
    return f"{key} is {theirs or 'not given'} there and {here or 'not given'} here"


def _flat(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield dotted keys and values; a file counts by its name, as it lies elsewhere on another host."""
    if isinstance(value, dict):
        for inner, each in value.items():
            yield from _flat(f"{key}.{inner}", each)
    else:
        absolute = isinstance(value, str) and PurePath(value).is_absolute()
        yield key, json.dumps(PurePath(value).name if absolute else value)


def _digest(own: Own) -> str:
    """Return a digest of a client's periods and of the edges that it knows."""
    digest = hashlib.blake2b(digest_size=16)
    parts: list[Mapping[str, Any]] = [{"features": own.features, "classes": own.classes}]
    for period in own.periods:
        parts += [{"number": period.number}, period.graph, *period.ahead]
    for part in [*parts, *own.known]:
        for name, value in sorted(part.items()):
            if name != DERIVED:
                digest.update(f"{name} {len(part)}\n".encode())
                digest.update(_bytes(value))
    return digest.hexdigest()


def _bytes(value: Any) -> bytes:
    """Return what a value of a graph holds: kind, shape and bytes of a tensor, of a sparse one those of its parts."""
    if not torch.is_tensor(value):
        return repr(value).encode()
    if value.layout == torch.sparse_csr:
        return b"".join(map(_bytes, (value.crow_indices(), value.col_indices(), value.values())))
    array = value.detach().cpu().contiguous().numpy()
    return f"{array.dtype} {array.shape}\n".encode() + array.tobytes()
