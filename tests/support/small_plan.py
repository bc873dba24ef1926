"""A plan of a few small cells, in a folder of its own."""

from pathlib import Path

from rich.console import Console

from fedsim.point.run import run
from fedsim.reference import plan as plans
from fedsim.reference.cell import Cell
from fedsim.reference.plan import Plan
from fedsim.reference.running import Bench, ReferenceFolders
from fedsim.sweep.display import Display
from fedsim.sweep.engines.local import Local

PLAN = """
seeds: [0, 1]
trials: {seeds: [8, 9], count: 3, share: 0.5, lr: [0.001, 0.1]}
data: {small: {data.dataset: {name: synthetic, nodes: 120, classes: 4, features: 6}}}
tasks:
  static: {}
  arriving: {set: {data.stream: {name: class_incremental, classes: 2}}, splits: [test, all_periods], arrive: 0.25}
deployments:
  office:
    protocols:
      sync: {name: sync, rounds: 3, participation: 1.0}
      buffered: {name: buffered, rounds: 4, clients: 2, buffer: 1}
methods:
  fedavg: {algorithm: fedavg, tasks: [static, arriving], protocols: [sync, buffered]}
  prox: {algorithm: {name: fedprox, mu: 0.5}, tasks: [static], protocols: [sync], set: {training.local_steps: 2}}
settings:
  - {deployment: office, data: small, tasks: [static, arriving],
     protocols: [sync, buffered], bytes: 1 MB, time: 60 s, halved: {static: [sync, buffered]}}
left_out:
  - {what: all else, why: it is small}
"""
OFFICE = """
name: office
data: {dataset: digits, partition: random, split: {train: 0.4, val: 0.3, test: 0.3}}
model: {name: gcn, hidden: 4}
training: {optimiser: sgd, lr: 0.01, local_steps: 1}
clients: {count: 3, speed: 1 GFLOP/s}
network: {latency: 10 ms, uplink: 1 Mbit/s, downlink: 2 Mbit/s}
protocol: {name: sync, rounds: 2}
algorithm: fedavg
"""


def written(folder: Path) -> tuple[Plan, ReferenceFolders]:
    """Write the plan and its deployment, and return them."""
    (folder / "plan.yaml").write_text(PLAN, "utf-8")
    (folder / "office.yaml").write_text(OFFICE, "utf-8")
    return plans.read(folder / "plan.yaml"), ReferenceFolders(folder, folder / "tables", folder / "runs", folder)


def bench() -> Bench:
    """Return how the cells are run: here, one after the other."""
    return Bench(run, Local(1), lambda: Display(Console(quiet=True)))


def cell_of(name):
    """The cell of a name such as "campus/digits/static/power/sync/given/3"."""
    deployment, data, task, method, protocol, options, seed = name.split("/")
    return Cell(deployment, data, task, method, protocol, options, int(seed))
