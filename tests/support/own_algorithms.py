"""Small algorithms, written to a file for one test, with the line marked that a finding should name."""

import textwrap
from pathlib import Path

from fedsim.scenario.part import Part
from fedsim.scenario.parts import find
from fedsim.trial import files
from fedsim.trial.stage import accepted
from fedsim.trial.trial import Trial

HEAD = '''"""Mine."""

import random
from dataclasses import dataclass

import numpy as np
import torch

from algorithms.fedavg import FedAvg
from fedsim.learn.algorithm import Fit
from fedsim.learn.engine import tree

COUNTS = [0]


@dataclass(frozen=True)
class Mine(FedAvg):
    """Mine."""

'''
SENT = 'sent = {"update": tree.sub(trained, job.download["model"]), "samples": self.samples(job.data)}\n'
TRAIN = 'trained = yield from self.fit(job, {"received": job.download["model"]})\n' + SENT
OPTION = """
factor: float = 1.0
stays: bool = False

def work(self, job):  # HERE
    if self.stays:
        job.memory.setdefault("rounds", []).append(self.factor)
    return (yield from super().work(job))
"""


def write(folder: Path, body: str) -> Path:
    """Write the body of a class that descends from FedAvg into a file."""
    path = folder / "mine.py"
    path.write_text(HEAD + textwrap.indent(textwrap.dedent(body), "    "), "utf-8")
    return path


def trial(folder: Path, body: str, **options: object) -> Trial:
    """Return the trial of the class."""
    part = Part(name=files.module(str(write(folder, body))), options=options)
    return Trial(accepted(part), find.find("algorithm", part, "algorithm"))


def here(folder: Path, mark: str = "HERE") -> str:
    """Return "file:line" of the marked line."""
    lines = (folder / "mine.py").read_text("utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if f"# {mark}" in line]
    return f"{folder / 'mine.py'}:{number}"
