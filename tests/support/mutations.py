"""Shipped scenarios made small, and what may become of a scenario or a table on its way to us."""

import copy
import os
import random
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedsim.scenario.parts import find
from fedsim.scenario.text import yaml_text

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"  # as many changes as CI tries
ODD = [
    None, True, False, 0, -1, 1, 3, -0.5, 0.5, 1e308, -1e308, 10**30, -(10**30), 10**400, float("nan"), float("inf"),
    "", " ", "nan", "NaN s", "-5 Mbit/s", "5 Mbit", "1 parsec", "1e999 s", "1e-999999999 s", "1e999999999 s", "0 s",
    "lognormal(1)", "lognormal(nan, 1)", "poisson(0 s)", "uniform(5 s, 1 s)", "lognormal(1 Mbit/s, 1e300)",
    "\U0001f4a5", "x" * 3000, "\u202e\ufeff", "../../../etc/passwd", "/dev/null", "..", "a/b", "__import__",
    "fedsim.core.wire", "os.path", "<script>alert(1)</script>", "${HOME}", "%s%n", "1,2", "2026-01-01", "0x1f", "1_000",
    [], {}, [[]], [None], {"": 1}, {"name": None}, {"name": "fedavg", "name2": 1}, ["1 s", -1],
    {"a": {"b": {"c": [1, {"d": None}]}}},
]  # fmt: skip
STANDING = {"name": "synthetic", "nodes": 90, "classes": 4, "features": 5, "degree": 4}
MEETINGS = {"name": "meetings", "communities": 4, "members": 4, "group": 4, "seconds": 16}
DRIFTING = {"name": "drifting", "nodes": 80, "edges": 160, "classes": 3, "features": 4, "snapshots": 4}
SMALL = {
    "clients.count": 4, "protocol.rounds": 3, "protocol.participation": 0.8, "training.local_steps": 1,
    "data.partition.tries": 50, "data.partition.slack": 2, "algorithm.operations": 1000,
    "model.hidden": 4, "data.partition.least": 1, "data.partition.per_client": 20, "measure.until": "60 s",
}  # fmt: skip


MORE = {
    "network.effects": [[effect] for effect in [
        {"name": "churn", "online": "6 s", "offline": "2 s"}, {"name": "dropout", "rate": "0.1/s"},
        {"name": "loss", "up": "8 %", "down": 0}, {"name": "jitter", "most": "30 ms"},
        {"name": "diurnal", "peak": 0.9, "trough": 0.4, "day": "30 s", "every": "8 s", "zones": 2},
        {"name": "outage", "every": "5 s", "length": "1 s", "share": 0.5, "cut": True},
        {"name": "straggler", "factor": 3.0, "share": 0.3, "every": "4 s", "length": "2 s", "links": True},
        {"name": "congestion", "link": "ingress", "load": 0.6, "on": "2 s", "off": "3 s"},
        {"name": "byzantine", "share": 0.3}, {"name": "restart", "every": "3 s"},
    ]],
    "network.topology": [{"name": "tree", "edges": 2, "uplink": "6 Mbit/s", "downlink": "8 Mbit/s"}, "peers"],
    "network.model": ["naive", "fluid"], "network.codec": [{"up": "int8"}, {"up": {"name": "top_k", "share": 0.1}}],
    "network.connection": [
        {"kind": "kept"}, {"kind": "exchange"}, {"kind": "kept", "request": "push", "idle_restart": False},
    ],
    "network.transport": ["flower_supernodes", "grpc"],
    "network.congestion_control": ["bbr", "reno"], "network.tls_rtts": [1, 2],
    "network.profile": ["lte", {"fibre": 0.5, "iot": 0.5}], "clients.sampler": ["availability", "weighted", "rates"],
    "privacy": [{"clip": 1.0, "noise": 1.0}, {"secure_aggregation": True}, {"secure_aggregation": {"neighbours": 2}}],
    "data.keep": [{"features": 0.5, "edges": 0.5, "labels": 0.2}, {"fanout": 1}],
    "cohort": ["loop", {"memory": "1 kB"}],
    "measure.models": [["global", "local"], ["local"]], "measure.views": [True], "measure.every": ["1 s", "2 updates"],
    "measure.splits": [["train", "val", "test"], ["held_out"], ["pooled"], ["across"]], "measure.target": [0.5, 1, 0],
    "measure.metrics": [["accuracy", "macro_f1"], ["mrr", "average_precision"]], "task": ["link_prediction"],
    "data.split": [{"train": 1.0, "val": 0, "test": 0}, {"train": 0.01, "val": 0.5, "test": 0.49}],
    "protocol": [
        {"name": "deadline", "rounds": 2, "clients": 2, "wait": "4 s"}, {"name": "one_shot", "retry": True},
        {"name": "buffered", "rounds": 4, "clients": 3, "buffer": 2}, {"name": "gossip", "rounds": 2},
        {"name": "hierarchical", "rounds": 2, "edge_rounds": 2, "participation": 0.8},
        {"name": "isolated", "rounds": 2},
    ],
}  # fmt: skip


def small(path: Path) -> dict:
    """A shipped scenario at its first point, with few clients and rounds."""
    data = yaml_text.read(path.read_text("utf-8"), path.name, {})
    for axis, values in {**data.pop("grid", {}), **data.pop("vary", {})}.items():
        put(data, axis, values[0])
    data.pop("when", None)
    return data


def tiny(path: Path, draw: random.Random) -> dict:
    """A shipped scenario at one of its points, at its first seed, of so little work that it runs in a moment."""
    data = yaml_text.read(path.read_text("utf-8"), path.name, {})
    for axis, values in {**data.pop("grid", {}), **data.pop("vary", {})}.items():
        put(data, axis, copy.deepcopy(draw.choice(values)))
    data.pop("when", None)
    data |= {"seed": 0, "device": "cpu"}
    for key, value in SMALL.items():
        if at_key(data, key) is not None:
            put(data, key, value)
    if "data" in data:
        stream = data["data"].get("stream")
        changes = isinstance(stream, dict) and stream["name"] == "snapshots"
        images = data["data"]["dataset"] == "digit_images"  # for a model that takes nothing else
        data["data"]["dataset"] = "digit_images" if images else copy.deepcopy(DRIFTING if changes else STANDING)
        if changes and "patch" in stream:
            data["data"]["dataset"] = copy.deepcopy(MEETINGS)
            stream |= {"patch": 32, "every": "1 updates"}
        elif changes:
            stream.pop("step", None)
            stream |= {"steps": 4, "every": "1 updates"}
    return data


def at_key(data: dict, key: str) -> object:
    """The value at a dotted key; None where there is none."""
    for step in key.split("."):
        data = data.get(step) if isinstance(data, dict) else None
    return data


def put(data: dict, key: str, value: object) -> None:
    """Set a dotted key; a name on the way becomes a part."""
    *way, last = key.split(".")
    for step in way:
        inner = data[int(step)] if isinstance(data, list) else data.get(step)
        if not isinstance(inner, dict | list):
            inner = {} if inner is None else {"name": inner}
            data[step] = inner
        data = inner
    data[last] = value


def places(data: object, path: tuple = ()) -> list[tuple]:
    """The paths of all values below the top."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [place for key, value in inner for place in [(*path, key), *places(value, (*path, key))]]


def at(data: Any, path: tuple) -> Any:
    """The value at a path."""
    for step in path:
        data = data[step]
    return data


def changed(data: dict, draw: random.Random) -> dict:
    """The plain data with one to three values replaced, removed, repeated, misspelt, or taken from elsewhere."""
    data = copy.deepcopy(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        found = places(data)
        if not found:
            break
        *way, last = draw.choice(found)
        holder = at(data, way)
        match draw.randrange(6):
            case 0 | 1 | 2:
                holder[last] = copy.deepcopy(draw.choice(ODD))
            case 3:
                del holder[last]
            case 4 if isinstance(holder, dict):
                other = [f"{last}s", str(last).upper(), f"{last}.{last}", "name", "grid", "vary"]
                holder[draw.choice(other)] = holder[last]
            case _:
                holder[last] = copy.deepcopy(at(data, draw.choice(found)))
    return data


NUMBERS = [0, 1, 2, 3, 7, 50, -1, 0.1, 0.5, 0.99, 1.0, 1.5, 1e-12, 1e-300, 1e300, 2**31, 2**53, 2**63, 10**30]
SIZES = ["0", "1", "0.001", "1e-9", "1e-200", "3", "60", "1e6", "1e12", "1e200", "lognormal", "uniform"]
QUANTITY = re.compile(r"^([\d.e+-]+) ?([a-zA-Z%/]+)$")
KIND_AT = {
    "algorithm": "algorithm", "protocol": "protocol", "topology": "topology", "sampler": "sampler", "task": "task",
    "dataset": "dataset", "partition": "partition", "stream": "stream", "model": "model",
    "up": "codec", "down": "codec",
}  # fmt: skip


def bent(data: dict, draw: random.Random) -> dict:
    """The plain data with one to four values made others of their kind: numbers, quantities, parts, sections more."""
    data = copy.deepcopy(data)
    for _ in range(draw.choice((1, 1, 2, 3, 4))):
        if draw.random() < 0.3:
            key, values = draw.choice([*MORE.items()])
            with suppress(TypeError):  # where a list or a text stands on the way
                put(data, key, copy.deepcopy(draw.choice(values)))
            continue
        *way, last = draw.choice(places(data))
        holder = at(data, way)
        value = holder[last]
        if last in KIND_AT and draw.random() < 0.7 and way != ["clients"]:
            holder[last] = draw.choice(find.names(KIND_AT[last]))
        elif isinstance(value, bool):
            holder[last] = not value
        elif isinstance(value, int | float):
            holder[last] = draw.choice([*NUMBERS, -value, 10 * value, min(value, 1e300) / 10])
        elif isinstance(value, str) and (found := QUANTITY.match(value)):
            size = draw.choice(SIZES)
            one, other = f"{found[1]} {found[2]}", f"{draw.choice(SIZES[:10])} {found[2]}"
            calls = {
                "lognormal": f"lognormal({one}, {draw.choice([0, 1, 5, 40])})",
                "uniform": f"uniform({one}, {other})",
            }
            holder[last] = calls.get(size, f"{size} {found[2]}")
        elif draw.random() < 0.3:
            holder[last] = copy.deepcopy(draw.choice(ODD))
    return data


def affordable(data: object) -> bool:
    """Whether no number is one of many things, or of little time, so that a run must be short."""
    values = [at(data, place) for place in places(data)]
    return all(abs(v) <= 5000 for v in values if isinstance(v, int | float) and not isinstance(v, bool))


def torn(text: str, draw: random.Random) -> str:
    """A text with lines removed, doubled or indented, characters put in or changed, or its end cut off."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        lines = text.splitlines(keepends=True) or [""]
        line = draw.randrange(len(lines))
        spot = draw.randrange(len(text) + 1)
        match draw.randrange(7):
            case 0:
                del lines[line]
                text = "".join(lines)
            case 1:
                lines.insert(draw.randrange(len(lines)), lines[line])
                text = "".join(lines)
            case 2:
                odd = ["  ", "\t", "- ", "? ", "&a ", "*a ", "!!python/object:os.system ", "<<: "]
                lines[line] = draw.choice(odd) + lines[line]
                text = "".join(lines)
            case 3:
                text = text[:spot] + draw.choice(list(":{}[],&*#?|>-'\"%@`\0\x1b\ufeff\u2028é\n\t9e.")) + text[spot:]
            case 4:
                text = text[:spot]
            case 5:
                text = text[:spot] + text[spot + draw.randrange(1, 30) :]
            case 6:
                text = text.replace(draw.choice("0123456789"), draw.choice(["-", "9", "e", "00", "1e", "."]))
    return text
