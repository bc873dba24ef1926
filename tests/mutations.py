"""Shipped scenarios made small, and what may become of a scenario or a table on its way to us."""

import copy
import random
from pathlib import Path

from fedsim import yaml_text

ROOT = Path(__file__).parents[1]
ODD = [
    None, True, False, 0, -1, 1, 3, -0.5, 0.5, 1e308, -1e308, 10**30, -(10**30), 10**400, float("nan"), float("inf"),
    "", " ", "nan", "NaN s", "-5 Mbit/s", "5 Mbit", "1 parsec", "1e999 s", "1e-999999999 s", "1e999999999 s", "0 s",
    "lognormal(1)", "lognormal(nan, 1)", "poisson(0 s)", "uniform(5 s, 1 s)", "lognormal(1 Mbit/s, 1e300)",
    "\U0001f4a5", "x" * 3000, "\u202e\ufeff", "../../../etc/passwd", "/dev/null", "..", "a/b", "__import__",
    "fedsim.errors", "os.path", "<script>alert(1)</script>", "${HOME}", "%s%n", "1,2", "2026-01-01", "0x1f", "1_000",
    [], {}, [[]], [None], {"": 1}, {"name": None}, {"name": "fedavg", "name2": 1}, ["1 s", -1],
    {"a": {"b": {"c": [1, {"d": None}]}}},
]  # fmt: skip
STANDING = {"name": "synthetic", "vertices": 90, "classes": 4, "features": 5, "degree": 4}
DRIFTING = {"name": "drifting", "vertices": 80, "edges": 160, "classes": 3, "features": 4, "snapshots": 4}
SMALL = {
    "clients.count": 4, "protocol.rounds": 3, "protocol.participation": 0.8, "training.local_steps": 1,
    "model.hidden": 4, "data.partition.least": 1, "data.partition.per_client": 20, "measure.until": "60 s",
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
        data["data"]["dataset"] = copy.deepcopy(DRIFTING if changes else STANDING)
        if changes:
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


def at(data: object, path: tuple) -> object:
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
