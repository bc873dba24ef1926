"""What a wrong `upload_like` is told: the entries, both sizes, and the lines of both functions."""

import inspect

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.fedavg import FedAvg
from fedsim.core import wire
from fedsim.learn.algorithm import Job
from fedsim.learn.upload_size import difference, mismatch

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.floats(-1, 1), st.text(max_size=3), st.binary(max_size=3),
    st.sampled_from([torch.zeros(2), torch.zeros(2, 3), torch.zeros(3, 2), torch.zeros(4, dtype=torch.int8)]),
)  # fmt: skip
TREES = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=3), st.tuples(inner, inner),
                                    st.dictionaries(st.text(max_size=2), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip


@given(TREES, TREES)
def test_what_differs_in_size_is_named_and_nothing_is_of_a_tree_and_itself(one, other):
    assert difference(one, one) == ""
    if wire.size(one) != wire.size(other):
        assert difference(one, other)


@pytest.mark.parametrize(
    ("declared", "sent", "message"),
    [
        (
            {"update": {"w": torch.zeros(2, 3)}},
            {"update": {"w": torch.zeros(2, 4)}},
            "['update']['w'] is declared as float32 (2, 3), 36 bytes and sent as float32 (2, 4), 44 bytes",
        ),
        ({"n": 0}, {"n": 1, "c": 0.5}, "['c'] is sent (a float, 9 bytes) and not declared"),
        ({"n": 0, "c": None}, {"n": 1}, "['c'] is declared (None, 1 byte) and not sent"),
        ({"n": [1, 2]}, {"n": [1]}, "['n'] is declared as a list of 2, 19 bytes and sent as a list of 1, 10 bytes"),
        ([1], (1,), "it is declared as a list and sent as a tuple"),
        (0, torch.zeros(1), "it is declared as an int, 9 bytes and sent as float32 (1,), 15 bytes"),
    ],
)
def test_a_difference_in_words(declared, sent, message):
    assert difference(declared, sent) == message


def test_many_differences_are_counted():
    assert difference({}, dict.fromkeys("abcde")).endswith("; and 2 more")


def test_the_message_names_both_functions_by_their_lines():
    job = Job(client=3, step="train", period=0, download={}, data={}, memory={}, seed=0)
    told = mismatch(FedAvg(), job, {"samples": 0}, {})
    for method in (FedAvg.upload_like, FedAvg.work):
        assert f"(algorithms/fedavg.py:{inspect.getsourcelines(method)[1]})" in told
    assert "client 3" in told
    assert "['samples'] is declared (an int, 9 bytes) and not sent" in told
