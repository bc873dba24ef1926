"""A stranger's scenario: with --no-plugins no module but fedsim's is imported, and the message names file and key."""

import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel
from scenario_texts import SMALL

from fedsim import __main__ as command_line
from fedsim import simulate
from fedsim.core.errors import UserError
from fedsim.scenario.part import Part
from fedsim.scenario.parts import lookup, plugins
from fedsim.scenario.schema import Scenario
from fedsim.scenario.text import yaml_file

TRAP = "from pathlib import Path\nPath({0!r}).mkdir()\n"
NAMED = {
    "algorithm": ("algorithm", "trap.code"),
    "grid": ("grid", {"algorithm": ["fedavg", "trap.code"]}),
    "protocol": ("protocol", {"name": "trap.code", "rounds": 2}),
    "effects": ("network", {"effects": [{"name": "trap.code"}]}),
    "codec": ("network", {"codec": {"up": "trap.code"}}),
    "task": ("task", "trap.code"),
    "dataset": ("data", {"dataset": "trap.code"}),
    "inner": ("data", {"dataset": {"name": "arriving", "of": {"name": "arriving", "of": "trap.code"}}}),
}


@pytest.fixture
def trapped(tmp_path, monkeypatch):
    """Return a function that writes a scenario with one key changed beside modules that make a folder when they run."""
    (tmp_path / "there" / "trap").mkdir(parents=True)
    (tmp_path / "there" / "algorithms").mkdir()
    monkeypatch.chdir(tmp_path)
    for place in ("trap/code.py", "trap/__init__.py", "algorithms/fedavg.py"):
        (tmp_path / "there" / place).write_text(TRAP.format(str(tmp_path / "ran")))

    def written(key=None, value=None):
        plain = yaml.safe_load(SMALL)
        if key is not None:
            old = plain.get(key)
            plain[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
            if key == "grid":
                plain.pop("algorithm", None)
        path = tmp_path / "there" / "scenario.yaml"
        path.write_text(yaml.safe_dump(plain, sort_keys=False))
        return path

    yield written
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "runs").exists()


def refused(capsys, *words):
    assert command_line.main([*map(str, words), "--no-plugins"]) == 2
    message = capsys.readouterr().err
    assert "Traceback" not in message
    return message


@pytest.mark.parametrize("flag", [[], ["--dry-run"], ["--explain"], ["--tune", "2"]])
def test_no_way_of_starting_imports_a_strangers_module(trapped, capsys, flag):
    message = refused(capsys, trapped("algorithm", "trap.code"), *flag)
    assert "scenario.yaml" in message
    assert "algorithm" in message
    assert "'trap.code' would run" in message


@pytest.mark.parametrize(("key", "value"), NAMED.values(), ids=NAMED)
def test_every_key_that_names_a_part_is_covered(trapped, capsys, key, value):
    trapped_at = trapped(key, value)
    (trapped_at.parent / "algorithms" / "fedavg.py").unlink()
    assert "'trap.code' would run" in refused(capsys, trapped_at, "--dry-run")


def test_a_file_that_takes_the_place_of_fedsims_is_refused(trapped, capsys):
    own, dotted = "rename that file to use fedsim's own algorithms.fedavg", "algorithms.fedavg"
    with lookup.within_reach(Path("there")):
        found = [str(one.message) for one in plugins.problems(yaml_file.load(trapped(), [])[0])]
        assert len(found) == 1
        assert own in found[0]
        assert not plugins.problems(yaml_file.load(trapped("algorithm", dotted), [])[0])


def test_what_lies_beside_the_scenario_is_out_of_reach(trapped, monkeypatch):
    seen = []
    monkeypatch.setattr(command_line, "command", lambda given: seen.append([*sys.path]) or 0)
    for flags in ([], ["--no-plugins"]):
        command_line.main([str(trapped()), *flags])
    assert str(trapped().parent) in seen[0]
    assert str(trapped().parent) not in seen[1]


def test_a_file_beside_the_scenario_is_named_with_the_flag(trapped, capsys):
    path = trapped("algorithm", "mine")
    (path.parent / "algorithms" / "mine.py").write_text(TRAP.format("ran"))
    message = refused(capsys, path, "--dry-run")
    assert "algorithms/mine.py, which is not part of fedsim; plugins are refused (--no-plugins)" in message


def test_from_python_too(trapped):
    with pytest.raises(UserError, match="would run"):
        simulate(trapped("algorithm", "trap.code"), plugins=False, progress=False)


def test_try_runs_code_and_says_so(trapped, capsys):
    assert "--no-plugins forbids" in refused(capsys, "--try", trapped().parent / "trap" / "code.py")


def test_every_part_of_a_scenario_is_among_its_parts(trapped):
    """A new key that takes a part must be listed by `parts`, or it would be neither checked nor refused."""
    keys = {key.split(".0")[0] for _, key, _ in filled().parts()}
    names = {"measure.metrics", "measure.splits"}  # plain texts, as they have no options
    assert {*part_keys(Scenario)} | names == keys


def filled() -> Scenario:
    """Return a scenario that has every part."""
    part, whole = Part(name="x"), Scenario.model_validate(yaml.safe_load(SMALL))
    codec = whole.network.codec.model_copy(update={"up": part, "down": part})
    network = whole.network.model_copy(update={"effects": [part], "codec": codec})
    return whole.model_copy(update={"network": network, "model": part, "algorithm": part, "aggregation": part})


def part_keys(model: type[BaseModel], above: str = "") -> list[str]:
    """Return the dotted keys of a section that take a part."""
    found = []
    for name, field in model.model_fields.items():
        for kind in classes(field.annotation):
            found += [f"{above}{name}"] if kind is Part else part_keys(kind, f"{above}{name}.")
    return found


def classes(annotation: object) -> list[type[BaseModel]]:
    """Return the models that an annotation names, such as Part in `list[Part] | None`."""
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [found for inner in get_args(annotation) for found in classes(inner)]
