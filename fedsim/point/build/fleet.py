"""The fleet: every client's access link and speed, from a scenario's draws, its profile and its table.

The table takes precedence, then an explicit key of the scenario, then the profile; measured links are drawn in
`populations.py`.  Last, all access rates are multiplied by `network.rate_factor`; buffers, bursts and the server's link
are not.  Draws come from one named stream per quantity, so that a table's column changes nothing else.
"""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from fedsim.core import table
from fedsim.core.arrays import Floats, Strings
from fedsim.core.errors import Problem, ScenarioError, UserError
from fedsim.core.seeds import Rng
from fedsim.core.table import Column
from fedsim.core.units import Draw, did_you_mean
from fedsim.net.codec import Codec
from fedsim.net.measurements import devices, measured, profiles
from fedsim.net.node import Nodes
from fedsim.net.tcp.laws import TransferModel
from fedsim.point.build import populations
from fedsim.scenario.deployment import ClassSpeed, MeasuredProfile, MeasuredSpeed
from fedsim.scenario.parts import find
from fedsim.scenario.schema import Scenario
from fedsim.scenario.text import messages as wording

MBIT, MS, GIGA = 1e6, 1e-3, 1e9
# Column of the table: the field of Nodes (or "speed"), and its unit in SI.
ROWS = {
    "uplink_mbps": ("uplink", MBIT),
    "downlink_mbps": ("downlink", MBIT),
    "rtt_ms": ("latency", MS / 2),
    "jitter_ms": ("jitter", MS),
    "loss_up": ("loss_up", 1.0),
    "loss_down": ("loss_down", 1.0),
    "gflops": ("speed", GIGA),
    "up_burst_bytes": ("up_burst", 1.0),
    "down_burst_bytes": ("down_burst", 1.0),
    "up_buffer_bytes": ("up_buffer", 1.0),
    "down_buffer_bytes": ("down_buffer", 1.0),
}
DRAWN = ("latency", "uplink", "downlink")
BELOW_ONE = float(np.nextafter(1.0, 0.0))
LEAST = {"uplink_mbps": 1e-6, "downlink_mbps": 1e-6, "gflops": 1e-9}  # one bit or operation per second: never zero
COLUMNS = [
    Column("client", whole=True, low=0),
    Column("country", required=False, text=True),
    *(
        Column(name, required=False, low=LEAST.get(name, 0.0), high=BELOW_ONE if name.startswith("loss") else np.inf)
        for name in ROWS
    ),
]  # fmt: skip
CONSTANTS = TypeAdapter(TransferModel)  # made once: it takes a millisecond
IN_NETWORK = ("congestion_control", "tls_rtts")  # have their own keys in the scenario


def size(scenario: Scenario) -> int:
    """Return the number of clients: as the scenario says, or one for each row of the table.

    Raises UserError if the table cannot be read or its clients are not those.
    """
    given = scenario.clients
    if given.table is None:
        assert given.count is not None  # the scenario has checked it
        return given.count
    return _numbered(given.table, given.count)


def rows(scenario: Scenario, rng: Rng) -> dict[str, Floats]:
    """Return the columns of `Nodes` and `speed` (operations a second), each (K,) in SI units.

    A quantity that nothing gives is left out.  Raises ScenarioError if a required one is missing.
    """
    count, network = size(scenario), scenario.network
    found: dict[str, Floats] = {}
    if isinstance(network.profile, MeasuredProfile):
        found |= populations.rows(network.profile.measured, countries(scenario, rng), rng)
    elif network.profile is not None:
        found |= profiles.rows(_mix(network.profile), count, rng("network.profile"))
    for key in DRAWN:
        draw: Draw | None = getattr(network, key)
        if draw is not None:
            found[key] = draw.sample(rng(f"network.{key}"), count)
    speed = scenario.clients.speed
    if isinstance(speed, MeasuredSpeed):
        found["speed"] = devices.phones(count, speed.level, rng("clients.speed"))
    elif isinstance(speed, ClassSpeed):
        found["speed"] = devices.of_classes(classes(scenario, rng), speed.efficiency, rng("clients.speed"))
    elif speed is not None:
        found["speed"] = speed.sample(rng("clients.speed"), count)
    if scenario.clients.table is not None:
        _overlay(found, scenario.clients.table, count)
    if lacking := [key for key in DRAWN if key not in found or np.isnan(found[key]).any()]:
        column = next(name for name, (row, _) in ROWS.items() if row == lacking[0])
        who = np.flatnonzero(np.isnan(found.get(lacking[0], np.empty(0))))
        of = f" for client {who[0]}; give it, or a value" if len(who) else "; give it, or a column"
        raise ScenarioError.at(f"network.{lacking[0]}", f"is missing{of} {column!r} in clients.table")
    if "speed" in found and (slow := np.flatnonzero(np.isnan(found["speed"]))).size:
        message = f"is missing, and the column 'gflops' of clients.table has no value for client {slow[0]}; give one"
        raise ScenarioError.at("clients.speed", message)
    with np.errstate(over="ignore"):
        rates = {key: found[key] * network.rate_factor for key in ("uplink", "downlink")}
    if not np.isfinite([*rates.values()]).all():
        raise ScenarioError.at("network.rate_factor", "makes rates larger than numbers can be; give less")
    return found | rates


def countries(scenario: Scenario, rng: Rng) -> Strings:
    """Return the country of each client (K,): that of the table or of its measured link, "" without either."""
    found = np.full(size(scenario), "", dtype="U2")
    if scenario.clients.table is not None:
        columns = table.read(scenario.clients.table, COLUMNS)
        if "country" in columns:
            found[columns["client"]] = columns["country"]
    profile = scenario.network.profile
    return populations.countries(profile.measured, found, rng) if isinstance(profile, MeasuredProfile) else found


def classes(scenario: Scenario, rng: Rng) -> Strings:
    """Return the class of each client's device, "" where the scenario does not say.

    Raises ScenarioError for shares that do not add up.
    """
    count, speed = size(scenario), scenario.clients.speed
    if not isinstance(speed, ClassSpeed):
        return np.full(count, "phone" if isinstance(speed, MeasuredSpeed) else "")
    try:
        return devices.assigned(dict[str, float](speed.classes.items()), count, rng("clients.speed.classes"))
    except ValueError as error:
        raise ScenarioError.at("clients.speed.classes", str(error)) from None


def nodes(found: dict[str, Floats]) -> Nodes:
    """Return the network's nodes with these columns."""
    return Nodes(**{key: column for key, column in found.items() if key != "speed"})


def transfer_model(scenario: Scenario) -> TransferModel:
    """Return the transfer model's constants.  Raises ScenarioError for an unknown or invalid one."""
    network = scenario.network
    own = {"congestion_control": network.congestion_control, "tls_rtts": network.tls_rtts}
    names = [field.name for field in fields(TransferModel) if field.name not in IN_NETWORK]
    wrong = [
        Problem(f"network.tcp.{key}", f"there is no constant {key!r}{did_you_mean(key, names)}")
        for key in network.tcp
        if key not in names
    ]
    if wrong:
        raise ScenarioError(wrong)
    try:
        return CONSTANTS.validate_python({**network.tcp, **own})
    except ValidationError as error:
        raise ScenarioError(wording.problems(error.errors(include_url=False), ("network.tcp",))) from None


def codecs(scenario: Scenario, shares_only: bool = False) -> dict[str, Codec | None]:
    """Return the codec of each direction, "up" and "down".  Raises ScenarioError for a codec that does not suit its
    direction.

    `shares_only` means that peers exchange whole models and nothing else.
    """
    given = {"up": scenario.network.codec.up, "down": scenario.network.codec.down}
    built: dict[str, Codec | None] = {
        way: None if part is None else find.build("codec", part, f"network.codec.{way}") for way, part in given.items()
    }
    whole = {"down": "a download is a whole model", "up": "peers send whole models" if shares_only else ""}
    for way, why in whole.items():
        if (part := given[way]) and (codec := built[way]) and why and not codec.downwards:
            message = f"{part.name!r} keeps only some entries of a difference, and {why}"
            raise ScenarioError.at(f"network.codec.{way}", f"{message}; take half, bfloat16 or int8")
    if shares_only and given["down"]:
        raise ScenarioError.at("network.codec.down", "peers have no downloads; write it as network.codec.up")
    return built


def problems(scenario: Scenario, draw: Callable[[], object]) -> list[Problem]:
    """Return the problems of a scenario's table, profile and constants; `draw` draws the clients' columns."""
    found: list[Problem] = []
    try:
        transfer_model(scenario)
        if isinstance(scenario.clients.speed, ClassSpeed):
            classes(scenario, lambda name: np.random.default_rng(0))
        profile = scenario.network.profile
        if isinstance(profile, MeasuredProfile):
            found += populations.problems(profile.measured, scenario.clients.table is not None)
        elif profile is not None:
            profiles.rows(_mix(profile), 1, np.random.default_rng(0))
    except ScenarioError as error:
        found += error.problems
    except ValueError as error:
        found.append(Problem("network.profile", str(error)))
    try:
        if scenario.clients.table is not None:
            size(scenario)
            if not found:
                draw()
    except ScenarioError as error:
        found += error.problems
    except UserError as error:
        found.append(Problem("clients.table", str(error)))
    return found


def _mix(profile: str | dict[str, float]) -> dict[str, float]:
    return {profile: 1.0} if isinstance(profile, str) else profile


def _numbered(path: Path, count: int | None) -> int:
    numbers, lines = table.read_lines(path, COLUMNS)
    clients = numbers["client"]
    most = len(clients) if count is None else count
    seen: dict[int, int] = {}
    for client, line in zip(clients.tolist(), lines.tolist(), strict=True):
        if client >= most:
            of = "the table lists" if count is None else "clients.count says"
            raise table.fault(path, line, f"client {client}: {of} {most} clients, numbered from 0 to {most - 1}")
        if client in seen:
            raise table.fault(path, line, f"client {client} is in line {seen[client]} too; keep one")
        seen[client] = line
    for country, line in zip(numbers.get("country", np.array([])).tolist(), lines.tolist(), strict=False):
        try:
            _ = country and measured.links(country)
        except ValueError as error:
            raise table.fault(path, line, f"column 'country': {error}") from None
    return most


def _overlay(found: dict[str, Floats], path: Path, count: int) -> None:
    """Write the table's cells over the columns; empty cells change nothing."""
    columns: dict[str, Any] = table.read(path, COLUMNS)
    clients = columns.pop("client")
    columns.pop("country", None)
    for name, values in columns.items():
        row, unit = ROWS[name]
        given = ~np.isnan(values)
        column = found.get(row, np.full(count, np.nan)).copy()
        column[clients[given]] = values[given] * unit
        if row not in DRAWN and row != "speed" and not row.endswith("buffer"):
            column[np.isnan(column)] = 0.0
        found[row] = column
