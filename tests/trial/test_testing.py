"""`check_algorithm` in a test of one's own: quiet about what holds, an AssertionError with what does not."""

from dataclasses import dataclass

import pytest

from algorithms.fedavg import FedAvg
from algorithms.traffic import Traffic
from fedsim.core.errors import UserError
from fedsim.learn.engine import tree
from fedsim.testing import check_algorithm
from fedsim.trial import promises, protocols, resumed


@dataclass(frozen=True)
class Halved(FedAvg):
    """Sends a part of each update; what else it sends, if anything, is not declared."""

    factor: float = 0.5
    undeclared: int = 0

    def work(self, job):
        """See `Algorithm.work`."""
        upload = yield from super().work(job)
        return {
            **upload,
            "update": tree.scale(upload["update"], self.factor),
            **dict.fromkeys("abc"[: self.undeclared], 1.0),
        }


@pytest.fixture
def quick(monkeypatch):
    """Leave out what runs whole points."""
    slow = resumed.check, protocols.check
    monkeypatch.setattr(promises, "PROMISES", [one for one in promises.PROMISES if one.check not in slow])


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("algorithm", [FedAvg(), Halved(), Halved(factor=0.1)])
def test_an_algorithm_that_keeps_its_promises(algorithm):
    check_algorithm(algorithm)


@pytest.mark.usefixtures("quick")
def test_an_algorithm_that_breaks_one():
    with pytest.raises(AssertionError, match="Halved breaks its contract:\nBROKEN    the bytes declared") as raised:
        check_algorithm(Halved(undeclared=2))
    assert "['a'] is sent" in str(raised.value)
    assert "BROKEN    every value" not in str(raised.value)


def test_an_algorithm_without_training_cannot_be_tried():
    with pytest.raises(UserError, match="trains nothing"):
        check_algorithm(Traffic(up=1000, down=1000))


@pytest.mark.long
def test_whole_points_of_a_class_of_ones_own():
    check_algorithm(Halved())
