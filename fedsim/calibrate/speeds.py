"""Fit the speed of each client, in operations a second, to how long its jobs took.

How many operations a job takes is in the table, or is worked out: the run's own scenario is rehearsed without
training over links that take no time, on computers of known speed, so that a job's seconds tell its
operations.  They are those that a simulation of the run would count, for the same client and as many periods.
A client's speed is the median over its jobs.

A speed is identifiable if neither its double nor its half explains the seconds of the client's jobs as well.
Where each job is a process of its own, as with Flower, each takes some constant seconds too, so that jobs of
one length tell none; the speed is then the scenario's, and the constant takes the rest.

Not modelled: jobs whose operations depend on what was learned before; rounds of several exchanges.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from fedsim.calibrate import fit
from fedsim.calibrate.measured import Measurements, Spans, Worked
from fedsim.core.arrays import Bools, Floats, Ints
from fedsim.core.errors import UserError
from fedsim.point.build.parts import Parts
from fedsim.point.checks import check
from fedsim.scenario.schema import Scenario

KNOWN = 1e9  # operations a second of the computers in a rehearsal
MOST = 200  # updates of a rehearsal
LINKS = {"model": "naive", "latency": "1 us", "uplink": "100 Gbit/s", "downlink": "100 Gbit/s"}


@dataclass(frozen=True, eq=False)
class Speeds:
    """Operations a second of K clients, NaN where unknown; which are identifiable; the seconds of a job beside."""

    values: Floats
    identifiable: Bools
    constant: float = 0.0

    def with_known(self, known: Floats) -> "Speeds":
        """Return the speeds with those that are known, not NaN, in their place."""
        values = np.where(np.isnan(known), self.values, known)
        return replace(self, values=values, identifiable=self.identifiable | ~np.isnan(known))


def fitted(worked: Worked, clients: int, stated: Floats | None = None) -> Speeds:
    """Return the speeds of all clients, by the jobs whose operations are known.

    `stated` (K,) are the scenario's, given where each job was a process of its own.
    """
    rates = worked.operations / worked.seconds
    known = np.isfinite(rates) & (rates > 0)
    jobs = [worked.take(known & (worked.client == client)) for client in range(clients)]
    medians = np.array([_median(each.operations / each.seconds) for each in jobs])
    lacking = np.isnan(medians)
    pairs = zip(jobs, medians, strict=True)
    sure = np.array([len(each) > 0 and _is_identifiable(each, speed, stated is not None) for each, speed in pairs])
    if stated is None or not known.any():
        return Speeds(np.where(lacking, _median(medians[~lacking]), medians), sure)
    values = np.where(sure, medians, stated)
    rest = (worked.seconds - worked.operations / values[worked.client])[known]
    return Speeds(values, sure, max(0.0, _median(rest)))


def _is_identifiable(jobs: Worked, speed: float, carried: bool) -> bool:
    """Return whether neither the double nor the half of a speed explains jobs as well, with a constant if `carried`."""
    seconds, upload = jobs.seconds, np.zeros(len(jobs), dtype=bool)

    def error(value: float, constant: bool) -> float:
        fitted = jobs.operations / value
        fitted = fitted + (fit.constants(upload, fitted, seconds) if constant else 0.0)
        return float(np.abs(np.log(fitted / seconds)).mean())

    most = error(speed, False) * math.exp(fit.EVIDENCE / len(jobs)) + fit.FLOOR
    return all(error(speed * factor, carried) > most for factor in (2.0, 0.5))


def predicted(worked: Worked, speeds: Speeds) -> Floats:
    """Return the seconds (n,) that jobs take at these speeds, NaN where their operations are unknown."""
    return worked.operations / speeds.values[worked.client] + speeds.constant


def with_operations(measured: Measurements, arrivals: Path | None, data_root: Path) -> tuple[Worked, str]:
    """Return the jobs with their operations, rehearsed where they are unknown, and why there are none.

    `arrivals` is the run's table of them, which says how many periods a client had met.
    """
    worked, scenario = measured.worked, measured.scenario
    if not len(worked) or not np.isnan(worked.operations).any():
        return worked, "" if len(worked) else "no finished job is recorded"
    if scenario is None:
        return worked, "no row of work has operations"
    arrived: dict[int, Floats] = {}
    if arrivals is not None and arrivals.is_file():
        rows = pq.read_table(arrivals, columns=["client", "time"])
        arrived = _by_client(rows["client"].to_numpy(), rows["time"].to_numpy())
    try:
        rehearsed = _rehearsed(scenario, measured, arrived, data_root)
    except UserError as error:
        return worked, f"the operations of a job are not known: {' '.join(str(error).split())}"
    counted = [rehearsed.get(key, np.nan) for key in _keys(worked, arrived)]
    return replace(worked, operations=np.where(np.isnan(worked.operations), counted, worked.operations)), ""


def _rehearsed(
    scenario: Scenario, measured: Measurements, run: dict[int, Floats], data_root: Path
) -> dict[tuple[int, int], float]:
    """Return the operations of a job by client and periods met.  Raises UserError if a rehearsal cannot tell."""
    from fedsim.point.preview import preview

    if Parts(scenario).algorithm.own_steps:
        raise UserError("a round has several exchanges; give them as --operations")
    updates = min(MOST, len(measured.updates)) if max(map(len, run.values()), default=1) > 1 else 1
    (point,) = _alone(scenario, measured.clients, max(1, updates)).points()
    if problems := check.points([point], whole=True):
        raise UserError(str(problems[0]))
    seen = preview(point.scenario, data_root, updates)
    spans = seen.spans[seen.spans["what"] == "train"]
    jobs = Spans(*(spans[name].to_numpy() for name in ("client", "start", "end")))
    arrived = _by_client(seen.arrivals["client"].to_numpy(), seen.arrivals["time"].to_numpy())
    return dict(zip(_keys(jobs, arrived), (jobs.seconds * KNOWN).tolist(), strict=True))


def _alone(scenario: Scenario, clients: int, rounds: int) -> Scenario:
    """Return the scenario with all clients in each round, over links that take no time, at one known speed."""
    plain: dict[str, Any] = scenario.plain()
    plain["clients"] = {"count": clients, "speed": f"{KNOWN:.0f} FLOP/s"}
    plain["network"] = LINKS
    plain["protocol"] = {"name": "sync", "rounds": rounds, "participation": 1.0}
    plain["privacy"] = {}
    plain["measure"] = {key: value for key, value in plain["measure"].items() if key != "until"}
    plain.pop("costs", None)
    return Scenario.model_validate(plain)


def _by_client(client: Ints, time: Floats) -> dict[int, Floats]:
    """Return the times of each client, in order."""
    return {each: np.sort(time[client == each]) for each in np.unique(client).tolist()}


def _keys(jobs: Spans, arrived: dict[int, Floats]) -> list[tuple[int, int]]:
    """Return the client of each job, and how many periods it had met when the job began."""
    none = np.array([])
    rows = zip(jobs.client.tolist(), jobs.start.tolist(), strict=True)
    return [(client, int(np.searchsorted(arrived.get(client, none), start, "right"))) for client, start in rows]


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else float("nan")
