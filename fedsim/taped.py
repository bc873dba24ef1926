"""Taped: the learning half's backend, algorithm and guard as the clock's half sees them, before a tape (`tape.py`).

Whatever is asked of one of them and has a say in what the clock goes through is asked over the tape.  It has no state.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from fedsim.algorithm import Algorithm, Job, Reply, State
from fedsim.guard import Guard
from fedsim.net.wire import Tree
from fedsim.tape import Declared, Tape, TapedPromise


class Learner(Protocol):
    """The learning half's backend."""

    def submit(self, job: Job) -> Declared:
        """Queue a job."""
        ...

    def flops(self, job: Job) -> float:
        """Return the operations that the job takes."""
        ...


class TapedBackend:
    """A backend whose promises and operations go over a tape."""

    def __init__(self, tape: Tape, backend: Learner) -> None:
        """Stand before this backend."""
        self._tape, self._backend = tape, backend

    def submit(self, job: Job) -> TapedPromise:
        """Queue a job."""
        return self._tape.job(lambda: self._backend.submit(job))

    def flops(self, job: Job) -> float:
        """Return the operations that the job takes."""
        return float(self._tape.told(lambda: self._backend.flops(job)))


class Taped(Algorithm):
    """An algorithm as the clock's half sees it: what servers and protocols ask of it goes over a tape."""

    def __init__(self, tape: Tape, algorithm: Algorithm) -> None:
        """Stand before this algorithm."""
        self._tape, self._own = tape, algorithm
        self.talks, self.prepares = algorithm.talks, algorithm.prepares  # type: ignore[misc]

    def start(self) -> State:
        """Return the server's first state."""
        return self._tape.state(self._own.start)

    def download(self, state: State, client: int, step: str) -> Tree:
        """Return what the server sends this client."""
        return self._tape.tree(lambda: self._own.download(state, client, step))

    def work(self, job: Job) -> Any:
        """Return what the algorithm's own does; nobody on this side asks."""
        return self._own.work(job)

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Return the state after folding these replies."""
        return self._tape.state(lambda: self._own.update(state, replies, step))

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Return the state after merging shares."""
        return self._tape.state(lambda: self._own.mix(state, shares, weights))

    def share(self, state: State) -> Tree:
        """Return what travels between peers, and between edge aggregators and the cloud."""
        return self._tape.tree(lambda: self._own.share(state))

    def steps(self, state: State) -> Sequence[str]:
        """Return the exchanges of the coming round."""
        return self._tape.told(lambda: self._own.steps(state))  # type: ignore[no-any-return]

    def more(self, state: State, step: str) -> Sequence[str]:
        """Return the exchanges that what this step has brought calls for."""
        return self._tape.told(lambda: self._own.more(state, step))  # type: ignore[no-any-return]

    def mass(self, reply: Reply) -> float:
        """Return how much an opened reply weighs."""
        return self._tape.told(lambda: self._own.mass(reply))  # type: ignore[no-any-return]

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the server's work of one update."""
        return self._tape.told(lambda: self._own.server_flops(state, replies, step))  # type: ignore[no-any-return]

    def common(self, state: State) -> Tree | None:
        """Return the one model that stands for all clients, for whoever scores it."""
        return self._own.common(state)


class TapedGuard:
    """A guard that counts in a replay what it counted before, and releases nothing: the algorithm is not asked."""

    def __init__(self, tape: Tape, guard: Guard) -> None:
        """Stand before this guard."""
        self._tape, self._own = tape, guard
        self.drawn, self.spend = guard.drawn, guard.spend

    def release(self, replies: Sequence[Reply]) -> list[Reply]:
        """Return what the algorithm may see of these opened replies."""
        return [] if self._tape.replaying else self._own.release(replies)

    @property
    def epsilon(self) -> float:
        """What all that has been spent amounts to."""
        return self._own.epsilon
