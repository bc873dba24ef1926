"""Whether what hides uploads goes with a scenario's protocol, network and algorithm: told before the run.

Differential privacy needs a number of replies that an update is meant to fold, secure aggregation rounds whose replies
are added; both cover the mean of differences and nothing else that an algorithm may send.
"""

from importlib.util import find_spec
from typing import Any

from fedsim import fleet
from fedsim.algorithm import Algorithm, declared
from fedsim.errors import Problem
from fedsim.scenario import Scenario

WHO = "take fedavg, fedprox, or another whose clients send a difference and no more, or leave {} out"


def problems(scenario: Scenario, protocol: Any) -> list[Problem]:
    """Return why the protocol or a codec does not fit."""
    privacy, masked, name = scenario.privacy, scenario.privacy.secure_aggregation.on, scenario.protocol.name
    found, here = [], "privacy.secure_aggregation"
    count = protocol.folded(fleet.size(scenario))
    if privacy.clip is not None and count is None:
        told = f"{name!r}, as it is set, aggregates a number of replies that is not known in advance, "
        told += "so the noise cannot be calibrated; "
        found.append(
            Problem("privacy.clip", f"{told}use sync, deadline, buffered with a rate of 1 at most, or one_shot")
        )
    if privacy.clip is not None and find_spec("opacus") is None:
        mend = 'pip install "fedsim[privacy]", or pip install -e ".[privacy]" in a checkout'
        found.append(Problem("privacy.clip", f"epsilon is computed by Opacus, which is not installed: {mend}"))
    if masked and not protocol.sums:
        found.append(Problem(here, f"{name!r} has no cohort whose uploads are added; take sync or deadline"))
    elif masked and count == 1:
        found.append(Problem(here, "a sum over one client hides nothing; let two or more take part in a round"))
    if masked and scenario.network.codec.up is not None:
        told = "compressed values cannot be added under masks; leave out the codec or secure_aggregation"
        found.append(Problem("network.codec.up", told))
    return found


def uncovered(scenario: Scenario, algorithm: Algorithm) -> list[Problem]:
    """Return that the algorithm learns more from uploads than the mean of their differences, where that matters."""
    privacy = scenario.privacy
    asked = {"clip": privacy.clip is not None, "secure_aggregation": privacy.secure_aggregation.on}
    key = next((key for key, wanted in asked.items() if wanted), None)
    if key is None or declared(algorithm, "averages"):
        return []
    assert scenario.algorithm is not None
    told = f"{scenario.algorithm.name!r}, as it is set, learns more from uploads than the mean of their differences, "
    return [Problem(f"privacy.{key}", f"{told}which would remain unprotected; {WHO.format(f'privacy.{key}')}")]
