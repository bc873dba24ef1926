"""For tests of one's own algorithms: `check_algorithm`, as `--try` does on the command line.

from fedsim.testing import check_algorithm

def test_it_keeps_the_contract():
    check_algorithm(Drift(beta=0.8))
"""

import tempfile
from pathlib import Path

from fedsim.learn.algorithm import Algorithm
from fedsim.scenario.part import Part
from fedsim.sweep import objects
from fedsim.trial import command, promises, stage
from fedsim.trial.trial import Trial

__all__ = ["check_algorithm"]


def check_algorithm(algorithm: Algorithm) -> None:
    """Check an algorithm's promises on small graphs drawn from a seed; takes some ten seconds, and writes nothing.

    Raises AssertionError with the promises that are broken, where and why, and UserError where the algorithm cannot be
    tried: it trains nothing, or refuses every deployment.
    """
    files: objects.Files = {}
    part = Part.model_validate(objects.plain(algorithm, files, "check_algorithm"))
    with tempfile.TemporaryDirectory() as folder, objects.written(Path(folder), files):
        trial = Trial(stage.accepted(part), command.built(part))
        broken = [section for section in promises.tried(trial) if promises.is_broken(section[1])]
    if broken:
        lines = [line for section in broken for line in command.report(section)]
        raise AssertionError("\n".join([f"{type(algorithm).__name__} breaks its contract:", *lines]))
