"""What happens to uploads on their way: when they are opened, what they weigh, whose memory they use."""

import math

import numpy as np
import pytest
import torch
from codec_trees import CODECS, plain, same
from contexts import within
from fake_upload import Work, Works
from fake_world import Number

from fedsim.core import wire
from fedsim.core.seeds import Streams
from fedsim.core.wire import Spec
from fedsim.learner.client import Client, Upload, compressed, forged, is_finite, shared
from fedsim.learner.live import Live
from fedsim.learner.ticket import UNKNOWN, Ticket, values_of
from fedsim.net.attackers import Attackers
from fedsim.net.codec import compress
from fedsim.net.codecs.half import Half
from fedsim.net.codecs.int8 import Int8
from fedsim.net.codecs.top_k import TopK
from fedsim.net.message import Message


class Handed(Number):
    """Each client downloads its part of the state."""

    def download(self, state, client, step):
        return state[client]


LIKE = {"update": {"w": Spec((20, 8), "float32")}, "samples": 0}


class Notes(dict):
    """What a codec keeps for a client, with how often it was fetched and stored."""

    taken = kept = 0

    def get(self, *what):
        self.taken += 1
        return super().get(*what)

    def __setitem__(self, *what):
        self.kept += 1
        super().__setitem__(*what)


def made(seed=0):
    torch.manual_seed(seed)
    return {"update": {"w": torch.randn(20, 8)}, "samples": 7}


def learner_of(works, algorithm=None, **options):
    """A learner whose jobs bring these uploads."""
    seeds_of = lambda clients, jobs: [0] * len(jobs)  # noqa: E731
    return Live(within(algorithm or Number(), None), Works(works), Streams(0), seeds_of, **options)


def owner_of(number=3):
    client = Client(number)
    client.notes = Notes()
    return client


def upload_of(work, codec, owner=None, rng=None):
    owner = owner or owner_of()
    return Upload(work, owner, "train", [compressed(codec, rng or Streams(0))]), owner.notes


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("like", [LIKE, None])
def test_its_size_is_known_before_and_its_value_is_what_the_server_has(codec, like):
    work = Work(made(), like)
    upload, notes = upload_of(work, codec)
    assert (upload.declared() == UNKNOWN) == (like is None)
    assert work.asked == 0
    nbytes = upload.nbytes()
    assert work.asked == (like is None)
    assert (notes.taken, notes.kept) == (0, 0)
    encoded, received, memory = compress(codec, made(), {}, Streams(0)("codec up 3"))
    assert same(plain(upload.value()), plain(received))
    assert upload.value() is upload.value()
    assert nbytes == upload.nbytes() == wire.size(encoded) == len(wire.encode(encoded))
    assert same(notes["train"], memory)
    assert (notes.taken, notes.kept) == (1, 1)
    assert upload.memory() == {"own": work.asked}


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_a_message_of_its_size_has_the_bytes_of_what_the_server_decodes(codec):
    upload, _ = upload_of(Work(made(), LIKE), codec)
    encoded, _, _ = compress(codec, made(), {}, Streams(0)("codec up 3"))
    message = Message.carrying(3, -1, "train", upload.nbytes())
    assert message.nbytes == len(Message(3, -1, "train", encoded).encode())
    assert message.nbytes - wire.size({"src": 3, "dst": -1, "kind": "train", "version": 0}) == upload.nbytes()
    assert same(plain(codec.decode(wire.decode(wire.encode(encoded)))), plain(upload.value()))


def test_asking_for_the_memory_compresses_in_the_order_of_jobs():
    owner, codec, rng = owner_of(), TopK(0.1), Streams(0)
    first, notes = upload_of(Work(made(1), LIKE), codec, owner, rng)
    first.memory()  # as a client's next job does, though nobody has read the first upload
    assert np.count_nonzero(notes["train"]["/update/w"]) == 160 - 16
    second, _ = upload_of(Work(made(2), LIKE), codec, owner, rng)
    left = second.value()["update"]["w"].numpy() + first.value()["update"]["w"].numpy() + notes["train"]["/update/w"]
    assert np.allclose(left, (made(1)["update"]["w"] + made(2)["update"]["w"]).numpy(), atol=1e-6)
    assert notes.kept == 2


@pytest.mark.parametrize("attackers", [None, Attackers({3: [lambda array, rng: array * 2]})])
def test_a_job_that_is_broken_off_leaves_no_trace(attackers):
    work = Work(made(), LIKE)
    learner = learner_of([work], up=TopK(0.1), attackers=attackers or Attackers())
    learner.clients[3].notes = notes = Notes()
    (download,) = learner.downloads(learner.start(), [3], "train")
    (upload,) = learner.work([3], "train", [download]).uploads
    assert learner.size(0, upload) > 0
    learner.dropped(upload)
    assert work.cancelled
    assert (work.asked, notes.taken, notes.kept) == (0, 0, 0)
    assert learner.clients[3].memory == {}
    assert learner.rng.states() == {}


def test_an_upload_of_another_size_than_was_declared_is_refused():
    upload, notes = upload_of(Work(made(), {"update": {"w": Spec((20, 9), "float32")}, "samples": 0}), Half())
    with pytest.raises(ValueError, match=r"promised \d+ bytes behind the codec Half, the upload has \d+"):
        upload.value()
    assert notes.kept == 0


def test_a_codec_that_needs_numbers_lets_others_pass_for_the_server_to_refuse():
    good, bad, kept = made(), made(), []
    bad["update"]["w"][0, 0] = math.inf
    sizes = []
    for each in (good, bad):
        upload, notes = upload_of(Work(each, LIKE), Int8())
        sizes.append(upload.nbytes())
        assert is_finite(upload.value()) == (each is good)
        kept.append(notes.kept)
    assert sizes == [wire.size(compress(Int8(), good, {}, Streams(0)("codec up 3"))[0])] * 2
    assert kept == [1, 0]  # what was not compressed leaves nothing out


def test_an_upload_is_forged_once_when_it_is_opened_and_whoever_is_honest_sends_its_own():
    attackers, work, rng = Attackers({1: [lambda array, rng: array + rng.normal()]}), Work(made(), LIKE), Streams(0)

    def sent(work):
        return Upload(work, Client(1), "train", [forged(attackers, 1, rng)])

    upload = sent(work)
    assert upload.nbytes() == upload.declared() == work.nbytes
    assert work.asked == 0
    first = upload.value()
    assert upload.value() is first
    assert not torch.equal(first["update"]["w"], work.upload["update"]["w"])
    again, other = sent(Work(made())), Work(made())
    again.opened = upload.opened
    assert again.value() is first
    untouched = sent(other)
    untouched.opened = untouched.opened
    assert untouched.value() is not None
    assert other.asked == 1
    aside = {"update": torch.ones(2), "prototypes": torch.ones(2)}  # of a difference nothing else is forged
    assert torch.equal(sent(Work(aside)).value()["prototypes"], torch.ones(2))
    assert not torch.equal(sent(Work({"model": torch.ones(2)})).value()["model"], torch.ones(2))
    assert upload.memory() == {"own": 1}
    late = Work(made())
    sent(late).memory()
    assert late.asked == 0  # what a client remembers does not hang on what it sends
    assert 0 not in attackers  # nobody asks for it


def test_what_is_forged_is_compressed_and_only_where_it_travels():
    learner = learner_of([], up=Half(), attackers=Attackers({3: [lambda array, rng: array * 3]}))
    for client, factor in ((3, 3), (2, 1)):
        upload = learner.upload(Work(made(), LIKE), learner.clients[client], "train", True)
        assert torch.equal(upload.value()["update"]["w"], (made()["update"]["w"] * factor).half().float())
        alone = learner.upload(Work(made(), LIKE), learner.clients[client], "train", False)
        assert torch.equal(alone.value()["update"]["w"], made()["update"]["w"])
        assert alone.declared() == wire.size(LIKE)


@pytest.mark.parametrize("codec", [*(codec for codec in CODECS if codec.downwards), None], ids=repr)
def test_downloads_and_shares_have_the_bytes_that_they_say_and_are_what_is_decoded(codec):
    tree, nobody = made()["update"], Attackers()
    learner = learner_of([], Handed(), down=codec)
    downs = values_of(learner.downloads(Ticket(b"", 0, {0: tree, 1: tree, 2: made(1)["update"]}), [0, 1, 2], "train"))
    share = shared(codec, nobody, tree, 0, Streams(0))
    for sent, whole in zip([*downs, share], [tree, tree, made(1)["update"], tree], strict=True):
        assert codec is not None or (sent.tree is sent.encoded and same(plain(sent.tree), plain(whole)))
        assert sent.nbytes == wire.size(sent.encoded) == len(wire.encode(sent.encoded))
        found = sent.encoded if codec is None else codec.decode(wire.decode(wire.encode(sent.encoded)))
        assert same(plain(found), plain(sent.tree))


def test_a_peers_share_is_forged_and_where_it_is_not_finite_it_keeps_its_size():
    tree, attackers = made()["update"], Attackers({0: [lambda array, rng: array * math.inf]})
    sound, false = (shared(Int8(), attackers, tree, sender, Streams(0)) for sender in (1, 0))
    assert is_finite(sound.tree)
    assert not is_finite(false.tree)
    assert sound.nbytes == false.nbytes


class Longer(Half):
    """Sends more than it declares."""

    def pieces(self, spec):
        return Spec(spec.shape, "uint8")


def test_a_codec_that_sends_other_pieces_than_it_declares_is_named():
    upload, notes = upload_of(Work(made(), LIKE), Longer())
    with pytest.raises(ValueError, match=r"Longer\.shrink returns other shapes or types than Longer\.pieces"):
        upload.value()
    assert notes.kept == 0
