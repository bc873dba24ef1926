"""Scores over all periods of a stream, arrived or not: a test set that stays the same throughout the run.

Split `all_periods`: every scoring evaluates each client's model on the test vertices of all its periods, including
those that have not arrived yet or never will within the run, and for clients without data too.  So methods, and
moments, are compared on the same test set, whatever has arrived.  The rows' `seen` is the number of periods that their
client had met, which may be zero.  No prequential scores are computed.

Not available where later graphs are the test (snapshots scored ahead, links), nor where an algorithm adds what clients
know of their vertices (`Algorithm.sees`).  Not modelled: adapting a model to a period before it is tested.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedsim.data.graph import Period
from fedsim.learn.algorithm import Algorithm, declared
from fedsim.learner.plans import Holding, Pair, Plan, Plans

SPLIT = "all_periods"
ASKED = "test"  # the vertices that are scored


def refusal(periods: Sequence[Sequence[Period]], algorithm: Algorithm) -> str | None:
    """Return why there is no score over all of these periods, with a fix, or None if there is one."""
    if any(period.ahead or "pairs" in period.graph for own in periods for period in own):
        return "under this stream a model is tested on later snapshots; take data.stream.scored: split, or leave it out"
    if declared(algorithm, "sees_more"):
        return "this algorithm predicts with what clients know of their latest graph only; leave it out"
    if not any(bool(period.graph["test"].any()) for own in periods for period in own):
        return "no client has any; give data.split.test a share"
    return None


@dataclass
class AllPeriods:
    """The plans of all clients' periods, for parameters that are shared and for each client's own."""

    plans: Plans
    periods: Sequence[Sequence[Period]]
    _made: dict[bool, Plan] = field(default_factory=dict)

    @property
    def clients(self) -> list[int]:
        """Return the clients that have any period in the stream."""
        return [client for client, own in enumerate(self.periods) if own]

    def plan(self, shared: bool, hosts: Mapping[int, Holding]) -> Plan:
        """Return the plan; its column `seen` has the number of periods that each client has met."""
        if shared not in self._made:
            pairs: list[Pair] = [(client, period, 0) for client in self.clients for period in self.periods[client]]
            self._made[shared] = self.plans.of(shared, pairs)
        made = self._made[shared]
        met = np.array([len(hosts[client].seen) for client in made.pairs["client"].tolist()], dtype=np.int64)
        return replace(made, pairs={**made.pairs, "seen": met})
