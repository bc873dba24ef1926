"""CohortChannel: the access links of many clients in one direction, each with at most one passage at a time.

What `AccessChannel` does for any number of passages is done here for cohorts, in which a client receives one
message and then sends one: a passage has the whole access link, so that only shared links can be full and
make it wait.

Not modelled: token buckets, several passages of one client in one direction.
"""

import math

import simpy

from fedsim.core.arrays import Floats
from fedsim.net.channels.channel import BITS, Channel, Passage, SharedRoute
from fedsim.net.model import Access, NetworkModel
from fedsim.net.node import Nodes


class CohortChannel(Channel):
    """One channel for the passages of all clients in one direction, over one shared link."""

    def __init__(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        model: NetworkModel,
        upload: bool,
        route: SharedRoute,
        carried: Floats,
    ) -> None:
        """Start empty; bytes are counted in `carried`, by client."""
        super().__init__(env, model)
        self.upload, self.route = upload, route
        self._carried = carried
        self._own, self._opposite = nodes.rates.current[upload], nodes.rates.current[not upload]
        self._ceilings: dict[int, float] = {}  # of each client met so far, before a loss

    def ceiling(self, passage: Passage, flows: int) -> float:
        """Return the ceiling (bytes/s) of a passage, the only one on its access link."""
        client = passage.transfer.client
        if passage.limit == math.inf and (known := self._ceilings.get(client)) is not None:
            return known
        rate, reverse = self._own.item(client) / BITS, self._opposite.item(client) / BITS
        access = Access(rate, reverse, self.route.slowest, 1)
        ceiling = self._model.ceiling(passage.transfer, access, passage.limit)
        if passage.limit == math.inf:
            self._ceilings[client] = ceiling
        return ceiling

    def change(self, client: int) -> None:
        """Set a client's ceilings again, after its rates have changed."""
        self._ceilings.pop(client, None)
        for passage, flow in self._flows.items():
            if passage.transfer.client == client:
                self.route.pool.set_ceiling(flow, self.ceiling(passage, 1))

    def carry(self, passage: Passage, nbytes: float) -> None:
        """Count bytes that have crossed the access link."""
        self._carried[passage.transfer.client] += nbytes
