"""Source: what was measured, from a run or from a CSV, and the network of its scenario."""

import math
from pathlib import Path

from fedsim.calibrate import own_csv, run_tables
from fedsim.calibrate.forward import Forward
from fedsim.calibrate.measured import Measured
from fedsim.core.errors import ScenarioError, UserError
from fedsim.net.connecting import Connecting
from fedsim.net.model import Fluid, model_named
from fedsim.net.tcp import TransferModel
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


def forward(scenario: Scenario | None) -> Forward:
    """Return the network of a scenario; without one that of every default."""
    if scenario is None:
        return Forward(Fluid(), Connecting(), Tcp())
    model = model_named(scenario.network.model, constants(scenario))
    return Forward(model, Connecting(**scenario.network.connection.model_dump()), Parts(scenario).transport)


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
