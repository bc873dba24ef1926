"""What links may carry, read from a scenario's own words and its table of clients; nothing of fedsim is imported.

Drawn values are bounded: the least latency and the highest rate that a draw can give, 0 and infinity where it has no
bound.  Rates are bytes a second.  The units are those that `draw` writes.
"""

import io
import math
import re
from dataclasses import dataclass
from typing import Any

import pandas as pd

UNITS = {
    "s": 1, "ms": 1e-3, "us": 1e-6, "min": 60, "h": 3600, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "MiB": 2**20, "bit/s": 1 / 8, "kbit/s": 125, "kbps": 125, "Mbit/s": 125e3, "Gbit/s": 125e6, "Tbit/s": 125e9,
    "kB/s": 1e3, "MiB/s": 2**20,
}  # fmt: skip
TRACED = 1e6  # bytes a second: the highest rate of the traces that `draw` writes


@dataclass(frozen=True)
class End:
    """One end of a transfer in one direction: least seconds of latency, most bytes a second, and a bucket's bytes."""

    latency: float = 0.0
    rate: float = math.inf
    burst: float = 0.0


def quantity(text: Any) -> float:
    """Return a quantity in seconds, bytes or bytes a second."""
    number, _, unit = str(text).strip().partition(" ")
    return float(number) * (UNITS[unit] if unit else 1)


def bounds(text: Any) -> tuple[float, float]:
    """Return the least and the most that a quantity or a draw can give."""
    call = re.fullmatch(r"(\w+)\((.*)\)", str(text))
    if call is None:
        return quantity(text), quantity(text)
    if call[1] in ("uniform", "choice"):
        values = [quantity(each) for each in call[2].split(",")]
        return min(values), max(values)
    return 0.0, math.inf


class Links:
    """The ends of a world's transfers."""

    def __init__(self, scenario: dict[str, Any], files: dict[str, str]) -> None:
        """Read the sections `network` and `clients`, and the table that the latter names."""
        self.network = scenario["network"]
        self.topology = self.network["topology"]
        table = scenario["clients"].get("table")
        self.table = pd.read_csv(io.StringIO(files[table])).set_index("client") if table else pd.DataFrame()
        self._known: dict[tuple[int, int], list[End]] = {}
        self.naive = self.network["model"] == "naive"
        self.traced = any(effect["name"] == "trace" for effect in self.network["effects"])

    def cell(self, client: int, column: str) -> float | None:
        """Return a client's value in the table; None where there is none."""
        if column not in self.table or client not in self.table.index or math.isnan(self.table[column][client]):
            return None
        return float(self.table[column][client])

    def end(self, node: int, upload: bool) -> End:
        """Return a client's end (number from 0), the server's (-1), or an edge's, which is not bounded here."""
        if node == -1:
            server, side = self.network["server"], "ingress" if upload else "egress"
            if side not in server or self.naive:
                return End()
            return End(0.0, quantity(server[side]), quantity(server.get(f"{side}_burst", 0)))
        if node < -1:
            return End()
        way = "up" if upload else "down"
        round_trip, megabits = self.cell(node, "rtt_ms"), self.cell(node, f"{way}link_mbps")
        latency = bounds(self.network.get("latency", 0))[0] if round_trip is None else round_trip / 2000
        if megabits is not None:
            rate = megabits * 125e3
        else:
            rate = bounds(self.network[f"{way}link"])[1] if f"{way}link" in self.network else math.inf
        burst = self.cell(node, f"{way}_burst_bytes") or 0.0
        return End(latency, max(rate, TRACED) if self.traced else rate, burst)

    def ends(self, src: int, dst: int) -> list[End]:
        """Return all that a transfer passes: both ends, and the way between an edge and the server."""
        if (src, dst) not in self._known:
            self._known[src, dst] = self._passed(src, dst)
        return self._known[src, dst]

    def _passed(self, src: int, dst: int) -> list[End]:
        upload = src >= 0 or (src < -1 and dst == -1)
        passed = [self.end(src, src >= 0 or upload), self.end(dst, dst < 0 and upload)]
        if self.topology["name"] == "tree" and -1 in (src, dst):
            rate = self.topology["uplink" if upload else "downlink"]
            passed.append(End(quantity(self.topology["latency"]), math.inf if self.naive else quantity(rate)))
        return passed
