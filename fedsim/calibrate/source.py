"""Source: what was measured, from a run or from a CSV, and the network of its scenario."""

import math
from pathlib import Path

import numpy as np

from fedsim.calibrate import own_csv, run_tables
from fedsim.calibrate.forward import Forward
from fedsim.calibrate.measured import Floats, Measured
from fedsim.core.errors import ScenarioError, UserError
from fedsim.net.connecting import Connecting
from fedsim.net.model import Fluid, model_named
from fedsim.net.tcp import TransferModel
from fedsim.net.transports.flower_supernodes import FlowerSupernodes
from fedsim.net.transports.tcp import Tcp
from fedsim.point import fleet
from fedsim.point.parts import Parts
from fedsim.scenario import plugins, yaml_file
from fedsim.scenario.schema import Scenario


def read(run: Path, scenario: Path | None, only_own: bool) -> Measured:
    """Return what was measured, from the folder of a run, or from a CSV with the scenario that it is of, if any.

    `only_own` refuses scenarios with parts that are not fedsim's.  Raises UserError for what cannot be read.
    """
    if run.suffix == ".csv" and not run.is_dir():
        measured = own_csv.read(run, _only_point(scenario) if scenario else None)
    elif scenario:
        raise UserError(f"--scenario {scenario}: {run} is no CSV, and a run has a scenario; leave it out")
    else:
        measured = run_tables.read(run)
    if measured.scenario and only_own and (foreign := plugins.problems([*measured.scenario.points()])):
        raise ScenarioError(foreign)
    return measured


def forward(scenario: Scenario | None, carried: bool = False) -> Forward:
    """Return the network of a scenario; without one that of every default.

    `carried`: without its transport, as Flower brought the messages, whose seconds are fitted.
    """
    if scenario is None:
        return Forward(Fluid(), Connecting(), Tcp())
    model = model_named(scenario.network.model, constants(scenario))
    transport = Tcp() if carried else Parts(scenario).transport
    return Forward(model, Connecting(**scenario.network.connection.model_dump()), transport)


def links(scenario: Scenario) -> Floats:
    """Return the links that a scenario states (K, 3): round trips in seconds, uplinks and downlinks in bit/s."""
    columns = Parts(scenario).columns
    return np.stack([2 * columns["latency"], columns["uplink"], columns["downlink"]], axis=1)


def computers(scenario: Scenario) -> Floats:
    """Return the speeds that a scenario states (K,), in operations a second."""
    found: Floats = Parts(scenario).columns["speed"]
    return found


def with_carrier(scenario: Scenario, job: float, down: float, up: float) -> Scenario:
    """Return the scenario with Flower's transport, whose start and collection take what is left of these seconds.

    `job` are those that a job takes beside its operations, which count as part of its process's start.  Polls,
    hand-overs and requests are those that the scenario states, or the defaults.
    """
    stated = Parts(scenario).transport
    carrier = stated if isinstance(stated, FlowerSupernodes) else FlowerSupernodes()
    start = max(0.0, down - carrier.polling() / 2 - carrier.before(False)) + job
    collect = max(0.0, up - carrier.before(True))
    options = {
        "poll": carrier.poll,
        "reply": carrier.reply,
        "objects": carrier.objects,
        "start": start,
        "collect": collect,
    }
    part = {"name": "flower_supernodes", **{name: f"{value:.6g} s" for name, value in options.items()}}
    part |= {"own_down": f"{carrier.own_down} B", "own_up": f"{carrier.own_up} B"}
    plain = scenario.plain()
    return Scenario.model_validate(plain | {"network": {**plain["network"], "transport": part}})


def constants(scenario: Scenario | None) -> TransferModel:
    """Return the constants of TCP; without a scenario the defaults."""
    return fleet.transfer_model(scenario) if scenario else TransferModel()


def server(scenario: Scenario | None) -> dict[bool, float]:
    """Return the rates of the server's links in bit/s, by whether they carry uploads; infinity where none is shared."""
    if scenario is None or scenario.network.model == "naive":
        return {True: math.inf, False: math.inf}
    link = scenario.network.server
    return {True: link.ingress or math.inf, False: link.egress or math.inf}


def _only_point(path: Path) -> Scenario:
    points = [*yaml_file.load(path)[0].points()]
    if len(points) > 1:
        raise UserError(f"--scenario {path}: has {len(points)} points; give one without grid and vary")
    run_tables.refuse_others(points[0].scenario, path)
    return points[0].scenario
