"""The test nodes of all periods of the stream, arrived or not: the same test at every moment and for every method.

Every scoring evaluates each client's model on all its periods, including those that never arrive within the
run, and for clients without data too.  The rows' `seen` is the number of periods that their client had met,
which may be zero.  No prequential scores are computed.  Not modelled: adapting a model to a period before it
is tested.
"""

from dataclasses import dataclass

from fedsim.learner.scoring.split import ClientSplit, Scene


@dataclass(frozen=True)
class AllPeriods(ClientSplit):
    """It needs periods that one model can be tested on, and another split before it."""

    all_periods = True

    def refuse(self, scene: Scene) -> str | None:
        """Return why there is no such score, or why it is not the summary's."""
        why = unavailable(scene)
        if why is None and (next(iter(scene.splits.values())) is self or not scene.has_client_split):
            why = "the summary reports the first split, over the periods met; put 'test' or 'val' before it"
        return why and f"scores the test nodes of all periods: {why}"


def unavailable(scene: Scene) -> str | None:
    """Return why there is no score over all of these periods, with a remedy, or None if there is one."""
    periods = [period for own in scene.periods for period in own]
    if any(period.ahead or "pairs" in period.graph for period in periods):
        return "under this stream a model is tested on later snapshots; take data.stream.scored: split, or leave it out"
    if scene.algorithm.sees_more:
        return "this algorithm predicts with what clients know of their latest graph only; leave it out"
    if not any(bool(period.graph["test"].any()) for period in periods):
        return "no client has any; give data.split.test a share"
    return None
