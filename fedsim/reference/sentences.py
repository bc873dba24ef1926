"""The ten sentences at the top of the page; each is a function of the findings."""

from collections.abc import Callable

from fedsim.reference.comparisons_said import (
    continual_methods,
    halved_links,
    pairs_not_apart,
    protocols_on_phones,
    spread_of_bytes,
)
from fedsim.reference.findings import Findings
from fedsim.reference.leaders_said import leaders_by_bytes, leaders_by_time, one_shot, plain_averaging, without_bytes

SENTENCES: tuple[Callable[[Findings], str], ...] = (
    plain_averaging,
    leaders_by_bytes,
    leaders_by_time,
    one_shot,
    spread_of_bytes,
    without_bytes,
    protocols_on_phones,
    continual_methods,
    pairs_not_apart,
    halved_links,
)


def sentences(found: Findings) -> list[str]:
    """Return the sentences in order."""
    return [sentence(found) for sentence in SENTENCES]
