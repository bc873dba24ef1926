"""A link that carried too much, or a clock that went backwards, raises InvariantError at once."""

import math

import pytest
import simpy

from fedsim.net.links.flows import InvariantError
from fedsim.net.links.link import Link


def test_a_clock_that_goes_back():
    env = simpy.Environment()
    link = Link(env, 1e6)
    env.run(until=5.0)
    flow = link.join(1e6, 1e6, lambda flow: None)
    env._now = 4.0
    for step in (lambda: link.leave(flow), lambda: link.join(1.0, 1.0, print), lambda: link.set_capacity(2e6)):
        with pytest.raises(InvariantError, match=r"went back from 5\.0 s to 4\.0 s"):
            step()


@pytest.mark.parametrize("level", [math.nextafter(5e5, math.inf), 500_000.1])
def test_a_load_above_the_capacity(level, monkeypatch):
    """What rounding adds is let pass, a tenth of a byte a second is not."""
    monkeypatch.setattr(Link, "_find_level", lambda self: level if self._free else math.inf)
    link = Link(simpy.Environment(), 1e6)
    monkeypatch.setattr(link, "_capped", 0)
    link.join(1e6, 5e5 + 1, lambda flow: None)
    monkeypatch.setattr(Link, "_find_level", lambda self: level)
    if level > 500_000.01:
        with pytest.raises(InvariantError, match=r"a link of 1000000\.0 bytes/s carries 1000000\.2"):
            link.join(1e6, 5e5 + 1, lambda flow: None)
    else:
        link.join(1e6, 5e5 + 1, lambda flow: None)
