"""Check, before the run, whether the privacy options suit the protocol, network and algorithm.

Differential privacy needs a known number of replies per update, and secure aggregation needs rounds whose replies are
added; both cover the mean of differences and nothing else that an algorithm may send.
"""

from importlib.util import find_spec

from fedsim.core.errors import Problem
from fedsim.learn.algorithm import declared
from fedsim.point import fleet
from fedsim.point.parts import Parts
from fedsim.scenario import find

WHO = "take fedavg, fedprox, or another whose clients send a difference and no more, or leave {} out"


def problems(parts: Parts) -> list[Problem]:
    """Return the problems with the protocol and the codecs."""
    scenario, protocol = parts.scenario, parts.protocol
    privacy, masked, name = scenario.privacy, scenario.privacy.secure_aggregation.on, scenario.protocol.name
    found, here = [], "privacy.secure_aggregation"
    count = protocol.folded(fleet.size(scenario))
    if privacy.clip is not None and count is None:
        message = f"{name!r} with these options aggregates a number of replies that is not known in advance, "
        message += "so the noise cannot be calibrated; "
        found.append(
            Problem("privacy.clip", f"{message}use sync, deadline, buffered with a rate of 1 at most, or one_shot")
        )
    if privacy.clip is not None and find_spec("opacus") is None:
        remedy = 'pip install "fedsim[privacy]", or pip install -e ".[privacy]" in a checkout'
        found.append(Problem("privacy.clip", f"epsilon is computed by Opacus, which is not installed: {remedy}"))
    if masked and not protocol.sums:
        found.append(Problem(here, f"{name!r} has no cohort whose uploads are added; take sync or deadline"))
    elif masked and count == 1:
        found.append(Problem(here, "a sum over one client hides nothing; ask two or more clients per round"))
    if masked and scenario.network.codec.up is not None:
        message = "compressed values cannot be added under masks; leave out the codec or secure_aggregation"
        found.append(Problem("network.codec.up", message))
    return found


def uncovered(parts: Parts) -> list[Problem]:
    """Return a problem if privacy is on and the algorithm uses more of uploads than the mean of their differences."""
    scenario, algorithm = parts.scenario, parts.algorithm
    privacy = scenario.privacy
    asked = {"clip": privacy.clip is not None, "secure_aggregation": privacy.secure_aggregation.on}
    key = next((key for key, wanted in asked.items() if wanted), None)
    if key is None:
        return []
    if declared(algorithm, "averages"):
        model = scenario.model
        if model is None or not declared(algorithm, "evolves") or not find.build("model", model).turns():
            return []
        message = f"{model.name!r} evolves from period to period, which clients report beside their updates "
        return [Problem(f"privacy.{key}", f"{message}and nothing protects; take a model of fixed weights, such as gcn")]
    assert scenario.algorithm is not None
    message = (
        f"{scenario.algorithm.name!r}, as it is set, learns more from uploads than the mean of their differences, "
    )
    return [Problem(f"privacy.{key}", f"{message}which would remain unprotected; {WHO.format(f'privacy.{key}')}")]
