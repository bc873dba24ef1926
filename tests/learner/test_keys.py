"""Keys: equal where all that a value depends on is equal, whatever the order of things; different where any differs."""

import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.learn.replies import Reply
from fedsim.learner.recorded import SIZE, Keys, digest
from fedsim.learner.ticket import Share, Ticket
from fedsim.net.attackers import Attackers

ROOT = digest("root")
FORGER = 1
STATE, OTHER = Ticket(digest("state")), Ticket(digest("other"))

# What can happen to a client: a period arrives (its number), or it is asked and comes to the end of its job.
events = st.lists(st.one_of(st.integers(0, 2), st.just("job")), max_size=4)
histories = st.dictionaries(st.integers(0, 3), events, max_size=4)
parts = st.recursive(
    st.one_of(st.integers(), st.text(max_size=4), st.binary(max_size=4), st.none(), st.booleans()),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


def made(**options):
    return Keys(ROOT, Attackers({FORGER: [lambda array, rng: array]}), **options)


def download(keys, state, client, step):
    return keys.downloads(state, [client], step)[0]


def job(keys, client, step, download, number, travels):
    return keys.jobs([client], step, [download], [number], travels)[0]


def happen(keys, client, event, number):
    """Let one thing happen to a client; return the number of its last job."""
    if event != "job":
        keys.arrived(client, event)
        return number
    sent = Ticket(download(keys, STATE, client, "train"))
    keys.done([client], [Ticket(job(keys, client, "train", sent, number + 1, True))])
    return number + 1


def played(history, order):
    """Return keys after a history: of each client its events in their order, the clients mingled by `order`."""
    keys, left, numbers = made(), {client: list(each) for client, each in history.items()}, dict.fromkeys(history, 0)
    for client in order:
        numbers[client] = happen(keys, client, left[client].pop(0), numbers[client])
    return keys, numbers


@st.composite
def mingled(draw):
    history = draw(histories)
    steps = [client for client, each in history.items() for _ in each]
    return history, draw(st.permutations(steps)), draw(st.permutations(steps))


@given(mingled())
def test_equal_histories_in_another_order_of_clients_give_equal_keys(given_):
    history, one, other = given_
    (first, numbers), (second, _) = played(history, one), played(history, other)
    for arrived in (None, ((0, 1),)):
        assert first.scored(STATE, arrived) == second.scored(STATE, arrived)
    for client, number in numbers.items():
        asked = [job(keys, client, "train", STATE, number + 1, True) for keys in (first, second)]
        assert asked[0] == asked[1]


@given(histories, histories)
def test_other_histories_give_other_keys_of_scores(one, other):
    both = [played(history, [c for c, each in history.items() for _ in each])[0] for history in (one, other)]
    same = {c: each for c, each in one.items() if each} == {c: each for c, each in other.items() if each}
    assert (both[0].scored(STATE, None) == both[1].scored(STATE, None)) == same


def test_a_period_that_arrives_during_a_job_counts_once_the_job_is_done():
    def later(*periods):
        keys = made()
        upload = Ticket(job(keys, 0, "train", STATE, 1, True))
        for period in periods:
            keys.arrived(0, period)
        keys.done([0], [upload])
        return job(keys, 0, "train", STATE, 2, True), keys.scored(STATE, None)

    for one, other in combinations([later(), later(0), later(1), later(0, 1)], 2):
        assert one[0] != other[0]
        assert one[1] != other[1]


def test_what_is_drawn_for_downloads_and_for_shares_is_counted_apart():
    alone, share_first, download_first = made(draws=True), made(draws=True), made(draws=True)
    share_first.share(STATE, 0)
    download(download_first, STATE, 0, "train")
    assert download_first.share(STATE, 0) == alone.share(STATE, 0)
    assert download(share_first, STATE, 0, "train") == download(alone, STATE, 0, "train")


@given(parts, parts)
def test_a_digest_tells_parts_apart(one, other):
    assert (digest(one) == digest(other)) == (repr(one) == repr(other))
    assert len(digest(one)) == SIZE


def test_a_job_is_another_wherever_anything_that_it_brings_is():
    def after(*happened):
        keys = made()
        for name, *what in happened:
            getattr(keys, name)(*what)
        return keys

    first, last = Ticket(digest("first")), Ticket(digest("last"))
    found = [
        job(made(), 0, "train", STATE, 1, True),
        job(made(), 2, "train", STATE, 1, True),  # of another client
        job(made(), 0, "more", STATE, 1, True),  # in another step
        job(made(), 0, "train", OTHER, 1, True),  # on another download
        job(made(), 0, "train", None, 1, True),  # on none
        job(made(), 0, "train", STATE, 2, True),  # of another number, and with it of another seed
        job(made(), 0, "train", STATE, 1, False),  # that does not travel
        job(after(("arrived", 0, 0)), 0, "train", STATE, 1, True),  # on data
        job(after(("arrived", 0, 1)), 0, "train", STATE, 1, True),  # of another period
        job(after(("arrived", 0, 0), ("arrived", 0, 1)), 0, "train", STATE, 1, True),
        job(after(("arrived", 0, 1), ("arrived", 0, 0)), 0, "train", STATE, 1, True),
        job(after(("done", [0], [first])), 0, "train", STATE, 1, True),  # with a memory
        job(after(("done", [0], [last])), 0, "train", STATE, 1, True),  # with another
    ]
    assert all(one != other for one, other in combinations(found, 2))
    nearby = job(after(("arrived", 2, 0), ("done", [2], [first])), 0, "train", STATE, 1, True)
    assert nearby == found[0]  # what happens to another client changes nothing


def test_a_download_is_another_by_state_client_step_and_by_turn_only_where_codecs_draw():
    for draws in (False, True):
        keys = made(draws=draws)
        first = download(keys, STATE, 0, "train")
        others = [
            download(keys, OTHER, 0, "train"), download(keys, STATE, 2, "train"), download(keys, STATE, 0, "more"),
        ]  # fmt: skip
        assert len({first, *others}) == 4
        assert (download(keys, STATE, 0, "train") == first) == (not draws)


def folded(keys, question="fold", state=STATE, step="train", **changes):
    reply = {"client": 0, "version": 3, "download": None, "upload": OTHER, "weight": 1.0, **changes}
    return keys.received(question, [Reply(**reply)], state, step)


def test_a_fold_is_another_wherever_anything_that_it_takes_is():
    keys, spent, again = made(), made(), made()
    spent.spend("drawn", 2, 5)
    again.spend("drawn", 3, 5)
    reply = Reply(0, 3, None, OTHER)
    found = [
        folded(keys),
        folded(keys, "operations"),
        folded(keys, state=OTHER),
        folded(keys, step="more"),
        folded(keys, client=2),
        folded(keys, version=2),
        folded(keys, upload=STATE),
        folded(keys, weight=0.5),
        folded(spent),
        folded(again),
        keys.received("fold", [reply, reply], STATE, "train"),
    ]
    assert all(one != other for one, other in combinations(found, 2))
    assert folded(keys) == folded(keys, ask=7) == found[0]  # the number of an ask is the clock's alone


def test_order_of_replies_and_of_what_privacy_counts_is_part_of_a_fold():
    replies = [Reply(0, 0, None, STATE), Reply(2, 0, None, OTHER)]
    assert made().received("fold", replies, STATE, "train") != made().received("fold", replies[::-1], STATE, "train")
    one, other = made(), made()
    for keys, order in ((one, (1, 2)), (other, (2, 1))):
        for count in order:
            keys.spend("drawn", count, 5)
    assert folded(one) != folded(other)


def test_what_a_forger_sends_is_another_by_what_it_has_sent_before_and_the_same_each_time_it_is_opened():
    sent, honest = [Ticket(digest("upload")) for _ in range(2)], Ticket(digest("upload"))
    keys = made()
    assert keys.received("open", [Reply(0, 0, None, honest)]) == keys.received(
        "open", [Reply(0, 0, None, Ticket(honest.key))]
    )
    first, second = (keys.forged(FORGER, ticket) for ticket in sent)
    assert len({honest.key, first, second}) == 3
    assert keys.forged(FORGER, sent[0]) == first
    later = made()
    later.share(STATE, FORGER)  # a share is drawn from the same stream
    assert later.forged(FORGER, sent[0]) == second
    assert folded(keys, client=FORGER, upload=sent[0]) != folded(keys, client=FORGER, upload=sent[1])


def test_shares_and_their_merging():
    keys, drawing = made(), made(draws=True)
    plain = [keys.share(STATE, sender) for sender in (None, 0, 2, FORGER)] + [keys.share(OTHER, 0)]
    assert len(set(plain)) == 5
    assert keys.share(STATE, 0) == plain[1]
    assert keys.share(STATE, FORGER) != plain[3]  # it has forged once more
    assert drawing.share(STATE, 0) != drawing.share(STATE, 0)
    assert drawing.share(STATE, None) == drawing.share(STATE, None)  # nothing is done to what an edge sends
    one, other = Share(STATE, True, 1.0), Share(OTHER, True, 1.0)
    found = [
        keys.mixed(STATE, [one, other], [1, 2]),
        keys.mixed(STATE, [one, other], [2, 1]),
        keys.mixed(STATE, [other, one], [1, 2]),
        keys.mixed(OTHER, [one, other], [1, 2]),
        keys.mixed(STATE, [one], [1]),
    ]
    assert len(set(found)) == 5
    assert keys.mixed(STATE, [one, other], [1.0, 2.0]) == found[0]


def test_scores_are_others_by_states_and_by_what_has_arrived():
    keys = made()
    found = [
        keys.scored(STATE, None),
        keys.scored(OTHER, None),
        keys.scored({0: STATE}, None),
        keys.scored({1: STATE}, None),
        keys.scored(STATE, ((0, 1),)),
        keys.scored(STATE, ((0, 2),)),
    ]
    assert len(set(found)) == 6


def test_the_first_key_is_part_of_no_key_but_by_the_state():
    assert Keys(b"one").root != Keys(b"other").root
    states = [Ticket(Keys(root).root) for root in (b"one", b"other")]
    assert download(made(), states[0], 0, "train") != download(made(), states[1], 0, "train")


SCRIPT = """
from fedsim.learner.recorded import Keys
from fedsim.learn.replies import Reply
from fedsim.learner.ticket import Ticket
keys = Keys(b"root")
state, clients = Ticket(keys.root), {"b", "a", "c"}
for client in range(3):
    keys.arrived(client, 0)
    (download,) = keys.downloads(state, [client], "train")
    (job,) = keys.jobs([client], "train", [Ticket(download)], [1], True)
    keys.done([client], [upload := Ticket(job)])
replies = [Reply(0, 0, None, upload, 0.1)]
print(keys.scored(state, None).hex(), keys.received("fold", replies, state, "train").hex())
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_keys_do_not_hang_on_how_python_hashes_texts(seed):
    here = str(Path(__file__).parents[2])
    known = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": each, "PYTHONPATH": here},
            capture_output=True, text=True, check=True,
        ).stdout
        for each in ("0", seed)
    ]  # fmt: skip
    assert known[0] == known[1]
    assert len(known[0].split()) == 2
