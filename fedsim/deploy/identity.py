"""The identity of a client's package: all that its learning depends on, described so that two can be compared.

The server describes what each client should have, the client what it has: the scenario without what only the clock or
the server uses, the contents of the client's data, and the code of the algorithm, model, task and codecs.  If one
differs, a run would go on with clients that learn something else, so it is refused.

Not part of it: versions of libraries and the device, which change results by rounding at most; and the number of
rounds and who is asked, so that packages serve a longer run too.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import torch

from fedsim.deploy.package import DERIVED, Own
from fedsim.point import stamp
from fedsim.scenario.schema import HOST, Scenario

LEARNING = ("seed", "data", "model", "task", "training", "algorithm", "privacy", "cohort")  # sections
RUN_BY_CLIENTS = ("model", "task", "codec", "algorithm")  # kinds of parts
SHOWN = 3  # differences in a message
Description = dict[str, str]  # of one client: values as JSON by dotted key, and digests of data and code


def described(scenario: Scenario, own: Own) -> Description:
    """Return the description of what a client with this scenario and these data would learn."""
    plain = scenario.plain()
    found = {key: value for section in LEARNING for key, value in _flat(section, plain[section])}
    found |= dict(_flat("network.codec", plain["network"]["codec"]))
    found |= dict(_flat("clients.sampler", plain["clients"].get("sampler")))
    found["protocol"] = json.dumps(scenario.protocol.name)
    found |= {"client": str(own.client), "clients": str(own.clients), "the client's data": _digest(own)}
    return {key: value for key, value in found.items() if key not in HOST}


def code(scenario: Scenario) -> Description:
    """Return the description of the code that clients run: each module, with what it imports of fedsim and the user."""
    made = stamp.of_parts((kind, part) for kind, _, part in scenario.parts() if kind in RUN_BY_CLIENTS)
    return {f"the code of {name}": meaning for name, meaning in made.items()}


def digest(description: Mapping[str, str]) -> str:
    """Return 32 hexadecimal digits of a description."""
    return hashlib.blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=16).hexdigest()


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return in words what differs between a client's description and the server's, "" if nothing does."""
    keys = sorted(key for key in {*there, *here} if there.get(key) != here.get(key))
    told = [_difference(key, there.get(key), here.get(key)) for key in keys[:SHOWN]]
    return ", ".join([*told, *([f"and {len(keys) - SHOWN} more"] if len(keys) > SHOWN else [])])


def _difference(key: str, there: str | None, here: str | None) -> str:
    if key.startswith("the "):
        return key
    return f"{key} is {there or 'not given'} there and {here or 'not given'} here"


def _flat(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield dotted keys and values; a file counts by its name, as it lies elsewhere on another host."""
    if isinstance(value, dict):
        for inner, each in value.items():
            yield from _flat(f"{key}.{inner}", each)
    else:
        there = isinstance(value, str) and PurePath(value).is_absolute()
        yield key, json.dumps(PurePath(value).name if there else value)


def _digest(own: Own) -> str:
    """Return a digest of a client's periods and of the edges that it knows."""
    found = hashlib.blake2b(digest_size=16)
    parts: list[Mapping[str, Any]] = [{"features": own.features, "classes": own.classes}]
    for period in own.periods:
        parts += [{"number": period.number}, period.graph, *period.ahead]
    for part in [*parts, *own.known]:
        for name, value in sorted(part.items()):
            if name != DERIVED:
                found.update(f"{name} {len(part)}\n".encode())
                found.update(_bytes(value))
    return found.hexdigest()


def _bytes(value: Any) -> bytes:
    """Return what a value of a graph holds: kind, shape and bytes of a tensor, of a sparse one those of its parts."""
    if not torch.is_tensor(value):
        return repr(value).encode()
    if value.layout == torch.sparse_csr:
        return b"".join(map(_bytes, (value.crow_indices(), value.col_indices(), value.values())))
    array = value.detach().cpu().contiguous().numpy()
    return f"{array.dtype} {array.shape}\n".encode() + array.tobytes()
