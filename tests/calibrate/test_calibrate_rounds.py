"""A round is put together from predicted pieces, with the gaps between them as they were."""

from dataclasses import replace

import numpy as np
import pytest
from scenario_texts import load  # noqa: F401 -- a fixture

from fedsim.calibrate import quality
from fedsim.calibrate.measured import Measurements, Moved, Spans, Worked

TEXT = """\
name: two
clients: {count: 2, speed: 1 GFLOP/s}
network: {latency: 30 ms, uplink: 5 Mbit/s, downlink: 20 Mbit/s}
protocol: {name: sync, rounds: 2, participation: 1.0}
algorithm: {name: traffic, down: 20 kB, up: 50 kB}
"""
LENGTH, SERVER = 4.0, 0.5  # seconds of a round until the last upload, and of the server after it


@pytest.fixture
def two(load):  # noqa: F811
    """Two rounds: client 0 takes 1 s down, 2 s of work and 1 s up, client 1 a second of each; then the server works."""
    (point,) = load(TEXT)
    messages, jobs = [], []
    for start in (0.0, LENGTH + SERVER):
        for client, work in ((0, 2.0), (1, 1.0)):
            messages += [(client, False, start, start + 1), (client, True, start + 1 + work, start + 2 + work)]
            jobs.append((client, start + 1, start + 1 + work))
    client, upload, sent, arrived = (np.array(column) for column in zip(*messages, strict=True))
    count = len(messages)
    moved = Moved(
        client, upload, np.full(count, 9), sent, arrived, np.ones(count, dtype=bool), np.zeros(count, dtype=int)
    )
    worker, begun, ended = (np.array(column) for column in zip(*jobs, strict=True))
    updates = (LENGTH + SERVER) * np.array([1.0, 2.0])
    return Measurements(
        2, moved, Worked(worker, begun, ended, np.full(4, np.nan)), Spans.none(), updates, 9.0,
        point.scenario,
    )  # fmt: skip


def predicted(measured, messages=0.0, work=0.0, client=1):
    """Predicted seconds, so many more than measured for each message and job of one client."""
    moved, worked = measured.moved, measured.worked
    return moved.seconds + messages * (moved.client == client), worked.end - worked.start + work * (
        worked.client == client
    )


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ({}, 4.5),
        ({"messages": 0.4}, 4.5),  # client 1 is still the first to answer
        ({"messages": 1.5}, 6.5),  # 3 s and 3 s more
        ({"messages": 1.0, "work": 0.5}, 6.0),
        ({"messages": 0.25, "client": 0}, 5.0),
        ({"work": -0.5, "client": 0}, 4.0),
        ({"work": -1.5, "client": 0}, 3.5),  # client 1 is then the last, at 3 s
    ],
)
def test_the_slowest_client_ends_a_round(two, more, seconds):
    made, seen = quality.rounds(two, *predicted(two, **more))
    assert made == pytest.approx([seconds, seconds])
    assert seen == pytest.approx([4.5, 4.5])


def test_rounds_of_one_part_of_the_run(two):
    values = predicted(two)
    assert [len(quality.rounds(two, *values, *part)[0]) for part in ((0.0, 5.0), (4.0, np.inf), (5.0, np.inf))] == [
        1,
        1,
        0,
    ]


def test_a_round_with_a_piece_that_is_not_predicted_is_left_out(two):
    moved, worked = predicted(two)
    moved[0] = np.nan
    assert len(quality.rounds(two, moved, worked)[0]) == 1
    worked[-1] = np.nan
    assert len(quality.rounds(two, moved, worked)[0]) == 0


def test_messages_that_did_not_arrive_do_not_end_a_round(two):
    """Client 0's first upload is cut: the round ends with that of client 1, whose seconds then count."""
    cut = two.moved.whole.copy()
    cut[1] = False
    lost = replace(two, moved=replace(two.moved, whole=cut))
    made, _ = quality.rounds(lost, *predicted(lost, messages=0.25))
    assert made[0] == pytest.approx(5.0)


def test_only_rounds_of_sync_are_predicted(two):
    for other in (None, two.scenario.model_copy(update={"protocol": replace_name(two.scenario.protocol)})):
        assert len(quality.rounds(replace(two, scenario=other), *predicted(two))[0]) == 0


def replace_name(part):
    return part.model_copy(update={"name": "deadline"})
