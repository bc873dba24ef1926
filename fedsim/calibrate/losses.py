"""Losses: the share of packets that were lost on each client's link, from what moved on the wire beyond headers.

It holds where a run records what really moved, repeats included, as simulated runs do, and as TCP's own counters tell;
a run whose wire bytes contain other overhead would seem to lose packets.  A repeat counts as a lost packet.
"""

import numpy as np

from fedsim.calibrate.measured import Floats, Moved
from fedsim.net import tcp
from fedsim.net.tcp import TransferModel


def fitted(constants: TransferModel, moved: Moved, clients: int) -> Floats:
    """Return the losses up and down of each client (K, 2); 0 without messages, or where less than a byte a message."""
    found = np.zeros((clients, 2))
    for column, upload in enumerate((True, False)):
        own = moved.take(moved.whole & (moved.upload == upload) & (moved.wire > 0))
        plain = tcp.wire_size(constants, own.nbytes, np.zeros(len(own)))
        bare = np.bincount(own.client, plain, minlength=clients)
        wire = np.bincount(own.client, own.wire, minlength=clients)
        some = wire - bare > np.bincount(own.client, minlength=clients)
        found[some, column] = 1 - bare[some] / wire[some]
    return found
