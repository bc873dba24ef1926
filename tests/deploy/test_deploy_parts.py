"""Offsets between clocks, questions, trees and the wall clock."""

import math
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core import wire
from fedsim.deploy import messages
from fedsim.deploy.host import Offsets
from fedsim.deploy.messages import WORK, Delivered, Post, Question, Response, pack, unpack
from fedsim.deploy.real_time import Inbox, RealTime
from fedsim.deploy.worker import STAT

SECONDS = st.floats(0.001, 10)


@given(st.floats(-1000, 1000), st.lists(st.tuples(SECONDS, SECONDS, SECONDS), min_size=1, max_size=5))
def test_the_offset_is_right_within_the_quickest_ways(ahead, exchanges):
    offsets, now = Offsets(), 0.0
    for there, work, back in exchanges:
        received = now + there
        found = offsets.of(3, now, received + ahead, received + work + ahead, received + work + back)
        now = received + work + back
    ways = min(there + back for there, _, back in exchanges)
    assert abs(found - ahead) <= (ways / 2 if found else ways) + 1e-9


@given(SECONDS, SECONDS)
def test_equal_ways_tell_the_offset_and_clocks_that_agree_are_left_alone(way, work):
    found = Offsets().of(0, 5.0, 5.0 + way + 60, 5.0 + way + work + 60, 5.0 + 2 * way + work)
    assert found == pytest.approx(60)
    assert Offsets().of(0, 5.0, 5.0 + 0.9 * way, 5.0 + 0.9 * way + work, 5.0 + 2 * way + work) == 0.0


@given(st.text(max_size=8), st.integers(0, 2**62), st.binary(max_size=50), st.lists(st.integers(0, 99), max_size=4))
def test_questions_and_answers_arrive_as_they_were_sent(step, seed, message, asks):
    question = Question(WORK, step, 2, seed, 7, message, asks)
    assert unpack(Question, pack(question)) == question
    answer = Response(3, message, 1.5, 2.5, 3.5, 0.25, step)
    assert unpack(Response, pack(answer)) == answer
    assert math.isnan(unpack(Response, pack(replace(answer, loss=math.nan))).loss)


@pytest.mark.parametrize("data", [b"", b"\0\0\0\1", wire.encode({"what": "work"}), wire.encode(3)])
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError, match=r"malformed|not a question"):
        unpack(Question, data)


def test_arrays_arrive_as_tensors():
    tree = {"a": torch.arange(6.0).reshape(2, 3).T, "b": [np.int64([1, 2]), (True, None, 2.5)], "c": "text"}
    found = messages.tensors(wire.decode(wire.encode(tree)), "cpu")
    assert torch.equal(found["a"], tree["a"])
    assert found["b"][0].tolist() == [1, 2]
    assert found["b"][1] == (True, None, 2.5)
    assert found["c"] == "text"


class Slow(Post):
    """Answers each question after so many seconds."""

    def __init__(self, seconds):
        self.seconds, self.due = seconds, []

    def send(self, number, client, data):
        self.due.append((time.monotonic() + self.seconds, number))
        return len(data)

    def poll(self, seconds):
        time.sleep(min(seconds, 0.005))
        now = time.monotonic()
        found = [Delivered(number, b"yes") for due, number in self.due if due <= now]
        self.due = [(due, number) for due, number in self.due if due > now]
        return found


def test_timeouts_and_answers_take_their_real_seconds():
    env, seen = RealTime(), []
    inbox = Inbox(env, Slow(0.1))

    def process():
        event, carried = inbox.ask(0, b"what")
        assert carried == 4
        seen.append(("asked", env.now))
        brought = yield event | env.timeout(0.02)
        assert not event.triggered
        seen.append(("tired of waiting", env.now))
        brought = yield event
        seen.append((brought.data.decode(), env.now))

    began = time.monotonic()
    assert inbox.run(env.process(process()), lambda: False) == "done"
    assert [what for what, _ in seen] == ["asked", "tired of waiting", "yes"]
    assert [moment for _, moment in seen] == sorted(moment for _, moment in seen)
    assert seen[1][1] - seen[0][1] >= 0.02
    assert seen[2][1] - seen[0][1] >= 0.1
    assert time.monotonic() - began >= 0.1


def test_a_run_that_waits_for_nothing_has_stalled():
    env = RealTime()
    assert Inbox(env, Slow(0.0)).run(env.event(), lambda: False) == "stalled"


def test_a_timeout_begins_when_it_is_asked_for():
    env, seen = RealTime(), []

    def process():
        yield env.timeout(0)
        time.sleep(0.1)  # an update that takes real time
        begun = env.now
        yield env.timeout(0.05)
        seen.append(env.now - begun)

    Inbox(env, Slow(0.0)).run(env.process(process()), lambda: False)
    assert seen[0] >= 0.05


@pytest.mark.skipif(not STAT.exists(), reason="this system does not tell when a process began")
def test_a_process_knows_for_how_long_it_has_been_running():
    code = "import time; time.sleep(0.3); from fedsim.deploy.worker import uptime; print(uptime())"
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0.3 <= float(done.stdout) <= time.monotonic() - began + 0.02
