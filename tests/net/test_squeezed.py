"""A squeezed upload: when it is opened, what it weighs, whose memory it uses."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from codec_trees import CODECS, plain, same
from fake_upload import Work
from fedsim.net.squeezed import Squeezed

from fedsim.net import wire
from fedsim.net.codec import squeeze
from fedsim.net.codecs.half import Half
from fedsim.net.codecs.top_k import TopK
from fedsim.net.message import Message
from fedsim.net.wire import Spec


@dataclass
class Notes:
    """The codec's memory of a client."""

    now: dict = field(default_factory=dict)
    taken: int = 0
    kept: int = 0

    def take(self):
        self.taken += 1
        return self.now

    def keep(self, memory):
        self.kept += 1
        self.now = memory


def upload(seed=0):
    torch.manual_seed(seed)
    return {"update": {"w": torch.randn(20, 8)}, "samples": 7}


LIKE = {"update": {"w": Spec((20, 8), "float32")}, "samples": 0}


def squeezed(work, codec, notes=None, seed=0):
    notes = notes or Notes()
    return Squeezed(work, codec, np.random.default_rng(seed), notes.take, notes.keep), notes


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("like", [LIKE, None])
def test_its_size_is_known_before_and_its_value_is_what_the_server_has(codec, like):
    work = Work(upload(), like)
    promise, notes = squeezed(work, codec)
    nbytes = promise.nbytes
    assert work.asked == (like is None)
    assert (notes.taken, notes.kept) == (0, 0)
    encoded, received, memory = squeeze(codec, upload(), {}, np.random.default_rng(0))
    assert same(plain(promise.value()), plain(received))
    assert promise.value() is promise.value()
    assert nbytes == promise.nbytes == wire.size(promise.encoded()) == len(wire.encode(encoded))
    assert same(notes.now, memory)
    assert (notes.taken, notes.kept) == (1, 1)
    assert promise.memory() == {"own": work.asked}


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_a_message_of_its_parcel_has_the_bytes_that_it_says(codec):
    promise, _ = squeezed(Work(upload(), LIKE), codec)
    message = Message(3, -1, "train", promise.parcel)
    assert message.nbytes == len(message.encode())
    assert message.nbytes - wire.size({"src": 3, "dst": -1, "kind": "train", "version": 0}) == promise.nbytes
    assert same(plain(codec.decode(wire.decode(wire.encode(message.contents())))), plain(promise.value()))


def test_asking_for_the_memory_squeezes_in_the_order_of_jobs():
    notes, codec = Notes(), TopK(0.1)
    first, _ = squeezed(Work(upload(1), LIKE), codec, notes)
    first.memory()  # as a client's next job does, though nobody has read the first upload
    assert np.count_nonzero(notes.now["/update/w"]) == 160 - 16
    second, _ = squeezed(Work(upload(2), LIKE), codec, notes)
    total = second.value()["update"]["w"].numpy() + first.value()["update"]["w"].numpy() + notes.now["/update/w"]
    assert np.allclose(total, (upload(1)["update"]["w"] + upload(2)["update"]["w"]).numpy(), atol=1e-6)
    assert notes.kept == 2


def test_a_cancelled_job_leaves_no_trace():
    work = Work(upload(), LIKE)
    promise, notes = squeezed(work, TopK(0.1))
    assert promise.nbytes > 0
    promise.cancel()
    assert work.cancelled
    assert (work.asked, notes.taken, notes.kept) == (0, 0, 0)


def test_an_upload_of_another_size_than_was_told_is_refused():
    promise, notes = squeezed(Work(upload(), {"update": {"w": Spec((20, 9), "float32")}, "samples": 0}), Half())
    with pytest.raises(ValueError, match=r"promised \d+ bytes behind the codec Half, the upload has \d+"):
        promise.value()
    assert notes.kept == 0
