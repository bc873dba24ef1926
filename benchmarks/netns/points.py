"""Points: the runs that a scenario describes, as real ones need them, and how long they take in simulation."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsim import simulate
from fedsim.clock.protocols.buffered import Buffered
from fedsim.clock.protocols.deadline import Deadline
from fedsim.clock.protocols.sync import Sync
from fedsim.core import seeds
from fedsim.core.errors import UserError
from fedsim.core.record import SERVER
from fedsim.net.links.link_meter import default_buffer
from fedsim.point.build import fleet
from fedsim.point.results.folders import name_of
from fedsim.scenario.parts import find
from fedsim.scenario.schema import Scenario
from fedsim.scenario.text import yaml_file

COLUMNS = {
    "uplink": "up", "downlink": "down", "latency": "latency", "loss_up": "loss_up", "loss_down": "loss_down",
    "up_buffer": "up_buffer", "down_buffer": "down_buffer",
}  # fmt: skip
ABSENT = ("jitter", "up_burst", "down_burst")  # what the line does not do
FOREVER = 1e6  # seconds: the deadline of protocols that have none
BITS = 8  # a byte


@dataclass(frozen=True)
class Case:
    """A point without its seed: the values of its axes, the plan of a real run, simulated seconds by seed."""

    scenario: str
    axes: dict[str, str]
    plan: dict[str, Any]
    simulated: tuple[float, ...]

    @property
    def name(self) -> str:
        """Return the scenario with the values of its axes."""
        return ", ".join([self.scenario, *self.axes.values()])


def cases(path: Path, results: Path) -> list[Case]:
    """Simulate all points of a scenario and return its cases.

    Raises UserError where a point asks for something that the rig cannot do.
    """
    points = list(yaml_file.load(path)[0].points())
    for point in points:
        if reason := refusal(point.scenario):
            raise UserError(f"{path}: {reason}, which the rig cannot do")
    result = simulate(path, out=results, progress=False)
    transfers, found = result.transfers, dict[tuple[str, ...], Case]()
    for point in points:
        row = result.runs[result.runs["run"] == name_of(point)].iloc[0]
        axes = {axis: str(row[axis]) for axis in result.conditions}
        seconds, key = float(row["sim_seconds"]), tuple(axes.values())
        if key in found:
            found[key] = replace(found[key], simulated=(*found[key].simulated, seconds))
        else:
            own = transfers[transfers["run"] == name_of(point)]
            found[key] = Case(
                path.stem, axes, plan(point.scenario, _payload(own, "src"), _payload(own, "dst")), (seconds,)
            )
    return list(found.values())


def refusal(scenario: Scenario) -> str | None:
    """Return what of a scenario the rig cannot do, None if it can do all of it."""
    network, clients = scenario.network, fleet.size(scenario)
    if scenario.algorithm.name != "traffic":
        return f"it learns by {scenario.algorithm.name!r} instead of moving 'traffic'"
    if network.topology.name != "star" or network.transport.name != "tcp":
        return "its topology is not 'star', or its transport not 'tcp'"
    if network.effects or network.tls_rtts:
        return "its network has effects, or encryption"
    protocol = find.build("protocol", scenario.protocol)
    if not isinstance(protocol, Sync | Deadline | Buffered):
        return f"its protocol is {scenario.protocol.name!r}"
    asked = protocol.most_of(clients) if isinstance(protocol, Deadline) else protocol.cohort_of(clients)
    if asked < clients and scenario.clients.sampler.name != "listed":
        return f"it draws {asked} of {clients} clients instead of asking all, or those that the sampler 'listed' lists"
    nodes = fleet.nodes(_columns(scenario))
    return next((f"its clients have {name}" for name in ABSENT if np.any(getattr(nodes, name) > 0)), None)


def plan(scenario: Scenario, down: int, up: int) -> dict[str, Any]:
    """Return what `real.py` reads: clients, the server's links, and who is asked, for messages of so many bytes."""
    columns, connection = _columns(scenario), scenario.network.connection
    nodes, count = fleet.nodes(columns), fleet.size(scenario)
    protocol = find.build("protocol", scenario.protocol)
    work = find.build("algorithm", scenario.algorithm).operations
    return {
        "idle_restart": connection.idle_restart,
        "clients": [
            _buffered({short: _number(getattr(nodes, name)[client]) for name, short in COLUMNS.items()})
            for client in range(count)
        ],
        "server": _buffered({key: _number(value) for key, value in scenario.network.server.model_dump().items()}),
        "plan": {
            "down": down, "up": up, "seconds": [float(work / speed) for speed in columns["speed"]],
            "control": scenario.network.congestion_control, "kind": connection.kind, "request": connection.request,
            "protocol": scenario.protocol.name, "rounds": protocol.rounds, "cohorts": _cohorts(scenario, count),
            "want": protocol.cohort_of(count), "wait": float(getattr(protocol, "wait", FOREVER)),
            "buffer": getattr(protocol, "buffer", 1),
        },
    }  # fmt: skip


def _columns(scenario: Scenario) -> dict[str, Any]:
    return fleet.rows(scenario, partial(seeds.generator, scenario.seed))


def _cohorts(scenario: Scenario, count: int) -> list[list[int]]:
    if scenario.clients.sampler.name != "listed":
        return [list(range(count))]
    lines = pd.read_csv(str(find.build("sampler", scenario.clients.sampler).file))
    return [sorted(group.tolist()) for _, group in lines.groupby("round")["client"]]


def _buffered(numbers: dict[str, float | None]) -> dict[str, float | None]:
    """Return the numbers (bit/s, bytes) with the buffers that the simulator derives where none are given."""
    rates = {name: numbers[name] for name in numbers if f"{name}_buffer" in numbers}
    missing = {name: rate for name, rate in rates.items() if rate is not None and numbers[f"{name}_buffer"] is None}
    return {**numbers, **{f"{name}_buffer": default_buffer(rate / BITS) for name, rate in missing.items()}}


def _number(value: Any) -> float | None:
    """Return a number, None if there is none or it is not finite: a link that is never full, a buffer to derive."""
    return None if value is None or not np.isfinite(value) else float(value)


def _payload(transfers: pd.DataFrame, end: str) -> int:
    """Return the payload's bytes of the first message from or to the server."""
    return int(transfers.loc[transfers[end] == SERVER, "nbytes"].iloc[0])
