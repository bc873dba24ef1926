"""Outages of one region at a time, at drawn and at given times, and of as many of its clients as asked for."""

import numpy as np
import pytest
from netlab import down, world

from fedsim.core.errors import UserError
from fedsim.net.effect import Traits
from fedsim.net.effects.outage import Outage

WHERE = np.array(["IN", "US", "IN", "", "DE"] * 40)


def gone(outage, times, traits=None, seed=0):
    """Who is offline at these times, (times, K)."""
    here = world(clients=len(WHERE), effects=[outage], seed=seed, traits=traits or Traits(WHERE))
    found = []
    for time in times:
        here.env.run(until=time)
        found.append(~here.nodes.online)
    return np.array(found)


def test_a_country_goes_at_the_given_times_for_the_given_length_and_comes_back():
    outage = Outage(at=(10.0, 100.0), length=20.0, groups="country", country="IN", cut=True)
    seen = gone(outage, [9.5, 10.5, 29.5, 30.5, 99.5, 100.5, 119.5, 120.5, 1e4])
    down_at = [False, True, True, False, False, True, True, False, False]
    np.testing.assert_array_equal(seen, np.outer(down_at, WHERE == "IN"))


def test_one_drawn_region_goes_at_a_time_and_larger_ones_more_often():
    times = np.arange(15.0, 20 * 400, 20.0)  # in the middle of each outage
    seen = gone(Outage(every=10.0, length=10.0, times="fixed", groups="country", cut=True), times)
    struck = [set(WHERE[row]) for row in seen]
    assert all(len(each) == 1 for each in struck)
    assert (seen.sum(axis=1) == [np.isin(WHERE, [*each]).sum() for each in struck]).all()
    often = np.mean([each == {"IN"} for each in struck])
    assert often == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(len(struck)))  # 80 of 160 clients with a country
    assert not seen[:, WHERE == ""].any()


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_strength_is_the_share_of_the_region_that_goes_drawn_anew_each_time(strength):
    at = tuple(np.arange(10.0, 2010.0, 20.0).tolist())
    outage = Outage(at=at, length=10.0, groups="country", country="IN", cut=True, strength=strength)
    seen = gone(outage, np.array(at) + 5.0)[:, WHERE == "IN"]
    bound = 5 * np.sqrt(strength * (1 - strength) / seen.size)
    assert seen.mean() == pytest.approx(strength, abs=bound)
    each = seen.mean(axis=0)
    assert np.abs(each - strength).max() <= 6 * np.sqrt(strength * (1 - strength) / len(at))


def test_clients_of_some_classes_go_together():
    held = np.eye(3, dtype=np.int64)[np.arange(len(WHERE)) % 3]
    outage = Outage(at=(1.0,), length=5.0, groups="labels", classes=(0, 2), cut=True)
    seen = gone(outage, [2.0], Traits(WHERE, lambda: held))[0]
    np.testing.assert_array_equal(seen, np.arange(len(WHERE)) % 3 != 1)


def test_without_cut_bytes_wait():
    here = world(
        clients=2,
        effects=[Outage(at=(0.5,), length=9.0, groups="country")],
        traits=Traits(np.array(["IN", "IN"])),
    )
    here.network.send(down(0, 1_000_000))
    here.env.run(until=100)
    (row,) = here.rows
    assert row.fate == "delivered"
    assert 9.5 < row.arrived < 11.5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give either 'every' .a mean time. or 'at'"),
        ({"every": 1.0, "at": (1.0,)}, "give either 'every'"),
        ({"at": (5.0, 5.5)}, "further apart than the option 'length'"),
        ({"every": 1.0, "groups": "country", "share": 0.5}, "as far as 'strength' says; leave 'share' out"),
        ({"every": 1.0, "country": "IN"}, "option 'country' needs 'groups: country'"),
        ({"every": 1.0, "strength": 0.5}, "option 'strength' is about groups"),
        ({"every": 1.0, "groups": "country", "link": "egress"}, "leave 'cut', 'share', 'groups' out"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Outage(length=1.0, **options)


def test_a_country_where_nobody_is_is_refused_with_those_where_somebody_is():
    with pytest.raises(UserError, match="no client is in 'FR'; option 'country' may be one of: DE, IN, US"):
        gone(Outage(every=1.0, length=1.0, groups="country", country="FR"), [])
