import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.net import wire
from fedsim.net.message import Message


class Promised:
    """A promise that counts how often it is asked."""

    def __init__(self, tree):
        self.tree, self.sized, self.opened = tree, 0, 0

    @property
    def nbytes(self):
        self.sized += 1
        return wire.size(self.tree)

    def value(self):
        self.opened += 1
        return self.tree


numbers = st.integers(-1, 2**40)
payloads = st.none() | st.just({"w": np.ones((3, 4)), "n": 7}) | st.lists(st.floats(allow_nan=False), max_size=5)


@given(numbers, numbers, st.text(max_size=50), payloads, st.integers(0, 2**40))
def test_size_is_length_for_a_tree_and_for_a_promise(src, dst, kind, payload, version):
    message = Message(src, dst, kind, payload, version)
    promised = Message(src, dst, kind, Promised(payload), version)
    assert message.nbytes == promised.nbytes == len(message.encode()) == len(promised.encode())


def test_the_envelope_does_not_depend_on_the_numbers_in_it():
    assert Message(-1, 3, "train", None).nbytes == Message(10**9, -1, "train", None, 10**9).nbytes


def test_an_array_alone_is_no_promise():
    array = np.zeros(1000)
    message = Message(0, -1, "train", array)
    assert message.contents() is array
    assert message.nbytes - Message(0, -1, "train", None).nbytes == wire.size(array) - wire.size(None)


def test_measuring_opens_no_promise_and_happens_once():
    promise = Promised([1, 2])
    message = Message(0, -1, "train", promise)
    assert message.nbytes == message.nbytes
    assert message.contents() == [1, 2]
    assert (promise.opened, promise.sized) == (1, 1)


def test_what_cannot_travel_is_refused():
    with pytest.raises(ValueError, match="type object"):
        _ = Message(0, -1, "train", object()).nbytes
