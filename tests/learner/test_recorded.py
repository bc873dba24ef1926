"""Recorded: a replay answers every question from the record alone; values live as long as their tickets."""

import gc
import logging
import weakref

import pytest
from contexts import within
from fake_upload import Work, Works
from fake_world import Number, Period
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core import logbook, wire
from fedsim.core.seeds import Streams
from fedsim.learn.replies import Reply
from fedsim.learner.contract import Scores
from fedsim.learner.live import Live
from fedsim.learner.recorded import Keys, Recorded, ReplayError, digest
from fedsim.learner.ticket import UNKNOWN, Share
from fedsim.net.attackers import Attackers
from fedsim.net.codecs.half import Half

CLIENTS = 3


class Whole(Number):
    """Answers whatever can be asked."""

    def more(self, state, step):
        return ["again"] if step == "train" else []

    def mass(self, reply):
        return 2.0 + reply.client

    def share(self, state):
        return {"model": state["model"]}

    def mix(self, state, shares, weights):
        return {**state, "model": state["model"] + sum(one["model"] for one in shares)}


class Deaf:
    """A stand-in for values that must not be asked for."""

    def __getattr__(self, name):
        pytest.fail(f"a replay asks for {name}")


class Marks:
    """A scoring whose headline is how often it was asked."""

    asked = 0

    def met(self, state_of):
        self.asked += 1
        return Scores([{"client": [0], "value": [state_of(0)["model"]]}], float(self.asked))

    def unmet(self, state_of, arrived):
        self.asked += 1
        return Scores([{"client": [client for client, _ in arrived], "value": [state_of(0)["model"]]}], None)


def works(count, declared):
    trees = [{"jobs": number, "n": list(range(number))} for number in range(count)]
    return [Work(tree, tree if declared else None) for tree in trees]


def seeds_of(clients, jobs):
    return [100 * client + job for client, job in zip(clients, jobs, strict=True)]


def learner_of(record=None, *, declared=True, keyed=True, algorithm=Whole, log=()):
    """A learner of a few clients, one of which forges; it replays where it is given a record."""
    algorithm, attackers = within(algorithm(), None), Attackers({1: [lambda array, rng: array]})
    given = {"down": Half(), "attackers": attackers, "scoring": Marks()}
    parts = algorithm, Works(works(40, declared)), Streams(0), seeds_of
    if not keyed:
        return Live(*parts, **given)
    learner = Recorded(*parts, **given, keys=Keys(digest("root"), attackers, draws=True), record=record or {}, log=log)
    if learner.replaying:
        learner.algorithm = learner.backend = learner.scoring = learner.rng = Deaf()
    return learner


def story(learner, rounds=2, order=range(CLIENTS)):
    """Ask everything; return all answers, without tickets, and the last state."""
    told, state = [], learner.start()
    for client in range(CLIENTS):
        learner.arrive(client, Period())
    for number in range(rounds):
        told += [learner.steps(state), learner.more(state, "train"), learner.more(state, "again")]
        downloads = learner.downloads(state, [*order], "train")
        work = learner.work([*order], "train", downloads)
        told += [[one.nbytes for one in downloads], [one.nbytes for one in work.uploads], work.operations.tolist()]
        told += [[(learner.size(0, upload), learner.numbers(upload)) for upload in work.uploads]]
        pairs = zip(order, downloads, work.uploads, strict=True)
        replies = [Reply(client, number, *both) for client, *both in pairs]
        for reply in replies[:-1]:
            learner.done([reply.client], [reply.upload])
        learner.dropped(replies[-1].upload)
        opened = learner.open(state, replies, "train")
        told += [len(opened.accepted), len(opened.refused), opened.operations, learner.aggregation_weights(replies)]
        before = state
        state, epsilon = learner.aggregate(state, replies[:-1], "train")
        told += [epsilon, state is before]
        shares = [learner.share(state), learner.share(state, 0), learner.share(state, 1)]
        told += [[(one.ticket.nbytes, one.finite, one.operations) for one in shares]]
        state = learner.mix(state, shares, [1.0, 0.5, 0.5])
        told += [tuple(learner.score(state)), tuple(learner.score(dict.fromkeys(range(CLIENTS), state)))]
        told += [tuple(learner.score(state, [(0, Period(number))]))]
        learner.drawn(2, CLIENTS)
        learner.withdrawn(0, learner.work([0], "train", [downloads[0]]).uploads[0])
    return told, state


@pytest.mark.parametrize("declared", [True, False])
def test_a_replay_answers_every_question_from_the_record_and_asks_no_value(declared):
    first = learner_of(declared=declared)
    told, last = story(first)
    again = learner_of(first.record, declared=declared)
    assert again.replaying
    assert not first.replaying
    retold, state = story(again)
    assert retold == told
    assert state.key == last.key
    assert again.questions == first.questions > 20
    assert (again.talks, again.prepares) == (first.talks, first.prepares)


SAYING = ("start", "steps", "more", "download", "mass", "server_flops", "update", "share", "mix")


class Loud(Whole):
    """Logs whatever it is asked."""


def said_by(name):
    made = getattr(Whole, name)

    def method(self, *args):
        logging.getLogger("algorithms.loud").warning(name)
        return made(self, *args)

    return method


for name in SAYING:
    setattr(Loud, name, said_by(name))


def test_a_replay_logs_what_was_logged_as_often_and_in_the_same_order(tmp_path):
    with logbook.keep(tmp_path / "first.log") as first:
        learner = learner_of(algorithm=Loud, log=first)
        story(learner)
    with logbook.keep(tmp_path / "again.log") as again:
        story(learner_of(learner.record, algorithm=Loud))
    assert again == first
    assert {text for _, _, text in first} == {*SAYING}


def test_a_learner_that_keeps_no_record_gives_the_same_answers():
    bare, keyed = learner_of(keyed=False), learner_of()
    assert story(bare)[0] == story(keyed)[0]
    assert keyed.record


@given(st.data())
def test_a_question_that_the_first_run_did_not_ask_leads_astray(data):
    first = learner_of()
    story(first)
    missing = data.draw(st.sampled_from([*first.record]))
    with pytest.raises(ReplayError, match="asks a question that has no answer in the record"):
        story(learner_of({key: answer for key, answer in first.record.items() if key != missing}))


def test_other_questions_lead_astray():
    first = learner_of()
    story(first, rounds=1)
    with pytest.raises(ReplayError):
        story(learner_of(first.record), rounds=2)
    with pytest.raises(ReplayError):
        story(learner_of(first.record), rounds=1, order=[1, 0, 2])


def test_a_replay_goes_on_with_the_values_that_were_saved():
    first = learner_of()
    _, last = story(first)
    values, shares = first.values(), [first.share(last)]
    again = learner_of(first.record)
    _, state = story(again)
    again.algorithm, again.scoring = first.algorithm, first.scoring
    again.resume(values)
    assert not again.replaying
    assert state.value is values[last.key]
    assert again.share(state).ticket.nbytes == shares[0].ticket.nbytes
    one = again.mix(state, [again.share(state)], [1.0])
    other = first.mix(last, shares, [1.0])
    assert one.key == other.key
    assert one.value == other.value


class Guard:
    """Stands for what keeps a run private, and notes what it is asked."""

    epsilon = 0.5

    def __init__(self):
        self.asked = []

    def drawn(self, chosen, among):
        self.asked.append((chosen, among))

    def spend(self, clients):
        self.asked.append(clients)

    def release(self, replies):
        return replies


def guarded(record=None):
    learner = learner_of(record)
    learner.privacy = Guard()
    return learner


def test_privacy_is_spent_once_and_not_by_a_replay():
    first = guarded()
    told, _ = story(first)
    assert first.privacy.asked == [[0, 1], (2, CLIENTS)] * 2
    again = guarded(first.record)
    assert story(again)[0] == told
    assert again.privacy.asked == []


@pytest.mark.parametrize("learner", [learner_of, guarded])
def test_what_was_drawn_and_folded_counts_in_later_keys_where_privacy_is_spent(learner):
    def key(*draws, folds=1):
        asked = learner()
        state = asked.start()
        downloads = asked.downloads(state, [0], "train")
        replies = [Reply(0, 0, *downloads, *asked.work([0], "train", downloads).uploads)]
        for draw in draws:
            asked.drawn(*draw)
        *_, last = (asked.aggregate(state, replies, "train") for _ in range(folds))
        return last.state.key

    same = learner is learner_of
    assert (key() == key((2, 3))) == same
    assert (key((2, 3)) == key((2, 4))) == same
    assert (key() == key(folds=2)) == same


def test_a_value_goes_when_nobody_holds_its_ticket_and_not_before():
    class Kept(dict):
        """A dict that can be watched."""

    learner = learner_of()
    learner.algorithm = within(Whole(), None)
    state = learner.start()
    state.value = tree = Kept(state.value)
    seen, held = weakref.ref(tree), [state]
    del tree, state
    gc.collect()
    assert seen() is not None
    assert len(learner.values()) == 1
    held.clear()
    gc.collect()
    assert seen() is None
    assert len(learner.values()) == 0


def test_what_was_sent_in_a_round_is_gone_with_its_round_and_states_with_those_that_hold_them():
    learner = learner_of()
    _, state = story(learner, rounds=3)
    gc.collect()
    assert [*learner.values()] == [state.key]


def test_a_job_gets_the_seed_of_its_number_which_a_withdrawn_one_gives_back():
    learner = learner_of()
    state = learner.start()
    learner.arrive(2, Period())
    for expected, end in ((201, "done"), (202, "withdrawn"), (202, "dropped"), (203, "done")):
        (download,) = learner.downloads(state, [2], "train")
        (upload,) = learner.work([2], "train", [download]).uploads
        work = upload.value.promise
        assert work.job.seed == expected
        if end == "dropped":
            learner.dropped(upload)
        elif end == "done":
            learner.done([2], [upload])
        else:
            learner.withdrawn(2, upload)
        assert work.cancelled == (end != "done")


def test_a_job_sees_the_download_data_and_memory_of_its_moment_and_its_client_remembers_it_once_done():
    learner = learner_of()
    state, first, second = learner.start(), Period(0, "data"), Period(1, "later")
    learner.arrive(0, first)
    (download,) = learner.downloads(state, [0], "train")
    (upload,) = learner.work([0], "train", [download]).uploads
    learner.arrive(0, second)
    job = upload.value.promise.job
    assert (job.client, job.step, job.period, job.data, job.memory) == (0, "train", 0, "data", {})
    assert job.download is download.value.tree
    client = learner.clients[0]
    assert (client.period, client.data, client.seen) == (1, "later", [first, second])
    assert client.memory == {}
    learner.done([0], [upload])
    assert client.memory == {"own": 0}  # its promise's, which nobody has opened


@pytest.mark.parametrize("declared", [True, False])
def test_sizes_are_those_of_the_finished_work_and_are_known_before_where_they_are_declared(declared):
    learner = learner_of(declared=declared)
    uploads = learner.work([0, 2], "train", [None, None]).uploads
    done = [upload.value.promise for upload in uploads]
    assert [upload.nbytes == UNKNOWN for upload in uploads] == [not declared] * 2
    assert [work.asked for work in done] == [0, 0]
    assert [learner.size(0, upload) for upload in uploads] == [wire.size(work.upload) for work in done]


def test_what_travels_can_be_looked_at():
    learner = learner_of()
    state = learner.start()
    (download,) = learner.downloads(state, [0], "train")
    share: Share = learner.share(state, 0)
    for ticket in (download, share.ticket):
        assert wire.size(learner.contents(ticket)) == ticket.nbytes
