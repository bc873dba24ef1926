"""Uploads that share a token bucket with a small queue, over real TCP on this machine, and the same in the model.

    sudo python benchmarks/netns/sharing.py [--only cubic] [--jobs 2] [--out sharing.csv]
    python benchmarks/netns/sharing.py --measured benchmarks/netns/sharing.csv

Two to four clients upload equal messages on new connections, at once or one after another, over a server's link
whose bucket lets some packets pass at once.  How slow start overflows a short queue was written with those in view that
are "open"; those "held out" were measured afterwards.  No constant was fitted to either.
"""

import itertools
import sys
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import real
import simpy
import studied
from beside import BITS, Sized

from fedsim.core import seeds
from fedsim.core.record import TransferRow
from fedsim.net.network import ServerAccess, SimulatedNetwork
from fedsim.net.node import Nodes
from fedsim.net.tcp.fluid import Fluid
from fedsim.net.tcp.laws import TransferModel

REPEATS, SEEDS = 3, 15
OWN, BURST = 100e6, 16_000.0  # bit/s of a client's own link, which never limits; bytes
OWN_BUFFER = OWN / BITS  # a second of it
OPEN = ((5e6, 500_000), (20e6, 2_000_000)), (0.02, 0.05, 0.15), (2, 4), (15e3, 50e3), (0.0, 0.5)
HELD_OUT = ((10e6, 1_000_000), (40e6, 3_000_000)), (0.03, 0.1, 0.2), (3,), (25e3, 100e3), (0.0, 0.3)
CASES = [
    *(("open", control, *case) for control in ("cubic", "bbr") for case in itertools.product(*OPEN)),
    *(("held out", "cubic", *case) for case in itertools.product(*HELD_OUT)),
]
COLUMNS = ["group", "control", "rate", "size", "rtt", "flows", "queue", "apart"]  # in bits, bytes and seconds


def starts(rtt: float, flows: int, apart: float) -> list[float]:
    """Return when the uploads begin: each follows a request of one byte, which takes a round trip and a half."""
    return [1.5 * rtt + apart * flow for flow in range(flows)]


def carried_out(
    group: str, control: str, link: tuple[float, int], rtt: float, flows: int, queue: float, apart: float
) -> list[dict[str, Any]]:
    """Return the uploads of some real runs, each the last of some tries if the machine was too busy."""
    rate, size = link
    client = {
        "up": OWN, "down": OWN, "up_buffer": OWN_BUFFER, "down_buffer": OWN_BUFFER, "latency": rtt / 2, "loss_up": 0,
        "loss_down": 0,
    }  # fmt: skip
    plan = {
        "idle_restart": True, "clients": [client] * flows, "seed": 1, "longest": 300,
        "server": {
            "ingress": rate, "ingress_buffer": queue, "ingress_burst": BURST, "egress": None, "egress_buffer": None
        },
        "plan": {
            "down": 1, "up": size, "seconds": [apart * flow for flow in range(flows)], "control": control,
            "kind": "fresh", "request": "pull", "protocol": "sync", "rounds": 1, "cohorts": [[*range(flows)]],
            "want": flows, "wait": 1e6, "buffer": 1,
        },
    }  # fmt: skip
    case, rows = dict(zip(COLUMNS, (group, control, rate, size, rtt, flows, queue, apart), strict=True)), []
    for repeat in range(REPEATS):
        seen, late = real.carried_out({**plan, "seed": 1 + 10 * repeat}, studied.TRIES, studied.BUSY)
        run = {**case, "repeat": repeat, "late": round(late, 4)}
        for message in seen["messages"]:
            if message["upload"]:
                seconds = round(message["arrived"] - message["sent"], 5)
                rows.append({**run, "flow": message["client"], "seconds": seconds})
    return rows


def errors(measured: pd.DataFrame) -> pd.DataFrame:
    """Return the model's errors in percent of the median of repetitions, by group, control and when flows begin.

    Flows that begin at once are alike, and compared by rank; the others one by one.  `last` is the median size of the
    error of the slowest flow of each case.
    """
    found = ranked(measured).groupby([*COLUMNS, "flow"])["seconds"].median()
    known = ranked(pd.concat([simulated(*case) for case in dict.fromkeys(key[:-1] for key in found.index)]))
    known = known.groupby([*COLUMNS, "flow"])["seconds"].median()
    error = 100 * (known / found - 1)
    last = 100 * (known.groupby(COLUMNS).max() / found.groupby(COLUMNS).max() - 1)
    by = ["group", "control", "apart"]
    table = [tuple(each.groupby(level=levels) for each in (error, last)) for levels in (by, by[:2])]
    return pd.concat([
        pd.DataFrame({
            "flows": each.size(), "median": each.median(), "least": each.min(), "most": each.max(),
            "absolute": each.apply(lambda some: some.abs().median()),
            "last": slowest.apply(lambda some: some.abs().median()),
        })
        for each, slowest in table
    ])  # fmt: skip


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the rank of a flow in its run in place of its number, where all begin at once."""
    rank = rows.groupby([*COLUMNS, "repeat"])["seconds"].rank(method="first") - 1
    return rows.assign(flow=rows["flow"].where(rows["apart"] > 0, rank).astype(int))


def simulated(
    group: str, control: str, rate: float, size: int, rtt: float, flows: int, queue: float, apart: float
) -> pd.DataFrame:
    """Return the modelled uploads of a case, a repetition for each seed."""
    case, rows = dict(zip(COLUMNS, (group, control, rate, size, rtt, flows, queue, apart), strict=True)), []
    for seed in range(SEEDS):
        env, moved = simpy.Environment(), list[TransferRow]()
        network = SimulatedNetwork(
            env, Nodes(*(np.full(flows, value) for value in (rtt / 2, OWN, OWN))), rng=partial(seeds.generator, seed),
            record=moved.append, server=ServerAccess(rate, None, queue, None, BURST),
            model=Fluid(TransferModel(congestion_control=control)),
        )  # fmt: skip
        for client, at in enumerate(starts(rtt, flows, apart)):
            if at > env.now:
                env.run(at)
            network.send(Sized(client, size))  # type: ignore[arg-type]
        env.run()
        rows += [{**case, "repeat": seed, "flow": row.src, "seconds": row.arrived - row.sent} for row in moved]
    return pd.DataFrame(rows)


if __name__ == "__main__":
    sys.exit(studied.main(__doc__, CASES, carried_out, errors, "sharing.csv"))
