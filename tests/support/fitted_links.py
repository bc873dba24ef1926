"""Messages drawn from the network's own model over links that are known, as if they had been measured."""

from dataclasses import replace

import numpy as np

from fedsim.calibrate.forward import Forward
from fedsim.calibrate.measured import Moved
from fedsim.net.channels.connection import ConnectionPolicy
from fedsim.net.tcp.fluid import Fluid
from fedsim.net.transports.tcp import Tcp

FRESH = Forward(Fluid(), ConnectionPolicy(), Tcp())
EXCHANGE = Forward(Fluid(), ConnectionPolicy("exchange"), Tcp())
KEPT = Forward(Fluid(), ConnectionPolicy("kept"), Tcp())
APART = 100.0  # seconds between two messages


def moved(link, sizes, forward=FRESH, repeats=4, ways=(False, True), client=0, late=None):
    """Messages of every size and way over one link (round trip, uplink, downlink); `late` are factors of seconds."""
    rows = [(size, way) for _ in range(repeats) for size in sizes for way in ways]
    count = len(rows)
    nbytes, upload = np.array([size for size, _ in rows]), np.array([way for _, way in rows])
    sent, whole = APART * np.arange(count), np.ones(count, dtype=bool)
    found = Moved(np.full(count, client), upload, nbytes, sent, sent + 1, whole, np.zeros(count, dtype=np.int64))
    for _ in range(3):  # what a kept connection has left depends on when the message before has arrived
        found = with_seconds(found, forward.of(found)(*link))
    return found if late is None else with_seconds(found, found.seconds * np.resize(late, count))


def with_seconds(given, seconds):
    return replace(given, arrived=given.sent + seconds)


def together(*several):
    """The messages of several clients, in the order of their sending."""
    names = ("client", "upload", "nbytes", "sent", "arrived", "whole", "wire")
    joined = Moved(*(np.concatenate([getattr(each, name) for each in several]) for name in names))
    return joined.take(np.argsort(joined.sent, kind="stable"))
