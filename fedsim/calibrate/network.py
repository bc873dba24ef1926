"""The network of a run's scenario: what predicts its messages, its links, and the part that Flower takes."""

import math

import numpy as np

from fedsim.calibrate.forward import Forward
from fedsim.core.arrays import Floats
from fedsim.net.channels.connection import ConnectionPolicy
from fedsim.net.tcp.fluid import Fluid, model_named
from fedsim.net.tcp.laws import TransferModel
from fedsim.net.transports.flower_supernodes import FlowerSupernodes
from fedsim.net.transports.tcp import Tcp
from fedsim.point.build import fleet
from fedsim.point.build.parts import Parts
from fedsim.scenario.schema import Scenario


def forward(scenario: Scenario | None, carried: bool = False) -> Forward:
    """Return the network of a scenario; without one that of every default.

    `carried`: without its transport, as Flower brought the messages, whose seconds are fitted.
    """
    if scenario is None:
        return Forward(Fluid(), ConnectionPolicy(), Tcp())
    model = model_named(scenario.network.model, constants(scenario))
    transport = Tcp() if carried else Parts(scenario).transport
    return Forward(model, ConnectionPolicy(**scenario.network.connection.model_dump()), transport)


def stated(scenario: Scenario) -> tuple[Floats, Floats]:
    """Return the links (K, 3) that a scenario states, in s, bit/s up and bit/s down, and the speeds (K,)."""
    columns = Parts(scenario).columns
    links = np.stack([2 * columns["latency"], columns["uplink"], columns["downlink"]], axis=1)
    return links, columns["speed"]


def with_carrier(scenario: Scenario, job: float, down: float, up: float) -> Scenario:
    """Return the scenario with Flower's transport, whose start and collection take what is left of these seconds.

    `job` are those that a job takes beside its operations, which count as part of its process's start.
    Polls, hand-overs and requests are those that the scenario states, or the defaults.
    """
    transport = Parts(scenario).transport
    carrier = transport if isinstance(transport, FlowerSupernodes) else FlowerSupernodes()
    start = max(0.0, down - carrier.poll / 2 - carrier.before(False)) + job
    collect = max(0.0, up - carrier.before(True))
    seconds = {"poll": carrier.poll, "reply": carrier.reply, "objects": carrier.objects}
    seconds |= {"start": start, "collect": collect}
    part = {"name": "flower_supernodes", **{name: f"{value:.6g} s" for name, value in seconds.items()}}
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
