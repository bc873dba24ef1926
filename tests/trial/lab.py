"""Small algorithms, written to a file for one test, with the lines marked that a finding should name."""

import textwrap
from pathlib import Path

from fedsim.scenario import find
from fedsim.scenario.part import Part
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
from fedsim.learn import tree

COUNTS = [0]


@dataclass(frozen=True)
class Mine(FedAvg):
    """Mine."""

'''
SENT = 'sent = {"update": tree.sub(trained, job.download["model"]), "samples": self.samples(job.data)}\n'
TRAIN = 'trained = yield from self.fit(job, {"received": job.download["model"]})\n' + SENT
CONTROL = """
lr: float = 0.1
correct_sign: float = 1.0
client_sign: float = 1.0
server_sign: float = 1.0

def start(self):
    state = super().start()
    return {**state, "c": tree.zeros_like(state["model"])}

def download(self, state, client, step):
    return {"model": state["model"], "c": state["c"]}

def work(self, job):
    common, model = job.download["c"], job.download["model"]
    own = job.memory.get("c", tree.zeros_like(common))
    trained = yield from self.fit(job, {"common": common, "own": own}, correct=self.correct)
    moved = tree.scale(tree.sub(model, trained), self.client_sign / (self.local_steps * self.lr))
    job.memory["c"] = tree.add(tree.sub(own, common), moved)
    sent = {"update": tree.sub(trained, model), "samples": self.samples(job.data)}
    return {**sent, "c": tree.sub(job.memory["c"], own)}

def upload_like(self, job):
    return {**super().upload_like(job), "c": job.download["c"]}

def correct(self, grads, given):  # HERE
    drift = tree.sub(given["common"], given["own"])
    return tree.add(grads, tree.scale(drift, self.correct_sign))

def update(self, state, replies, step):
    new = super().update(state, replies, step)
    change = tree.mean([reply.upload["c"] for reply in replies], [1] * len(replies))
    return {**new, "c": tree.add(state["c"], tree.scale(change, self.server_sign * len(replies) / 4))}
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
