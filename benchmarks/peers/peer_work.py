"""The work that all systems are given: modules in plain PyTorch, the loss, and what a run is measured by.

A case is a file of `by_fedsim.py make`: a dict with the module's name and sizes, its first weights, the
learning rate, and each client's tensors.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Weights = dict[str, Tensor]  # a state dict


class GCN(nn.Module):
    """Two layers over a dense adjacency, normalised by degrees, with each node its own neighbour."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 64) -> None:
        super().__init__()
        self.first = nn.Linear(in_channels, hidden, bias=False)
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.last = nn.Linear(hidden, out_channels, bias=False)
        self.last_bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the logits (N, classes) of nodes x (N, F)."""
        near = torch.eye(len(x))
        near[edge_index[1], edge_index[0]] = 1
        root = near.sum(1).rsqrt()
        near = root.unsqueeze(1) * near * root
        hidden = (near @ self.first(x) + self.first_bias).relu()
        logits: Tensor = near @ self.last(hidden) + self.last_bias
        return logits


class Convolutions(nn.Module):
    """Two convolutions over an image (1, 8, 8).

    There is no BatchNorm, since systems differ in what they do with buffers.
    """

    def __init__(self, in_channels: int, out_channels: int, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Linear(2 * width * 16, out_channels),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes) of images x (N, 1, 8, 8)."""
        logits: Tensor = self.layers(x)
        return logits


MODULES: dict[str, Callable[..., nn.Module]] = {"GCN": GCN, "Convolutions": Convolutions}


def loss_of(module: nn.Module, client: dict[str, Any]) -> Tensor:
    """Return the mean cross-entropy over a client's training rows."""
    return F.cross_entropy(module(*client["inputs"])[client["rows"]], client["y"][client["rows"]])


def built(case: dict[str, Any]) -> nn.Module:
    """Return the module of a case with its first weights."""
    module = MODULES[case["module"]](*case["sizes"])
    module.load_state_dict(case["weights"])
    return module


class Meter:
    """What so many rounds take from the end of round `warm` on, and the weights after the first."""

    def __init__(self, warm: int, rounds: int, file: str) -> None:
        self.warm, self.last, self.file = warm, warm + rounds, Path(file)
        self.began = (0.0, 0.0)

    def after(self, number: int, weights: Callable[[], Weights]) -> None:
        """Note that a round has ended; they count from 1."""
        if number == 1:
            torch.save({name: value.detach().clone() for name, value in weights().items()}, self.file)
        if number == self.warm:
            self.began = (spent(), time.perf_counter())
        if number == self.last:
            cpu, wall = spent() - self.began[0], time.perf_counter() - self.began[1]
            found = json.dumps({"cpu": cpu, "wall": wall})
            self.file.with_suffix(".json").write_text(found, encoding="utf-8")


def spent() -> float:
    """Return the processor seconds, user and system, of this process and all that it has started (Linux)."""
    times = os.times()
    own = time.process_time() + times.children_user + times.children_system
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    below = [*children.get(os.getpid(), [])]
    for process in below:  # grows
        below += children.get(process, [])
    return own + sum(ticks[process] for process in below) / os.sysconf("SC_CLK_TCK")
