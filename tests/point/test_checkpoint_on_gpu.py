"""Points on a pretended GPU that were stopped between two events end as those that were not."""

import random

import pytest
from mutations import FULL
from pretended_gpu import NAME, pretended_gpu
from test_checkpoint import CASES, events, stop, whole  # noqa: F401

TRIED = [name for place, name in enumerate(CASES) if FULL or place % 3 == 0 or name == "codecs"]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name != "codecs")) for name in TRIED])
def test_a_point_on_a_gpu_goes_on_as_if_nothing_had_happened(name, tmp_path, events):  # noqa: F811
    changes = {**CASES[name], "device": "cuda"}
    with pretended_gpu():
        first = whole(tmp_path / "first", **changes)
        assert NAME in first["row"]["provenance"]
        stop(tmp_path / "stopped", random.Random(name).randrange(events[0] // 2, events[0]), **changes)
        assert whole(tmp_path / "stopped", **changes) == first
