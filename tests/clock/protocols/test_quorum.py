"""A round waits for `least` clients, exactly until they are there; rows tell how many were wanted."""

import logging

import pytest
from fake_world import Number, check_books, lab
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedsim.clock.protocols.buffered import Buffered
from fedsim.clock.protocols.deadline import Deadline
from fedsim.clock.protocols.hierarchical import Hierarchical
from fedsim.clock.protocols.isolated import Isolated
from fedsim.clock.protocols.one_shot import OneShot
from fedsim.clock.protocols.sync import Sync
from fedsim.core.errors import UserError
from fedsim.net.effects.churn import Churn

EIGHTHS = st.integers(1, 4000).map(lambda number: number / 8)  # sums of which are exact
COMES = st.lists(EIGHTHS, min_size=1, max_size=6, unique=True)
KINDS = {
    "sync": lambda **options: Sync(rounds=1, participation=1.0, **options),
    "deadline": lambda **options: Deadline(rounds=1, participation=1.0, wait=1e6, **options),
    "one_shot": lambda **options: OneShot(enough=0.01, **options),
}


def coming(folder, comes):
    """Clients that come online for good, each at its second."""
    rows = "".join(f"{client},{time!r}\n" for client, time in enumerate(comes))
    path = folder / "stretches.csv"
    path.write_text(f"client,on_s\n{rows}")
    return Churn(table=path)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(comes=COMES, data=st.data())
def test_a_round_begins_when_the_kth_client_comes_online(tmp_path_factory, kind, comes, data):
    """Or when the longest wait is over, with whoever is there; or with the first, where nobody is."""
    least = data.draw(st.integers(1, len(comes)))
    longest = data.draw(st.none() | EIGHTHS) if least > 1 else None
    here = lab(clients=len(comes), effects=[coming(tmp_path_factory.mktemp("comes"), comes)])
    assert here.run(KINDS[kind](least=least, longest_wait=longest))
    order = sorted(comes)
    begins = order[least - 1]
    if longest is not None and longest < begins:
        begins = max(longest, order[0])
    first = [row for row in here.transfers if row.src < 0]
    assert min(row.sent for row in first) == begins
    if kind != "one_shot":  # which goes on asking whoever comes
        there = {client for client, time in enumerate(comes) if time <= begins}
        assert {row.dst for row in first} == there
        assert [(row.wanted, row.asked) for row in here.updates] == [(len(comes), len(there))]
    check_books(here)


def test_a_short_round_is_in_the_log(tmp_path, caplog):
    here = lab(clients=3, effects=[coming(tmp_path, [1.0, 2.0, 1000.0])])
    with caplog.at_level(logging.INFO):
        here.run(Sync(rounds=1, clients=3, least=1.0, longest_wait=60.0))
    assert (
        "60.000 s: a round starts short after waiting 60.000 s for 3 clients: 2 are available, 3 wanted" in caplog.text
    )
    assert [(row.wanted, row.asked, row.folded) for row in here.updates] == [(3, 2, 2)]


def test_shares_are_of_those_wanted():
    sync = Sync(rounds=1, clients=10, least=0.8)
    assert [sync.quorum(wanted) for wanted in (1, 4, 10)] == [1, 4, 8]
    assert Sync(rounds=1, clients=10, least=3).quorum(10) == 3


def test_a_default_quorum_changes_nothing(tmp_path):
    """With `least: 1` said or not, all rows are the same."""
    seen = []
    for options in ({}, {"least": 1}):
        here = lab(clients=4, effects=[coming(tmp_path, [1.0, 2.5, 1.5, 9.0])])
        here.run(Sync(rounds=3, clients=3, **options))
        seen.append(here.rows)
    assert seen[0] == seen[1]


def test_rows_tell_how_many_were_wanted():
    def told(protocol, **options):
        here = lab(clients=8, **options)
        here.run(protocol)
        return [row.wanted for row in here.updates]

    assert told(Sync(rounds=2, clients=5)) == [5, 5]
    assert told(Sync(rounds=1, clients=5), algorithm=Number(exchanges=("look", "train"))) == [5, 5]
    assert told(Deadline(rounds=1, clients=5, over=1.3, wait=1e6)) == [7]
    assert told(Isolated(rounds=2, clients=5)) == [5, 5]
    assert told(OneShot()) == [8]
    assert told(Buffered(rounds=2, clients=4, buffer=2)) == [None, None]


def test_too_many_or_pointless_clients_are_refused():
    for wrong, message in [
        ({"least": 0}, "must be a whole number of at least 1"),
        ({"least": "0 %"}, "must be above 0"),
        ({"least": 1.0}, "could be one or all of them: write 1 or '100 %'"),
        ({"least": 2.5}, "must be a whole number"),
        ({"longest_wait": "10 min"}, "needs a 'least' above 1"),
        ({"longest_wait": "10 min", "least": 1}, "needs a 'least' above 1"),
        ({"least": 2, "longest_wait": "0 s"}, "greater than 0"),
    ]:
        with pytest.raises(ValidationError, match=message):
            TypeAdapter(Sync).validate_python({"rounds": 1, "clients": 3, **wrong})
    assert TypeAdapter(OneShot).validate_python({"least": "80 %"}).least == 0.8
    with pytest.raises(UserError, match="least: 4 is never reached: of 10 clients, 3 are wanted"):
        Sync(rounds=1, clients=3, least=4).suits(10)
    Deadline(rounds=1, clients=3, over=1.3, wait=1.0, least=4).suits(10)
    Hierarchical(rounds=1, clients=3, least=9).suits(10)
