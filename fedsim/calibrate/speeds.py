"""Speeds: operations a second of each client, from how long its jobs took.

How many operations a job takes is in the table, or is worked out: the run's own scenario is rehearsed without training
over links that take no time, on computers of known speed, so that a job's seconds tell its operations.  They are those
that a simulation of the run would count, for the same client and as many periods.  A client's speed is the median over
its jobs.

A speed is identifiable if neither its double nor its half explains the seconds of the client's jobs as well.  Where
each job is a process of its own, as with Flower, each takes some constant seconds too, so that jobs of one length tell
none; the speed is then the scenario's, and the constant takes the rest.

Not modelled: jobs whose operations depend on what was learned before; rounds of several exchanges.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from fedsim.calibrate import fit
from fedsim.calibrate.measured import Floats, Ints, Mask, Measured, Worked
from fedsim.core.errors import UserError
from fedsim.learn.algorithm import declared
from fedsim.point import check
from fedsim.point.parts import Parts
from fedsim.scenario.schema import Scenario

KNOWN = 1e9  # operations a second of the computers in a rehearsal
MOST = 200  # updates of a rehearsal
LINKS = {"model": "naive", "latency": "1 us", "uplink": "100 Gbit/s", "downlink": "100 Gbit/s"}


@dataclass(frozen=True, eq=False)
class Speeds:
    """Operations a second of K clients, NaN where unknown; which are identifiable; the seconds of a job beside."""

    values: Floats
    sure: Mask
    constant: float = 0.0


def fitted(worked: Worked, clients: int, stated: Floats | None = None) -> Speeds:
    """Return the speeds of all clients, by the jobs whose operations are known.

    `stated` (K,) are the scenario's, given where each job was a process of its own.
    """
    rates = worked.operations / (worked.end - worked.start)
    known = np.isfinite(rates) & (rates > 0)
    mine = [worked.take(known & (worked.client == client)) for client in range(clients)]
    own = np.array([_median(jobs.operations / (jobs.end - jobs.start)) for jobs in mine])
    lacking = np.isnan(own)
    carried = stated is not None
    sure = np.array(
        [len(jobs) > 0 and _told_apart(jobs, speed, carried) for jobs, speed in zip(mine, own, strict=True)]
    )
    if stated is None or not known.any():
        return Speeds(np.where(lacking, _median(own[~lacking]), own), sure)
    values = np.where(sure, own, stated)
    rest = (worked.end - worked.start - worked.operations / values[worked.client])[known]
    return Speeds(values, sure, max(0.0, _median(rest)))


def _told_apart(jobs: Worked, speed: float, carried: bool) -> bool:
    """Return whether neither the double nor the half of a speed explains jobs as well, with a constant if `carried`."""
    seconds, upload = jobs.end - jobs.start, np.zeros(len(jobs), dtype=bool)

    def error(value: float, constant: bool) -> float:
        found = jobs.operations / value
        found = found + (fit.constants(upload, found, seconds) if constant else 0.0)
        return float(np.abs(np.log(found / seconds)).mean())

    most = error(speed, False) * math.exp(fit.EVIDENCE / len(jobs)) + fit.FLOOR
    return all(error(speed * factor, carried) > most for factor in (2.0, 0.5))


def predicted(worked: Worked, speeds: Speeds) -> Floats:
    """Return the seconds (n,) that jobs take at these speeds, NaN where their operations are unknown."""
    found: Floats = worked.operations / speeds.values[worked.client] + speeds.constant
    return found


def with_operations(measured: Measured, arrivals: Path | None, data_root: Path) -> tuple[Worked, str]:
    """Return the jobs with their operations, rehearsed where they are unknown, and why there are none.

    `arrivals` is the run's table of them, which says how many periods a client had met.
    """
    worked, scenario = measured.worked, measured.scenario
    if not len(worked) or not np.isnan(worked.operations).any():
        return worked, "" if len(worked) else "no finished job is recorded"
    if scenario is None:
        return worked, "no row of work has operations"
    run = _periods(arrivals)
    try:
        made = _rehearsed(scenario, measured, run, data_root)
    except UserError as error:
        return worked, f"the operations of a job are not known: {' '.join(str(error).split())}"
    met = _met(worked, run)
    found = [made.get(key, np.nan) for key in zip(worked.client.tolist(), met, strict=True)]
    return replace(worked, operations=np.where(np.isnan(worked.operations), found, worked.operations)), ""


def _rehearsed(
    scenario: Scenario, measured: Measured, run: dict[int, Floats], data_root: Path
) -> dict[tuple[int, int], float]:
    """Return the operations of a job by client and periods met.  Raises UserError if a rehearsal cannot tell."""
    from fedsim.point.preview import preview

    if declared(Parts(scenario).algorithm, "own_steps"):
        raise UserError("a round has several exchanges; give them as --operations")
    several = max(map(len, run.values()), default=1) > 1
    updates = min(MOST, len(measured.updates)) if several else 1
    made = _alone(scenario, measured.clients, max(1, updates))
    (point,) = made.points()
    if problems := check.points([point], whole=True):
        raise UserError(str(problems[0]))
    seen = preview(point.scenario, data_root, updates)
    spans = seen.spans[seen.spans["what"] == "train"]
    client, start, end = (spans[name].to_numpy() for name in ("client", "start", "end"))
    jobs = Worked(client, start, end, np.full(len(spans), np.nan))
    arrived = _by_client(seen.arrivals["client"].to_numpy(), seen.arrivals["time"].to_numpy())
    keys = zip(jobs.client.tolist(), _met(jobs, arrived), strict=True)
    return dict(zip(keys, ((jobs.end - jobs.start) * KNOWN).tolist(), strict=True))


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


def _periods(arrivals: Path | None) -> dict[int, Floats]:
    """Return the seconds at which each client's periods arrived; nothing if there is no table."""
    if arrivals is None or not arrivals.is_file():
        return {}
    rows = pq.read_table(arrivals, columns=["client", "time"])
    return _by_client(rows["client"].to_numpy(), rows["time"].to_numpy())


def _by_client(client: Ints, time: Floats) -> dict[int, Floats]:
    """Return the times of each client, in order."""
    return {each: np.sort(time[client == each]) for each in np.unique(client).tolist()}


def _met(worked: Worked, arrived: dict[int, Floats]) -> list[int]:
    """Return how many periods each job's client had met when it began."""
    none = np.array([])
    rows = zip(worked.client.tolist(), worked.start.tolist(), strict=True)
    return [int(np.searchsorted(arrived.get(client, none), start, side="right")) for client, start in rows]


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else float("nan")
