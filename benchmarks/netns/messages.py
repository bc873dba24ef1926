"""Single messages under BBR over real TCP on this machine, beside the same messages in the model.

    sudo python benchmarks/netns/messages.py [--jobs 3] [--out messages.csv]
    python benchmarks/netns/messages.py --measured benchmarks/netns/bbr_messages.csv

One client and a server exchange three messages each way over a link that nobody shares, on new connections or on one
that is kept, 0.3 s apart.  No constant of the model was fitted to any of them; those called "held out" were measured
after the model of new connections was written.  The rig is that of whole runs (`__main__.py`).
"""

import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
import real
import studied

from fedsim.net.tcp import laws, window_reuse
from fedsim.net.tcp.window_reuse import CongestionWindow

BITS, TURNS = 8, 3
OPEN = (0.04, 0.1, 0.2, 0.3), (2e6, 10e6, 40e6), (20_000, 50_000, 100_000, 200_000, 300_000, 600_000)
HELD_OUT = (0.07, 0.15, 0.25, 0.4), (4e6, 20e6), (30_000, 75_000, 150_000, 400_000, 1_000_000)
KINDS = {"fresh": OPEN, "fresh, held out": HELD_OUT, "kept": OPEN}
COLUMNS = ["kind", "rtt", "rate", "size", "upload", "turn"]  # seconds, bit/s, bytes


def carried_out(kind: str, rtt: float, rate: float, size: int) -> list[dict[str, Any]]:
    """Return the messages of a real run, the last of some tries if the machine was too busy for each."""
    link = {f"{way}{what}": value for way in ("up", "down") for what, value in (("", rate), ("_buffer", rate / BITS))}
    client = {**link, "latency": rtt / 2, "loss_up": 0, "loss_down": 0}
    plan = {
        "idle_restart": True, "clients": [client], "seed": 1, "longest": 300,
        "server": dict.fromkeys(("ingress", "egress", "ingress_buffer", "egress_buffer")),
        "plan": {
            "down": size, "up": size, "seconds": [0.3], "control": "bbr", "kind": kind.partition(",")[0],
            "request": "pull", "protocol": "sync", "rounds": TURNS, "cohorts": [[0]], "want": 1, "wait": 1e6,
            "buffer": 1,
        },
    }  # fmt: skip
    seen, late = real.carried_out(plan, studied.TRIES, studied.BUSY)
    rows = []
    for number, message in enumerate(seen["messages"]):
        values = kind, rtt, rate, size, message["upload"], number // 2 if kind == "kept" else 0
        seconds = round(message["arrived"] - message["sent"], 5)
        rows.append({**dict(zip(COLUMNS, values, strict=True)), "seconds": seconds, "late": round(late, 4)})
    return rows


def errors(measured: pd.DataFrame) -> pd.DataFrame:
    """Return the model's errors in percent of the median of the same messages, by kind, direction and turn."""
    real = measured.groupby(COLUMNS)["seconds"].median()
    known = pd.Series({key: seconds for case in {key[:5] for key in real.index} for key, seconds in simulated(*case)})
    error = 100 * (known.reindex(real.index) / real - 1)
    grouped, size = (each.groupby(level=["kind", "upload", "turn"]) for each in (error, error.abs()))
    return pd.DataFrame({
        "cases": grouped.size(), "median": grouped.median(), "least": grouped.min(), "most": grouped.max(),
        "absolute": size.median(), "nine in ten": size.quantile(0.9),
    })  # fmt: skip


def simulated(kind: str, rtt: float, rate: float, size: int, upload: bool) -> Iterator[tuple[tuple[Any, ...], float]]:
    """Yield the key and the modelled seconds of each message of a run."""
    bbr, kept = laws.TransferModel(congestion_control="bbr"), kind == "kept"
    wire, capacity = laws.wire_size(bbr, size, 0.0), rate / BITS
    window = CongestionWindow(bbr.initial_window)
    for turn in range(TURNS if kept else 1):
        begun = window_reuse.start(bbr, wire, rtt, capacity, 0.0, math.inf, window)
        window = window_reuse.after(bbr, wire, rtt, 0.0, begun, window)
        opened = not kept or (turn == 0 and not upload)  # the first download opens the connection that is kept
        opening = rtt * opened + (0.0 if upload else rtt / 2)
        yield (kind, rtt, rate, size, upload, turn), opening + begun.idle + wire / capacity + rtt / 2


if __name__ == "__main__":
    cases = [(kind, *case) for kind, axes in KINDS.items() for case in itertools.product(*axes)]
    sys.exit(studied.main(__doc__, cases, carried_out, errors, "messages.csv"))
