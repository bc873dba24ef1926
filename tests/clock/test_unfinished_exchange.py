"""A cohort's replies are there once its exchange has ended, and no sooner."""

import pytest

from fedsim.clock.cohort.events import EventsCohort
from fedsim.clock.cohort.planned import PlannedCohort
from fedsim.core.record import Recorder
from fedsim.point.build import assemble
from fedsim.scenario.schema import Scenario

COHORT = [0, 1]
PLAIN = {
    "name": "asked", "clients": {"count": 2, "speed": "1 GFLOP/s"},
    "protocol": {"name": "sync", "rounds": 1, "clients": 2},
    "algorithm": {"name": "traffic", "down": "1 kB", "up": "1 kB", "operations": 1e6},
}  # fmt: skip
LINKS = {"latency": "1 ms", "uplink": "1 Mbit/s", "downlink": "1 Mbit/s"}


def noted(cohort, asked):
    """The method `first` of a kind of cohort, which notes that it was called."""
    first = cohort.first

    def noting(self, *given):
        asked.append(type(self))
        return first(self, *given)

    return noting


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({}, PlannedCohort),
        ({"server": {"ingress": "1 Mbit/s"}}, EventsCohort),
        ({"connection": {"kind": "kept"}}, None),
    ],
    ids=["planned", "events", "one by one"],
)
def test_a_forgotten_yield_from_is_named(tmp_path, monkeypatch, more, kind):
    scenario = Scenario.model_validate({**PLAIN, "network": {**LINKS, **more}})
    world, asked = assemble.build(scenario, tmp_path, Recorder()).world, []
    for cohort in (PlannedCohort, EventsCohort):
        monkeypatch.setattr(cohort, "first", noted(cohort, asked))
    with pytest.raises(RuntimeError, match="write `yield from world"):
        [*world.exchange(COHORT, "train")]
    assert asked == ([kind] if kind else [])
