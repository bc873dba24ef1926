"""What docs/stability.md promises: nothing that the last release had is gone or has changed. More may be added.

`python tests/whole/test_promise.py` writes the record anew, which is a step of a release.
"""

import importlib
import inspect
import json
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

import fedsim
from fedsim.core import record
from fedsim.scenario.parts import find
from fedsim.scenario.schema import Scenario
from fedsim.sweep import runner

FILE = Path(__file__).with_name("promised.json")
REMEDY = "docs/stability.md promises it: keep the old form, with a FutureWarning, for two minor versions"


def keys(shape, known, above=""):
    """Yield every dotted key of a scenario that is no option of a part."""
    for name, inner in shape.get("properties", {}).items():
        yield f"{above}{name}"
        for one in (inner, *inner.get("anyOf", ()), *inner.get("oneOf", ())):
            section = one.get("$ref", "").rpartition("/")[2]
            if section and section not in ("Part", "OptimiserPart"):
                yield from keys(known[section], known, f"{above}{name}.")


def signature(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def contracts():
    for kind, place in find.KINDS.items():
        cls = getattr(importlib.import_module(place.contract[0]), place.contract[1])
        for name, member in inspect.getmembers(cls):
            if not name.startswith("_") and name != "context":
                yield f"{kind}.{name}", signature(member) if inspect.isfunction(member) else None


def present():
    schema = Scenario.model_json_schema()
    return {
        "keys of a scenario": sorted({*keys(schema, schema["$defs"])}),
        "columns of tables": {
            "summary.csv": [*runner.RESULTS],
            **{name: [field.name for field in fields(row)] for name, row in record.TABLES.items()},
        },
        "names of parts": {kind: sorted(find.names(kind)) for kind in find.KINDS},
        "python": {"fedsim": sorted(fedsim.__all__), "simulate": signature(fedsim.simulate)},
        "contracts": dict(contracts()),
    }


def gone(before, now, where=""):
    """Yield what is missing now, or differs; dictionaries and lists may hold more than before."""
    if isinstance(before, dict):
        for key, value in before.items():
            yield from gone(value, now[key], f"{where}{key}: ") if key in now else [f"{where}{key}"]
    elif isinstance(before, list):
        yield from (f"{where}{one}" for one in before if one not in (now or []))
        if before != [one for one in now or [] if one in before]:
            yield f"{where}the order of {', '.join(before)}"
    elif before != now:
        yield f"{where}{before}"


def test_what_was_promised_is_there():
    missing = [*gone(json.loads(FILE.read_text("utf-8")), present())]
    assert not missing, f"{'; '.join(missing)}: {REMEDY}"


@pytest.mark.parametrize("where", ["keys of a scenario", "columns of tables", "names of parts", "python", "contracts"])
def test_something_that_goes_is_noticed_and_something_new_is_not(where):
    before = present()
    less, more = json.loads(json.dumps(before)), json.loads(json.dumps(before))
    if isinstance(less[where], list):
        last = less[where].pop()
        more[where].append("new")
    else:
        last = [*less[where]][-1]
        del less[where][last]
        more[where]["new"] = []
    assert f"{where}: {last}" in [*gone(before, less)]
    assert [*gone(before, more)] == []


def test_one_version_is_said_everywhere():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    cited = yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))
    assert project["version"] == cited["version"] == fedsim.__version__


def test_an_argument_that_changes_its_place_is_noticed():
    assert [*gone({"f": ["a", "b"]}, {"f": ["b", "a"]})] == ["f: the order of a, b"]
    assert [*gone({"f": ["a", "b"]}, {"f": ["a", "new", "b"]})] == []


if __name__ == "__main__":
    FILE.write_text(json.dumps(present(), indent=1) + "\n", "utf-8")
