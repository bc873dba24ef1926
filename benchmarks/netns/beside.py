"""Messages beside a bulk flow that fills a link, over real TCP on this machine, and the same messages in the model.

    sudo python benchmarks/netns/beside.py [--only bbr] [--jobs 3] [--out beside.csv]
    python benchmarks/netns/beside.py --measured benchmarks/netns/beside.csv

A client uploads without end; from the third second on messages follow one another on new connections, from the same
client over its own link or from another over the server's.  One constant of BBR was fitted to those that are "open"
(`bbr_queue_packets` in `laws.py`); those "held out" were measured afterwards.
"""

import itertools
import math
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import real
import simpy
import studied

from fedsim.core import seeds
from fedsim.core.record import SERVER, TransferRow
from fedsim.net.links.link_meter import default_buffer
from fedsim.net.network import ServerAccess, SimulatedNetwork
from fedsim.net.node import Nodes
from fedsim.net.tcp.fluid import Fluid
from fedsim.net.tcp.laws import TransferModel

BITS, WIDE, TURNS = 8, 100e6, 6
LEAST_PAUSE = 1.7  # seconds from one message to the next
GROUPS = {  # seconds, bit/s, bytes, and whether the link is the client's own
    "open": (
        *itertools.product((0.02, 0.05, 0.1, 0.2), (5e6, 20e6), (10_000, 50_000, 200_000), (True, False)),
        *itertools.product((0.02, 0.05, 0.1, 0.2), (5e6,), (500_000,), (False,)),
        *itertools.product((0.02, 0.05, 0.1, 0.2), (20e6,), (600_000, 2_000_000), (False,)),
    ),
    "held out": (
        *itertools.product((0.03, 0.07, 0.15), (10e6, 40e6), (30_000, 100_000, 300_000, 1_000_000), (False,)),
    ),
}
CASES = [
    *((group, "bbr", *case) for group, cases in GROUPS.items() for case in cases),
    *(("held out", "cubic", *case) for case in GROUPS["open"] if case[2] <= 200_000),
]
COLUMNS = ["group", "control", "rtt", "rate", "size", "own"]


@dataclass(eq=False)
class Sized:
    """Stands in for a message of so many bytes."""

    src: int
    nbytes: int
    dst: int = SERVER
    kind: str = "train"
    version: int = 0


def times(rate: float, size: int) -> list[float]:
    """Return when the messages are sent, at changing phases of the bulk flow's cycle; each has time to end before."""
    pause = max(LEAST_PAUSE, 6 * size * BITS / rate)
    return [3 + pause * turn + 0.13 * turn**2 % 0.7 for turn in range(TURNS)]


def carried_out(group: str, control: str, rtt: float, rate: float, size: int, own: bool) -> list[dict[str, Any]]:
    """Return the messages of a real run, the last of some tries if the machine was too busy for each."""
    sent, limit = times(rate, size), {"rate": rate, "buffer": default_buffer(rate / BITS)}
    wide, none = {"rate": WIDE, "buffer": default_buffer(WIDE / BITS)}, {"rate": None, "buffer": None}

    def link(name: str, values: dict[str, Any]) -> dict[str, Any]:
        return {name: values["rate"], f"{name}_buffer": values["buffer"]}

    client = {**link("up", limit if own else wide), **link("down", wide), "latency": rtt / 2}
    plan = {
        "idle_restart": True, "clients": [{**client, "loss_up": 0, "loss_down": 0}] * 2, "seed": 1, "longest": 300,
        "server": {**link("ingress", none if own else limit), **link("egress", none)},
        "plan": {
            "down": int(rate / BITS * (sent[-1] + 60)), "up": size, "seconds": sent, "control": control,
            "kind": "fresh", "request": "pull", "protocol": "beside", "rounds": 1, "cohorts": [[0 if own else 1]],
            "want": 1, "wait": 1e6, "buffer": 1,
        },
    }  # fmt: skip
    seen, late = real.carried_out(plan, studied.TRIES, studied.BUSY)
    case = dict(zip(COLUMNS, (group, control, rtt, rate, size, own), strict=True))
    seconds = [round(message["arrived"] - message["sent"], 5) for message in seen["messages"]]
    return [{**case, "seconds": each, "late": round(late, 4)} for each in seconds]


def errors(measured: pd.DataFrame) -> pd.DataFrame:
    """Return the model's errors in percent of the median of the same messages, by group, control and size."""
    found = measured.groupby(COLUMNS)["seconds"].median()
    known = pd.Series({case: np.median(simulated(*case[1:])) for case in found.index})
    error = 100 * (known.rename_axis(found.index.names) / found - 1)
    table = [error.groupby(level=by) for by in (["group", "control", "size"], ["group", "control"])]
    return pd.concat([
        pd.DataFrame({
            "cases": each.size(), "median": each.median(), "least": each.min(), "most": each.max(),
            "absolute": each.apply(lambda some: some.abs().median()),
        })
        for each in table
    ])  # fmt: skip


def simulated(control: str, rtt: float, rate: float, size: int, own: bool) -> list[float]:
    """Return the modelled seconds of the messages of a run."""
    env, rows, buffer = simpy.Environment(), list[TransferRow](), default_buffer(rate / BITS)
    server = ServerAccess() if own else ServerAccess(rate, math.inf, buffer, math.inf)
    latency, uplink, downlink = (np.full(2, value) for value in (rtt / 2, rate if own else WIDE, WIDE))
    network = SimulatedNetwork(
        env, Nodes(latency, uplink, downlink), rng=partial(seeds.generator, 0), record=rows.append, server=server,
        model=Fluid(TransferModel(congestion_control=control)),
    )  # fmt: skip
    sent = times(rate, size)
    network.send(Sized(0, int(rate / BITS * (sent[-1] + 60))))  # type: ignore[arg-type]
    for at in sent:
        env.run(at)
        network.send(Sized(0 if own else 1, size))  # type: ignore[arg-type]
    env.run()
    return [row.arrived - row.sent for row in rows if row.nbytes == size]


if __name__ == "__main__":
    sys.exit(studied.main(__doc__, CASES, carried_out, errors, "beside.csv"))
