"""Costing: the prices of a scenario's clients, network and server, and the costs of a point as a table and a row.

What the section `costs` leaves out are the defaults of `net/measurements/energy.py` and `carbon.py`.  A client's
country is that of the clients' table, then that of its measured link, then `costs.country`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.read.load import COSTS
from fedsim.clock import prices
from fedsim.clock.prices import ESTIMATES, PARTS, PAYERS, QUANTITIES, TYPICAL, Prices
from fedsim.core.arrays import Floats, Ints, Strings
from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import Rng
from fedsim.net.measurements import carbon, energy
from fedsim.net.measurements.energy import GB, KWH, Figure
from fedsim.point.build import fleet
from fedsim.scenario.costs import Costs, DeviceCosts, LinkCosts, LinkKind, Range
from fedsim.scenario.deployment import DeviceClass
from fedsim.scenario.schema import Scenario

FILE = "costs.parquet"
SUFFIXES = {"low": "_low", "typical": "", "high": "_high"}
HOUR = 3600.0


def priced(scenario: Scenario, rng: Rng, servers: int) -> Prices:
    """Return the prices that the section `costs` gives a scenario with so many servers.

    Raises ScenarioError if a country is missing or unknown.
    """
    given = scenario.costs
    assert given is not None
    where = _countries(scenario, rng)
    classes = fleet.classes(scenario, rng)
    kinds = np.where(classes == "", "phone", classes) if given.device is None else np.full(len(where), given.device)
    names, of_kind = np.unique(kinds, return_inverse=True)
    device = [_device(given, kind) for kind in names.tolist()]
    link = [_link(given, one.link) for one in device]
    server, own = given.server, energy.DEVICES["server"]
    home = server.country or given.country
    if home is None:
        raise ScenarioError.at("costs.server.country", "is missing; give it, or costs.country, such as US")
    pue = _figure(server.pue, energy.PUE)
    places, of_place = np.unique(where, return_inverse=True)
    grams = [_carbon(given, place) for place in places.tolist()]

    def by_client(figures: list[Figure], of: Ints = of_kind) -> Floats:
        return np.array(figures, dtype=np.float64)[of].T

    def times_pue(figure: Figure) -> Floats:
        whole: Floats = np.array(figure) * np.array(pue)
        return whole

    return Prices(
        watts=by_client([one.watts for one in device]),
        idle_watts=by_client([one.idle_watts for one in device]) * given.idle,
        up=by_client([one.up for one in link]),
        down=by_client([one.down for one in link]),
        radio=by_client([one.watts for one in link]),
        network=by_client([one.network for one in link]),
        data=by_client([one.usd for one in link]),
        carbon=by_client(grams, of_place),
        electricity=np.array(_figure(given.usd_per_kwh, energy.ELECTRICITY, 1 / KWH)),
        server_watts=times_pue(_figure(server.watts, own.watts)),
        server_idle_watts=times_pue(_figure(server.idle_watts, own.idle_watts)),
        server_carbon=np.array(_carbon(given, home)),
        server_network=np.array(_link(given, own.link).network),
        rent=np.array(_figure(server.usd_per_hour, energy.HOUR)) / HOUR,
        sent=np.array(_figure(server.usd_per_gb, energy.SENT, 1 / GB)),
        cores=scenario.server.cores,
        servers=servers,
    )


def write(folder: Path, paid: Prices, tables: Mapping[str, pa.Table], end: float) -> Floats:
    """Write what had been spent at every scoring and at the end, and return the latter: (PARTS, QUANTITIES, ESTIMATES).

    The file has a row for each moment and part: time, payer, part, then joules, grams and usd, each typical, low and
    high.  Raises OSError if it cannot be written.
    """
    scored = np.unique(tables["scores"]["time"].to_numpy())
    times = np.unique([*scored[scored < end], end])
    found = _bill(paid, tables, times)
    columns: dict[str, Any] = {
        "time": np.repeat(times, len(PARTS)),
        "payer": [payer for payer, _ in PARTS] * len(times),
        "part": [part for _, part in PARTS] * len(times),
    }
    for q, quantity in enumerate(QUANTITIES):
        for estimate in ("typical", "low", "high"):
            e = ESTIMATES.index(estimate)
            columns[f"{quantity}{SUFFIXES[estimate]}"] = found[:, :, q, e].ravel()
    partial = (folder / FILE).with_suffix(".partial")
    pq.write_table(pa.table(columns), partial, compression="zstd")
    partial.replace(folder / FILE)
    last: Floats = found[-1]
    return last


def row(paid: Prices, tables: Mapping[str, pa.Table], spent: Floats, reached: float | None) -> dict[str, float | None]:
    """Return COSTS; `reached` is the second in which the target was reached, if that is one moment."""
    found: dict[str, float | None] = {}
    hit = None if reached is None else _bill(paid, tables, np.array([reached]))[0].sum(axis=0)
    for q, quantity in enumerate(QUANTITIES):
        for e, estimate in enumerate(ESTIMATES):
            found[f"{quantity}{SUFFIXES[estimate]}"] = float(spent[:, q, e].sum())
        for payer in PAYERS:
            own = [place for place, (who, _) in enumerate(PARTS) if who == payer]
            found[f"{quantity}_{payer}"] = float(spent[own, q, TYPICAL].sum())
        found[f"{quantity}_to_target"] = None if hit is None else float(hit[q, TYPICAL])
    return {name: found[name] for name in COSTS}


def _bill(paid: Prices, tables: Mapping[str, pa.Table], times: Floats) -> Floats:
    def columns(name: str) -> dict[str, Any]:
        return {key: tables[name][key].to_numpy() for key in tables[name].column_names}

    return prices.bill(paid, columns("transfers"), columns("spans"), times)


def _countries(scenario: Scenario, rng: Rng) -> Strings:
    """Return the country of each client.  Raises ScenarioError for a client without one."""
    assert scenario.costs is not None
    found = fleet.countries(scenario, rng)
    lacking = np.flatnonzero(found == "")
    if lacking.size and scenario.costs.country is None:
        what = f"is missing, and nothing else gives the country of client {lacking[0]}; give it, such as country: US"
        raise ScenarioError.at("costs.country", what)
    if lacking.size:
        found = found.astype("U32")
        found[lacking] = scenario.costs.country
    return found


def _carbon(given: Costs, country: str) -> Figure:
    """Return grams a joule.  Raises ScenarioError for a country without a figure."""
    if country in given.grams_per_kwh:
        return _figure(given.grams_per_kwh[country], energy.NOTHING, 1 / KWH)
    try:
        value = carbon.grams(country) / KWH
    except ValueError as error:
        key = "costs.server.country" if country == given.server.country else "costs.country"
        raise ScenarioError.at(key, str(error)) from None
    return Figure(value, value, value)


def _device(given: Costs, kind: DeviceClass) -> energy.DevicePower:
    own, default = given.devices.get(kind, DeviceCosts()), energy.DEVICES[kind]
    return energy.DevicePower(
        _figure(own.watts, default.watts),
        _figure(own.idle_watts, default.idle_watts),
        given.link or own.link or default.link,
    )


def _link(given: Costs, kind: str) -> energy.LinkEnergy:
    own, default = given.links.get(cast(LinkKind, kind), LinkCosts()), energy.LINKS[kind]
    return energy.LinkEnergy(
        _figure(own.up_joules_per_gb, default.up, 1 / GB),
        _figure(own.down_joules_per_gb, default.down, 1 / GB),
        _figure(own.watts, default.watts),
        _figure(own.network_kwh_per_gb, default.network, KWH / GB),
        _figure(own.usd_per_gb, default.usd, 1 / GB),
    )


def _figure(given: Range | None, default: Figure, unit: float = 1.0) -> Figure:
    return default if given is None else Figure(given.low, given.typical, given.high).times(unit)
