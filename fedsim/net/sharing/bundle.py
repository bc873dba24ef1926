"""Bundle: the flows that cross the same pipes; they share one water level, whatever else their pipes carry."""

import simpy

from fedsim.net.sharing.line import EXACT
from fedsim.net.sharing.pipe import Pipe
from fedsim.net.sharing.pool import PARKED, Flow, Pool


class Bundle(Pool):
    """A pool whose level `filling.py` finds."""

    def __init__(self, env: simpy.Environment, pipes: tuple[Pipe, ...]) -> None:
        """Start without flows."""
        super().__init__(env)
        self.pipes = pipes
        self.stamp = 0
        self.stirred = False  # whether its next end has to be found again
        self._wanted = self._peak = 0.0  # sum of ceilings, and the most it has been since nobody moved

    @property
    def weight(self) -> float:
        """The weight of all flows that move."""
        return self.free_weight + self.capped_weight

    def most_through(self, pipe: Pipe) -> float:
        """Return what its flows can send at most to this pipe, which is what narrower pipes let through, in bytes/s."""
        most = self._wanted + EXACT * self._peak
        for other in self.pipes:
            if other.capacity < most and other.before(pipe):
                most = other.capacity
        return most

    def stir(self) -> None:
        """Bring it to the present, for something changes."""
        self._advance()
        self.stirred = True

    def set_level(self, level: float) -> None:
        """Let its flows go on at this level."""
        if level != self.level:
            self.stir()
            self.level = level

    def join(self, flow: Flow, nbytes: float) -> None:
        """Take a new flow in."""
        for pipe in self.pipes:
            pipe.flows += 1
        self._take_in(flow, nbytes)

    def leave(self, flow: Flow) -> float:
        """Let a flow go for good and return its bytes to go."""
        left = self._take_out(flow)
        for pipe in self.pipes:
            pipe.part(self._seen)
        return left

    def set_ceiling(self, flow: Flow, ceiling: float) -> None:
        """Let a flow come in again under another ceiling."""
        left = self._take_out(flow)
        flow.ceiling = ceiling
        self._take_in(flow, left)

    def take_ended(self) -> list[Flow]:
        """Let all flows go that have ended, and return them."""
        ended = self._take_ended()
        for flow in ended:
            self._wanted -= flow.ceiling
            for pipe in self.pipes:
                pipe.part(self._seen)
        if ended:
            self._rest()
        return ended

    def next_end(self) -> float:
        """Return the time at which the next flow ends, if the level stays as it is."""
        return self._next_end()

    def highest(self) -> float:
        """Return the highest level at which a CAPPED flow would still be one; 0 if there is none."""
        top = self._highest.top() if self._capped else None
        return -top[0] if top else 0.0

    def free_highest(self) -> None:
        """Make the CAPPED flow of the highest level a FREE one."""
        if top := self._highest.top():
            self.stir()
            self._to_free(top[1], self._exit(top[1]))

    def cap(self, level: float) -> bool:
        """Make all FREE flows that reach their ceilings at this level CAPPED ones; tell whether there were any."""
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
            for pipe in self.pipes:
                pipe.bundles[self] = None
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
        """Where nobody moves any more, take it off the pipes and start the sum afresh."""
        if not self._free + self._capped:
            self._wanted = self._peak = 0.0
            for pipe in self.pipes:
                del pipe.bundles[self]
