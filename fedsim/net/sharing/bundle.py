"""Bundle: the flows over the same links of a mesh; they share one water level, whatever else their links carry."""

import simpy

from fedsim.net.sharing.flows import PARKED, Flow, Flows
from fedsim.net.sharing.link_state import EXACT
from fedsim.net.sharing.mesh_link import MeshLink


class Bundle(Flows):
    """Flows whose level is computed in `filling.py`."""

    def __init__(self, env: simpy.Environment, links: tuple[MeshLink, ...]) -> None:
        """Start without flows."""
        super().__init__(env)
        self.links = links
        self.stamp = 0
        self.stirred = False  # whether its next end must be computed again
        self._wanted = self._peak = 0.0  # the sum of ceilings, and its maximum since no flow moved

    @property
    def weight(self) -> float:
        """The total weight of all flows that move."""
        return self.free_weight + self.capped_weight

    def most_through(self, link: MeshLink) -> float:
        """Return the highest rate (bytes/s) at which its flows can reach this link, as limited by narrower links."""
        most = self._wanted + EXACT * self._peak
        for other in self.links:
            if other.capacity < most and other.before(link):
                most = other.capacity
        return most

    def stir(self) -> None:
        """Advance to the present, because something is about to change."""
        self._advance()
        self.stirred = True

    def set_level(self, level: float) -> None:
        """Run its flows at this level from now on."""
        if level != self.level:
            self.stir()
            self.level = level

    def join(self, flow: Flow, nbytes: float) -> None:
        """Add a new flow."""
        for link in self.links:
            link.flows += 1
        self._take_in(flow, nbytes)

    def leave(self, flow: Flow) -> float:
        """Remove a flow and return its remaining bytes."""
        left = self._take_out(flow)
        for link in self.links:
            link.part(self._seen)
        return left

    def set_ceiling(self, flow: Flow, ceiling: float) -> None:
        """Change a flow's ceiling."""
        left = self._take_out(flow)
        flow.ceiling = ceiling
        self._take_in(flow, left)

    def take_ended(self) -> list[Flow]:
        """Remove all flows that have ended, and return them."""
        ended = self._take_ended()
        for flow in ended:
            self._wanted -= flow.ceiling
            for link in self.links:
                link.part(self._seen)
        if ended:
            self._rest()
        return ended

    def next_end(self) -> float:
        """Return the time at which the next flow ends, if the level stays as it is."""
        return self._next_end()

    def highest(self) -> float:
        """Return the highest level that a CAPPED flow reaches; 0 if there is none."""
        top = self._highest.top() if self._capped else None
        return -top[0] if top else 0.0

    def free_highest(self) -> None:
        """Make the CAPPED flow with the highest level FREE."""
        if top := self._highest.top():
            self.stir()
            self._to_free(top[1], self._exit(top[1]))

    def cap(self, level: float) -> bool:
        """Make all FREE flows that reach their ceilings at this level CAPPED; return whether there were any."""
        if not self._free or not (top := self._lowest.top()) or top[0] > level:
            return False
        self.stir()
        while (top := self._lowest.top()) and top[0] <= level:
            self._to_capped(top[1], self._exit(top[1]))
        return True

    def _take_in(self, flow: Flow, nbytes: float) -> None:
        self._enter(flow, nbytes)
        if flow.where is PARKED:
            return
        if self._free + self._capped == 1:
            for link in self.links:
                link.bundles[self] = None
        self._wanted += flow.ceiling
        self._peak = max(self._peak, self._wanted)

    def _take_out(self, flow: Flow) -> float:
        moved = flow.where is not PARKED
        left = self._exit(flow)
        if moved:
            self._wanted -= flow.ceiling
            self._rest()
        return left

    def _rest(self) -> None:
        """If no flow moves any more, remove it from the links and restart the sums from zero."""
        if not self._free + self._capped:
            self._wanted = self._peak = 0.0
            for link in self.links:
                del link.bundles[self]
