"""Prices: what a run's rows take in energy, carbon and money, by who pays and for what.

Every figure is an estimate, so all sums exist three times: with all figures low, typical and high.  Formulas follow the
rows that a run writes, and change no simulated time:

* a client's computing (spans train, mask, mix): seconds times the watts of its device;
* its idling, the rest of the run: seconds times its idle watts, also while it is offline (0 unless it counts);
* its link: wire bytes times joules a byte, plus the radio's watts from the sending to the end of each message;
* the network: wire bytes times joules a byte, once for each client at whose end they move;
* the server and every edge aggregator: watts that rise linearly with the share of cores that compute, times PUE, over
  the whole run; rent by the hour; a charge for bytes sent.

Bytes count whatever became of their message.  Joules are multiplied by the carbon of the place where they are drawn.
Clients and network pay their electricity, and the server's is in its rent.  What has ended by a moment counts at that
moment.  Not modelled: two messages of a client at once sharing a radio's watts (each counts in full), the network's
power without traffic, making the devices.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedsim.core.arrays import Floats
from fedsim.core.record import Row, SpanRow, TransferRow

ESTIMATES = ("low", "typical", "high")
TYPICAL = 1
QUANTITIES = ("joules", "grams", "usd")
PARTS = (  # who pays, and for what
    ("clients", "computing"), ("clients", "idle"), ("clients", "link"), ("network", "traffic"),
    ("server", "computing"), ("server", "idle"), ("server", "rent"), ("server", "traffic"),
)  # fmt: skip
PAYERS = tuple(dict.fromkeys(payer for payer, _ in PARTS))
COMPUTING, IDLE, LINK, NETWORK, SERVING, STANDING, RENT, SENDING = range(len(PARTS))
WORK = ("train", "mask", "mix")  # spans in which a client computes


class Charge(NamedTuple):
    """What some rows take of one part: joules, grams and US dollars, each (n,) or a number."""

    part: int
    joules: Any
    grams: Any
    usd: Any


@dataclass(frozen=True, eq=False)
class Prices:
    """The figures of one run: those of clients (3, K), those of the server (3,), with PUE in its watts."""

    watts: Floats
    idle_watts: Floats
    up: Floats  # J a byte
    down: Floats
    radio: Floats  # W
    network: Floats  # J a byte
    data: Floats  # USD a byte
    carbon: Floats  # g a joule
    electricity: Floats  # USD a joule
    server_watts: Floats
    server_idle_watts: Floats
    server_carbon: Floats  # g a joule
    server_network: Floats  # J a byte of a message between servers
    rent: Floats  # USD a second
    sent: Floats  # USD a byte
    cores: int
    servers: int

    def of_transfers(self, e: int, src: Any, dst: Any, wire: Any, seconds: Any) -> Iterator[Charge]:
        """Yield what messages take, by the estimate `e`; all arguments but that are (n,)."""
        paid = self.electricity[e]
        at_ends = [(src, self.up), (dst, self.down)]
        ends = [(node >= 0, np.maximum(node, 0), rate[e]) for node, rate in at_ends]
        link = [is_one * (rate[at] * wire + self.radio[e][at] * seconds) for is_one, at, rate in ends]
        data = sum(is_one * self.data[e][at] * wire for is_one, at, _ in ends)
        network = [is_one * self.network[e][at] * wire for is_one, at, _ in ends]
        between = ((src < 0) & (dst < 0)) * self.server_network[e] * wire
        carbon = [self.carbon[e][at] for _, at, _ in ends]

        def grams(joules: list[Any]) -> Any:
            return joules[0] * carbon[0] + joules[1] * carbon[1]

        yield Charge(LINK, link[0] + link[1], grams(link), (link[0] + link[1]) * paid + data)
        moved = network[0] + network[1] + between
        yield Charge(NETWORK, moved, grams(network) + between * self.server_carbon[e], moved * paid)
        yield Charge(SENDING, 0.0 * wire, 0.0 * wire, (src < 0) * self.sent[e] * wire)

    def of_work(self, e: int, client: Any, seconds: Any) -> Iterator[Charge]:
        """Yield what clients' spans of computing take, by the estimate `e`: (n,) each."""
        for part, joules in (
            (COMPUTING, self.watts[e][client] * seconds),
            (IDLE, -self.idle_watts[e][client] * seconds),
        ):
            yield Charge(part, joules, joules * self.carbon[e][client], joules * self.electricity[e])

    def of_serving(self, e: int, seconds: Any) -> Iterator[Charge]:
        """Yield what spans of one computing core of a server take, by the estimate `e`: (n,)."""
        share = seconds / self.cores
        for part, joules in ((SERVING, self.server_watts[e] * share), (STANDING, -self.server_idle_watts[e] * share)):
            yield Charge(part, joules, joules * self.server_carbon[e], 0.0 * joules)

    def of_time(self, e: int, seconds: Any) -> Iterator[Charge]:
        """Yield what the run's time takes if nobody computes, by the estimate `e`: (n,) for n moments."""
        idle, paid = self.idle_watts[e], self.electricity[e]
        joules = idle.sum() * seconds
        yield Charge(IDLE, joules, (idle * self.carbon[e]).sum() * seconds, joules * paid)
        standing = self.servers * self.server_idle_watts[e] * seconds
        yield Charge(STANDING, standing, standing * self.server_carbon[e], 0.0 * standing)
        yield Charge(RENT, 0.0 * seconds, 0.0 * seconds, self.servers * self.rent[e] * seconds)


def bill(prices: Prices, transfers: Mapping[str, Any], spans: Mapping[str, Any], times: Floats) -> Floats:
    """Return what had been taken at each of `times` (s, ascending): (times, PARTS, QUANTITIES, ESTIMATES).

    The tables are columns by name.  What ends after the last of `times` is left out.
    """
    src, dst, wire = (np.asarray(transfers[name]) for name in ("src", "dst", "wire_bytes"))
    took = np.asarray(transfers["arrived"]) - np.asarray(transfers["sent"])
    client, what = np.asarray(spans["client"]), np.asarray(spans["what"])
    long, works = np.asarray(spans["end"]) - np.asarray(spans["start"]), np.isin(what, WORK) & (client >= 0)
    serves = (what == "serve") & (client < 0)
    ends = np.searchsorted(times, np.asarray(spans["end"]), side="left")
    arrives = np.searchsorted(times, np.asarray(transfers["arrived"]), side="left")
    whole = np.zeros((len(times), len(PARTS), len(QUANTITIES), len(ESTIMATES)))
    for e in range(len(ESTIMATES)):
        for places, charges in (
            (arrives, prices.of_transfers(e, src, dst, wire, took)),
            (ends[works], prices.of_work(e, client[works], long[works])),
            (ends[serves], prices.of_serving(e, long[serves])),
        ):
            for charge in charges:
                for q, values in enumerate(charge[1:]):
                    sums = np.bincount(places, values, minlength=len(times) + 1)[: len(times)]
                    whole[:, charge.part, q, e] += sums.cumsum()
        for charge in prices.of_time(e, times):
            for q, values in enumerate(charge[1:]):
                whole[:, charge.part, q, e] += values
    return whole


class CostMeter:
    """Adds up the typical costs of rows as they are written, for budgets that end a run."""

    def __init__(self, prices: Prices) -> None:
        """Start with nothing spent."""
        self.prices, self._spent = prices, np.zeros(len(QUANTITIES))

    def see(self, row: Row) -> None:
        """Enter a row; those of other tables cost nothing."""
        if isinstance(row, TransferRow):
            src, dst = np.array([row.src]), np.array([row.dst])
            charges = self.prices.of_transfers(TYPICAL, src, dst, row.wire_bytes, row.arrived - row.sent)
        elif isinstance(row, SpanRow) and row.what in WORK and row.client >= 0:
            charges = self.prices.of_work(TYPICAL, row.client, row.end - row.start)
        elif isinstance(row, SpanRow) and row.what == "serve" and row.client < 0:
            charges = self.prices.of_serving(TYPICAL, row.end - row.start)
        else:
            return
        self._add(self._spent, charges)

    def spent(self, quantity: str, now: float) -> float:
        """Return how much has been spent of joules, grams or usd at this moment."""
        spent = self._spent.copy()
        self._add(spent, self.prices.of_time(TYPICAL, now))
        return float(spent[QUANTITIES.index(quantity)])

    def _add(self, spent: Floats, charges: Iterator[Charge]) -> None:
        for charge in charges:
            spent += [float(np.sum(values)) for values in charge[1:]]
