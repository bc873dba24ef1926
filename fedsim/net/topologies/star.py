"""Star: every client communicates with the server only."""

from dataclasses import dataclass

import numpy as np

from fedsim.core.record import SERVER
from fedsim.net.topology import Layout, Route, Topology


@dataclass(frozen=True)
class Star(Topology):
    """All clients share the server's access link, `ingress` for uploads and `egress` for downloads.

    Not modelled: the network between a client's access link and the server's.
    """

    def lay(self, clients: int, rng: np.random.Generator) -> Layout:
        """Return the layout; nothing in it is random."""
        return _Star(clients)


class _Star(Layout):
    def route(self, src: int, dst: int) -> Route:
        if dst == SERVER and self.is_client(src):
            return Route(src, ("ingress",), None)
        if src == SERVER and self.is_client(dst):
            return Route(None, ("egress",), dst)
        raise ValueError(
            f"there is no route from {src} to {dst}: in a star one end must be the server ({SERVER}), the other a "
            f"client from 0 to {self.clients - 1}"
        )
