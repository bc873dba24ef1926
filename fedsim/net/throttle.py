"""Throttle: how an effect reduces a shared link's capacity, so that several effects on one link do not undo each other.

Each effect holds its own throttle and sets the share of the capacity that it leaves; the shares multiply.  Not
modelled: a link that is down entirely; it keeps a tiny capacity here, so that the other effects' shares stay known.
"""

import math

from fedsim.core.errors import UserError
from fedsim.core.units import nearest
from fedsim.net.effect import Network, Shared

NEXT_TO_NOTHING = 2.0**-60  # of a Gbit/s: less than a byte in 300 years; a power of two divides out exactly


class Throttle:
    """One effect's hold on a link of finite capacity."""

    def __init__(self, link: Shared) -> None:
        """Leave the full capacity at first."""
        self._link = link
        self._share = 1.0
        self._base = self._set = link.capacity

    def leave(self, share: float) -> None:
        """Leave this share of the capacity without this effect, from now on; 0 is an outage, 1 removes the limit."""
        if self._link.capacity != self._set:  # another effect has changed it since
            self._base = self._link.capacity / self._share
        self._share = max(share, NEXT_TO_NOTHING)
        self._set = self._base * self._share
        self._link.set_capacity(self._set)


def throttle(network: Network, name: str, effect: str) -> Throttle:
    """Return a throttle on the shared link of that name.  Raises UserError if there is none, or if it is unlimited."""
    if name not in network.shared:
        near = nearest(name, network.shared)
        mean = f"; did you mean {near!r}?" if near else "."
        raise UserError(f"{effect}: option 'link': no link {name!r} is shared{mean} There are: {_names(network)}")
    link = network.shared[name]
    if math.isinf(link.capacity):
        raise UserError(
            f"{effect}: option 'link': the link {name!r} is unlimited, so it has no share to take; give it a rate "
            "(network.server), or leave the effect out (under network.model: naive no link is shared)"
        )
    return Throttle(link)


def _names(network: Network) -> str:
    return ", ".join(network.shared)
