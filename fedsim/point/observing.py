"""Check, before the run, whether clients tell a sampler what it chooses by.

Samplers that observe need replies that travel to a server; those that read losses also need clients that train, and
whose uploads are not to be hidden.
"""

from fedsim.core.errors import Problem
from fedsim.point.parts import Parts

KEY = "clients.sampler"
OTHER = "take another sampler, such as uniform"


def problems(parts: Parts) -> list[Problem]:
    """Return why the protocol or the privacy options do not suit the sampler."""
    scenario, protocol, sampler = parts.scenario, parts.protocol, parts.sampler
    if not sampler.observes:
        return []
    name = scenario.clients.sampler.name
    if protocol.silent or protocol.shares_only or not protocol.asks:
        why = f"chooses by replies that a server has received, and under {scenario.protocol.name!r} it receives none"
        return [Problem(KEY, f"{name!r} {why}: {OTHER}")]
    privacy = scenario.privacy
    for key, on in (("clip", privacy.clip is not None), ("secure_aggregation", privacy.secure_aggregation.on)):
        if on and sampler.reports:
            why = f"has every client report its loss, which privacy.{key} does not protect"
            return [Problem(KEY, f"{name!r} {why}: {OTHER}")]
    return []


def silent(parts: Parts) -> list[Problem]:
    """Return why the algorithm does not suit the sampler."""
    sampler, algorithm, name = parts.sampler, parts.algorithm, parts.scenario.clients.sampler.name
    if sampler.observes and not algorithm.talks:
        return [Problem(KEY, f"{name!r} chooses by replies, and with this algorithm nothing travels: {OTHER}")]
    if sampler.reports and not algorithm.learns:
        return [Problem(KEY, f"{name!r} chooses by losses, and this algorithm trains nothing: {OTHER}")]
    return []
