"""Sweeps of points that `fake_runs` runs, what listens to them, and what they leave on disk."""

import csv
from pathlib import Path

import pytest
import yaml
from scenario_texts import SMALL

from fedsim.scenario.schema import Scenario
from fedsim.sweep.engines.local import Local
from fedsim.sweep.runner import Sweep

HERE = Local(1)


class Listener:
    """Keeps all that a sweep tells."""

    def __init__(self):
        self.progress, self.rows, self.messages, self.notes, self.begun = [], [], [], [], None

    def begin(self, points, finished):
        self.begun = (points, finished)

    def progressed(self, point, progress):
        self.progress.append((point.id, progress.share))
        self.notes += [f"{point.id}: {progress.doing}"] * bool(progress.doing)

    def ended(self, point, row, message):
        self.rows.append(row)
        self.messages.append(message)

    def note(self, text):
        self.notes.append(text)


def sweep_of(out, data, axes):
    """A sweep of the small scenario over a grid."""
    scenario = Scenario.model_validate(yaml.safe_load(SMALL) | {"grid": axes})
    return Sweep([*scenario.points()], SMALL, out, data)


@pytest.fixture
def make(tmp_path):
    """Return a sweep over seeds and over what the fake run does."""

    def make(*does, seeds=(0,)):
        axes = {"algorithm.do": list(does), "seed": list(seeds)} if does else {"seed": list(seeds)}
        return sweep_of(tmp_path / "runs" / "small", tmp_path, axes)

    return make


def swept(root, *does, seeds=(1,)):
    return sweep_of(root / "runs", root, {"algorithm.do": list(does), "seed": list(seeds)})


def calls(root):
    """Ids of the points that were run, in order."""
    path = root / "calls"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def workers(root):
    """Processes that have run points, in order."""
    return [int(line.split()[1]) for line in (root / "calls").read_text().splitlines()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def table(out):
    with (out / "summary.csv").open(newline="") as file:
        return [*csv.DictReader(file)]


def names(out):
    return sorted(path.name for path in out.iterdir())
