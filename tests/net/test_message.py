import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core import wire
from fedsim.net.message import Message

numbers = st.integers(-1, 2**40)
payloads = st.none() | st.just({"w": np.ones((3, 4)), "n": 7}) | st.lists(st.floats(allow_nan=False), max_size=5)


@given(numbers, numbers, st.text(max_size=50), payloads, st.integers(0, 2**40))
def test_size_is_length_for_a_tree_and_for_a_payload_of_so_many_bytes(src, dst, kind, payload, version):
    message = Message(src, dst, kind, payload, version)
    stands = Message.carrying(src, dst, kind, len(wire.encode(payload)), version, "label")
    assert message.nbytes == stands.nbytes == len(message.encode())
    assert stands.payload is None


def test_the_envelope_does_not_depend_on_the_numbers_in_it():
    assert Message(-1, 3, "train", None).nbytes == Message(10**9, -1, "train", None, 10**9).nbytes


def test_an_array_alone_is_a_payload():
    array = np.zeros(1000)
    message = Message(0, -1, "train", array)
    assert message.payload is array
    assert message.nbytes - Message(0, -1, "train", None).nbytes == wire.size(array) - wire.size(None)


def test_measuring_happens_once(monkeypatch):
    measured, size = [], wire.size
    message, stands = Message(0, -1, "train", [1, 2]), Message.carrying(0, -1, "train", 3)
    monkeypatch.setattr(wire, "size", lambda tree: measured.append(tree) or size(tree))
    assert message.nbytes == message.nbytes
    assert measured.count([1, 2]) == 1
    assert stands.nbytes == stands.nbytes
    assert None not in measured


def test_what_stands_for_a_whole_message_has_exactly_its_bytes():
    assert Message.sized(0, -1, "replay", 12345).nbytes == 12345


def test_what_cannot_travel_is_refused():
    with pytest.raises(ValueError, match="type object"):
        _ = Message(0, -1, "train", object()).nbytes
