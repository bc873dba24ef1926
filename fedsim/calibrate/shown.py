"""Shown: what the fit has found, as lines for a terminal: clients, what marks mean, and how well all is predicted."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis import terminal
from fedsim.calibrate import fleet_fit
from fedsim.calibrate.fit import DOWN, TRIP, UP
from fedsim.calibrate.fleet_fit import Fleet
from fedsim.calibrate.measured import Floats, Measured
from fedsim.calibrate.quality import Errors, errors
from fedsim.calibrate.speeds import Speeds

MOST = 20  # clients that are listed
SIGNS = {
    fleet_fit.POOLED: "p",
    fleet_fit.KNOWN: "k",
    fleet_fit.ASSUMED: "a",
    fleet_fit.LEAST: ">",
    fleet_fit.GIVEN: "g",
    fleet_fit.SHARED: "s",
}
HEADS = ("client", "rtt", "up", "down", "speed", "msgs", "error", "p90", "answers")
UNITS = "rtt in ms, up and down in Mbit/s, speed in GFLOP/s; error: of seconds, median and 90th percentile"
EXACT = 1e-5  # errors below are shown as 0


@dataclass(frozen=True)
class Part:
    """The errors of one part of a run (`name`, such as "fitted"): of messages, jobs and rounds."""

    name: str
    messages: Errors
    jobs: Errors
    rounds: Errors


def clients(
    measured: Measured, fleet: Fleet, speeds: Speeds, predicted: Floats, width: int, every: bool
) -> Iterator[str]:
    """Yield a table of the clients and what the marks in it mean; `predicted` are seconds of messages (n,)."""
    rows = [_row(measured, fleet, speeds, predicted, client) for client in range(measured.clients)]
    heads = [*HEADS, "online"] if len(measured.away) else [*HEADS]
    listed = rows if every else rows[:MOST]
    yield from terminal.table(heads, [row[: len(heads)] for row in listed], width)
    yield from terminal.wrapped(UNITS, width)
    if len(rows) > MOST and not every:
        yield f"... and {len(rows) - MOST} more (--all lists them)"
    used = {mark for marks in fleet.marks for mark in marks if mark}
    used |= {fleet_fit.POOLED} if speeds.pooled.any() and np.isfinite(speeds.values).any() else set()
    for mark, sign in SIGNS.items():
        if mark in used:
            yield from terminal.wrapped(f"{sign}  {mark}: {fleet_fit.MARKS[mark]}", width, hanging="   ")


def parts(found: Sequence[Part], width: int) -> Iterator[str]:
    """Yield the errors of the parts of a run."""
    for part in found:
        kinds = (("messages", part.messages), ("jobs", part.jobs), ("rounds", part.rounds))
        texts = [_errors(name, each) for name, each in kinds if each.count]
        yield from terminal.wrapped(f"median error {part.name}: {', '.join(texts) or 'nothing'}", width, hanging="  ")


def _row(measured: Measured, fleet: Fleet, speeds: Speeds, predicted: Floats, client: int) -> list[str]:
    own = (measured.moved.client == client) & measured.moved.whole & ~fleet.crowded
    error = errors(predicted[own], measured.moved.seconds[own])
    values, marks = fleet.values[client], fleet.marks[client]
    cells = [
        _cell(value, marks[which])
        for value, which in ((values[TRIP] * 1e3, TRIP), (values[UP] / 1e6, UP), (values[DOWN] / 1e6, DOWN))
    ]
    cells.append(_cell(speeds.values[client] / 1e9, fleet_fit.POOLED if speeds.pooled[client] else ""))
    asked = int(measured.asked[client])
    answers = f"{measured.answered[client]}/{asked}"
    present = f"{measured.present()[client]:.0%}".replace("%", " %")
    return [str(client), *cells, str(error.count), _percent(error.median), _percent(error.most), answers, present]


def _errors(name: str, found: Errors) -> str:
    many = f"{found.count} {name[: len(name) - (found.count == 1)]}"
    return f"{many} {_percent(found.median)} (90 %: {_percent(found.most)})"


def _cell(value: float, mark: str) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}{SIGNS.get(mark, ' ')}"


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else "0 %" if share < EXACT else f"{100 * share:.2g} %"
