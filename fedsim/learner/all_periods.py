"""Scores over all periods of a stream, met or not: the test that stays the same from the first scoring to the last.

Split `all_periods`: at each scoring every client's model is asked the test vertices of all periods that the stream has
cut for it, of those that have not arrived yet too, of those that never arrive within the run, and of clients that have
no data yet.  So two methods, and two moments, are compared on the same test, whatever has arrived.  The rows carry the
number of periods that their client had met as `seen`, which may be zero; no prequential score is among them.

It has no meaning where later graphs are the test (snapshots scored ahead, links) - what is ahead then was never to be
asked of an earlier model - nor where an algorithm sees what clients know of their vertices now (`Algorithm.sees`).
It models no client that expects a period: a model is asked as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedsim.data.graph import Period
from fedsim.learn.algorithm import Algorithm, declared
from fedsim.learner.plans import Column, Holding, Pair, Plan, Plans

SPLIT = "all_periods"
ASKED = "test"  # the vertices that are asked


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
    """The plans of all clients' periods, with one set of parameters for all and with one for each."""

    plans: Plans
    periods: Sequence[Sequence[Period]]
    _made: dict[bool, Plan] = field(default_factory=dict)

    @property
    def clients(self) -> list[int]:
        """Return the clients that have periods to come or met."""
        return [client for client, own in enumerate(self.periods) if own]

    def plan(self, shared: bool) -> Plan:
        """Return the plan; its column `seen` says nothing (see `seen`)."""
        if shared not in self._made:
            pairs: list[Pair] = [(client, period, 0) for client in self.clients for period in self.periods[client]]
            self._made[shared] = self.plans.of(shared, pairs)
        return self._made[shared]

    def seen(self, plan: Plan, hosts: Mapping[int, Holding]) -> Column:
        """Return for each pair of the plan how many periods its client has met by now."""
        met = {client: len(hosts[client].seen) for client in plan.clients}
        return np.array([met[client] for client in plan.pairs["client"].tolist()], dtype=np.int64)
