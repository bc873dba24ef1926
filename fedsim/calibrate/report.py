"""Report a fit as lines for a terminal: clients, what marks mean, and how well all is predicted.

A value that the run does not tell is not shown; what is said instead is which measurement would tell it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis import terminal
from fedsim.calibrate import fleet_fit
from fedsim.calibrate.fit import DOWN, RTT, UP
from fedsim.calibrate.fleet_fit import Fleet
from fedsim.calibrate.forward import BITS
from fedsim.calibrate.measured import Measurements, Moved, Spans
from fedsim.calibrate.quality import Errors, errors
from fedsim.calibrate.speeds import Speeds
from fedsim.core.arrays import Floats

MOST = 20  # clients that are listed
SIGNS = {fleet_fit.KNOWN: "k", fleet_fit.ROUGH: "r", fleet_fit.SHARED: "s"}
HIDDEN = "-  not identifiable by these messages and jobs; the table has a value with which this run repeats"
PROBES = (10, 100)  # Mbit/s, rates for which the output names the message size that would identify them
HEADS = ("client", "rtt", "up", "down", "speed", "msgs", "error", "p90", "answers")
UNITS = "rtt in ms, up and down in Mbit/s, speed in GFLOP/s; error: of seconds, median and 90th percentile"
EXACT = 1e-5  # errors below are shown as 0


@dataclass(frozen=True)
class PartErrors:
    """The errors of one part of a run (`name`, such as "fitted"): of messages, jobs and rounds."""

    name: str
    messages: Errors
    jobs: Errors
    rounds: Errors


def clients(
    measured: Measurements, fleet: Fleet, speeds: Speeds, predicted: Floats, width: int, every: bool
) -> Iterator[str]:
    """Yield a table of the clients and what the marks in it mean; `predicted` are seconds of messages (n,)."""
    rows = [_row(measured, fleet, speeds, predicted, client) for client in range(measured.clients)]
    heads = [*HEADS, "online"] if len(measured.offline) else [*HEADS]
    listed = rows if every else rows[:MOST]
    yield from terminal.table(heads, [row[: len(heads)] for row in listed], width)
    yield from terminal.wrapped(UNITS, width)
    if len(rows) > MOST and not every:
        yield f"... and {len(rows) - MOST} more (--all lists them)"
    used = {mark for marks in fleet.marks for mark in marks if mark}
    if used & fleet_fit.UNKNOWN or not speeds.identifiable.all():
        yield from terminal.wrapped(HIDDEN, width, hanging="   ")
    for mark, sign in SIGNS.items():
        if mark in used:
            yield from terminal.wrapped(f"{sign}  {mark}: {fleet_fit.MARKS[mark]}", width, hanging="   ")


def parts(halves: Sequence[PartErrors], width: int) -> Iterator[str]:
    """Yield the errors of the parts of a run."""
    for part in halves:
        kinds = (("messages", part.messages), ("jobs", part.jobs), ("rounds", part.rounds))
        texts = [_errors(name, each) for name, each in kinds if each.count]
        yield from terminal.wrapped(f"median error {part.name}: {', '.join(texts) or 'nothing'}", width, hanging="  ")


def carrier(started: Spans, until: float, down: float, up: float) -> str:
    """Return what Flower took beside the links."""
    seconds = started.seconds[started.end <= until]
    process = f" (starting a process {np.median(seconds):.2g} s, median of {len(seconds)})" if len(seconds) else ""
    return (
        f"Flower took {down:.2g} s of each download{process} and {up:.2g} s of each upload, which count as no link: the"
        " scenario has them as network.transport"
    )


def losses(lost: Floats, fitted: bool, kept: bool) -> Iterator[str]:
    """Yield how many packets were lost (K, 2), and what they change on `kept` connections."""
    if lost.any():
        share = f"up to {100 * lost.max():.2g} % of a client's packets were sent again"
        yield f"{share}, fitted as losses" if fitted else f"{share}: --losses fits such losses too"
        if kept:
            yield "losses have shrunk the windows of kept connections, which is not predicted: expect large errors"


def congestion(messages: int) -> Iterator[str]:
    """Yield how many messages are left out of the errors."""
    if messages:
        yield f"{messages} messages may have waited for the server's link; they are not in these errors"


def remedies(measured: Measurements, fleet: Fleet, speeds: Speeds, moved: Moved) -> Iterator[str]:
    """Yield which measurements would tell what is not identifiable."""
    lacking = [{marks[which] for marks in fleet.marks} & fleet_fit.UNKNOWN for which in (RTT, UP, DOWN)]
    if lacking[RTT]:
        runs = ", or a run with network.connection: {kind: kept} or messages of several sizes"
        others = "" if measured.carried else runs
        yield f"round trips that are not shown: ping times would tell them (--known TABLE with client, rtt_ms){others}"
    for name, unknown, upload in (("uplinks", lacking[UP], True), ("downlinks", lacking[DOWN], False)):
        messages = moved.take(moved.whole & (moved.upload == upload))
        if unknown and len(messages):
            seconds = float(np.median(messages.seconds))
            mbytes = [1.0 * max(seconds * rate / BITS, messages.nbytes.max() / 1e6) for rate in PROBES]
            each = zip(mbytes, PROBES, strict=True)
            sizes = " and ".join(f"of {float(f'{size:.1g}'):g} MB up to {rate} Mbit/s" for size, rate in each)
            beside = "beside these, " if measured.carried else ""
            yield f"{name} that are not shown: {beside}messages {sizes} would tell them (a larger model)"
    if len(measured.worked) and np.isfinite(speeds.values).any() and not speeds.identifiable.all():
        yield (
            "speeds that are not shown: jobs of different lengths would tell them (a second run with several times the"
            " training.local_steps), or --known TABLE with client, gflops"
        )


def _row(measured: Measurements, fleet: Fleet, speeds: Speeds, predicted: Floats, client: int) -> list[str]:
    rows = (measured.moved.client == client) & measured.moved.whole & ~fleet.congested
    error = errors(predicted[rows], measured.moved.seconds[rows])
    values = fleet.values[client] * (1e3, 1.0, 1.0) / (1.0, 1e6, 1e6)
    cells = [_cell(value, mark) for value, mark in zip(values, fleet.marks[client], strict=True)]
    cells.append(_cell(speeds.values[client] / 1e9, "" if speeds.identifiable[client] else fleet_fit.GIVEN))
    answers = f"{measured.answered[client]}/{measured.asked[client]}"
    present = f"{measured.present()[client]:.0%}".replace("%", " %")
    return [str(client), *cells, str(error.count), _percent(error.median), _percent(error.most), answers, present]


def _errors(name: str, off: Errors) -> str:
    many = f"{off.count} {name[: len(name) - (off.count == 1)]}"
    return f"{many} {_percent(off.median)} (90 %: {_percent(off.most)})"


def _cell(value: float, mark: str) -> str:
    return "-" if math.isnan(value) or mark in fleet_fit.UNKNOWN else f"{value:.3g}{SIGNS.get(mark, ' ')}"


def _percent(share: float) -> str:
    if math.isnan(share):
        return "-"
    return "0 %" if share < EXACT else f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
