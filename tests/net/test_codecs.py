"""What all codecs share: sizes, structure, bytes that suffice, types, memory."""

from dataclasses import dataclass
from math import prod

import numpy as np
import pytest
import torch
from codec_trees import CODECS, FLOATS, plain, same, trees
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.core.wire import Spec
from fedsim.net import floats, marks
from fedsim.net.codec import Codec, compress
from fedsim.net.codecs.half import Half
from fedsim.net.codecs.rand_k import RandK
from fedsim.net.codecs.top_k import TopK
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

codecs = pytest.mark.parametrize("codec", CODECS, ids=repr)


@dataclass(frozen=True)
class Signs(Codec):
    """A bit a number: only the spec tells `grow` how many there are, and in which shape."""

    def pieces(self, spec):
        return Spec((-(-prod(spec.shape) // 8),), "uint8")

    def shrink(self, array, spec, rng):
        assert array.shape == spec.shape
        return np.packbits(array.reshape(-1) > 0)

    def grow(self, pieces, spec):
        bits = np.unpackbits(pieces, count=prod(spec.shape)).reshape(spec.shape)
        return floats.narrow(bits * 2.0 - 1, spec.dtype)


@dataclass(frozen=True)
class Flat(Signs):
    """It forgets the shape."""

    def grow(self, pieces, spec):
        return super().grow(pieces, spec).reshape(-1)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape", [(7, 9, 3), (50,), (1, 64)])
def test_a_codec_is_given_the_shape_that_its_pieces_do_not_tell(name, shape):
    array = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(getattr(torch, name))
    encoded, received, _ = compress(Signs(), {"w": array}, {}, rng())
    assert torch.equal(received["w"], torch.where(array > 0, 1.0, -1.0).to(array.dtype))
    data = wire.encode(encoded)
    assert len(data) == wire.size(Signs().like({"w": array})) < wire.size({"w": array})
    assert same(plain(Signs().decode(wire.decode(data))), plain(received))


def test_a_codec_that_forgets_the_shape_is_told():
    with pytest.raises(
        ValueError, match=r"Flat.grow has returned the shape \(64,\), and that of the array is \(8, 8\)"
    ):
        compress(Flat(), torch.ones(8, 8), {}, rng())


def rng(seed=0):
    return np.random.default_rng(seed)


def gcn(dtype=torch.float32):
    torch.manual_seed(1)
    return {
        "conv1": {"weight": torch.randn(64, 64, dtype=dtype)},
        "conv2": {"weight": torch.randn(64, 10, dtype=dtype)},
    }


def shape_of(node):
    return marks.transform(lambda array: (tuple(array.shape), str(array.dtype).removeprefix("torch.")), node)


@codecs
@settings(max_examples=60, deadline=None)
@given(trees, st.integers(0, 9))
def test_sizes_structure_and_bytes(codec, tree, seed):
    before = marks.transform(lambda array: array.clone() if hasattr(array, "clone") else array.copy(), tree)
    encoded, received, memory = compress(codec, tree, {}, rng(seed))
    data = wire.encode(encoded)
    specs = marks.transform(lambda array: Spec(tuple(array.shape), str(array.dtype).removeprefix("torch.")), tree)
    assert len(data) == wire.size(codec.like(tree)) == wire.size(codec.like(specs))
    assert len(data) <= wire.size(tree) + 5 + 1 + encoded[1].count("-")  # never much more than without a codec
    assert same(plain(codec.decode(wire.decode(data))), plain(received))  # the bytes suffice
    assert same(before, tree)
    assert shape_of(received) == shape_of(tree)
    again, _, after = compress(codec, tree, {}, rng(seed))
    assert wire.encode(again) == data
    assert same(after, memory)
    assert wire.size(memory) == len(wire.encode(memory))  # a checkpoint can write it
    assert bool(memory) == (codec.feedback and encoded[1].strip("-") != "")


@codecs
@pytest.mark.parametrize("name", FLOATS)
def test_arrays_come_back_as_they_were_given(codec, name):
    tree = {"w": gcn(getattr(torch, name)), "n": 3, "none": None, "index": torch.arange(40), "mask": np.ones(50, bool)}
    received = compress(codec, tree, {}, rng())[1]
    assert received["w"]["conv1"]["weight"].dtype == getattr(torch, name)
    assert received["index"] is tree["index"]
    assert received["mask"] is tree["mask"]
    assert received["none"] is None
    if name != "bfloat16":
        array = tree["w"]["conv1"]["weight"].numpy()
        back = compress(codec, [array], {}, rng())[1][0]
        assert isinstance(back, np.ndarray)
        assert back.dtype == array.dtype


@codecs
def test_what_is_received_is_never_the_senders_own_memory(codec):
    tree = gcn()
    kept = {key: value["weight"].clone() for key, value in tree.items()}
    encoded, received, memory = compress(codec, tree, {}, rng())
    data, left = wire.encode(encoded), marks.transform(np.copy, memory)
    received["conv1"]["weight"].add_(1)
    assert torch.equal(tree["conv1"]["weight"], kept["conv1"])
    assert wire.encode(encoded) == data
    assert same(memory, left)


@codecs
def test_tensors_with_gradient_and_transposed(codec):
    weight = torch.nn.Parameter(gcn()["conv2"]["weight"].mT)
    received = compress(codec, weight, {}, rng())[1]
    assert not received.requires_grad
    assert torch.equal(received, compress(codec, weight.detach().contiguous(), {}, rng())[1])


def test_the_ratios_on_a_small_network():
    tree = gcn()
    ratio = {repr(codec): wire.size(codec.like(tree)) / wire.size(tree) for codec in CODECS}
    expected = {
        "Half()": 0.5,
        "Bfloat16()": 0.5,
        "Int8()": 0.25,
        "TopK(share=0.1, feedback=True)": 0.2,
        "TopK(share=0.4, feedback=False)": 0.8,
        "RandK(share=0.1, feedback=True)": 0.1,
        "RandK(share=0.5, feedback=False)": 0.5,
    }
    assert ratio == pytest.approx(expected, abs=0.005)
    assert all(ratio[name] >= expected[name] - 1e-4 for name in ratio)


@codecs
def test_users_trees_that_look_encoded_travel(codec):
    tree = [None, "f-", [torch.ones(30)]]
    encoded = codec.encode([tree, None, {"": None}], {}, rng())[0]
    twice = codec.encode(encoded, {}, rng())[0]
    assert codec.decode(wire.decode(wire.encode(encoded)))[0][:2] == [None, "f-"]
    assert same(plain(codec.decode(twice)), plain(encoded)) or codec.finite


@codecs
@pytest.mark.parametrize("bad", [None, [None], [None, "x", [1]], [None, "f", []], [None, "-f", [1]], [1, "-", []]])
def test_what_no_codec_has_made_is_refused(codec, bad):
    with pytest.raises(ValueError, match="malformed"):
        codec.decode(bad)


@codecs
def test_what_cannot_travel_is_refused_as_without_a_codec(codec):
    import scipy.sparse

    bad = [scipy.sparse.eye(3, format="csr"), torch.eye(3).to_sparse_coo(), np.zeros(40, ">f4"), np.array(["a"])]
    for array in bad:
        for call in (lambda a: codec.like([a]), lambda a: codec.encode([a], {}, rng())):
            with pytest.raises(ValueError, match="cannot travel"):
                call(array)
    with pytest.raises(ValueError, match="no values"):
        codec.encode(Spec((40, 40), "float32"), {}, rng())
    for leaf in ({1: 2}, {"a"}, object()):
        with pytest.raises(ValueError, match="type"):
            wire.size(codec.like([leaf]))


@codecs
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_kept_or_refused(codec, value):
    tree = {"update": {"a/b": np.full(60, value, np.float32)}}
    if codec.finite:
        with pytest.raises(ValueError, match=r"/update/a~1b .* not finite, .* the codec half"):
            codec.encode(tree, {}, rng())
    else:
        assert np.array_equal(
            compress(codec, tree, {}, rng())[1]["update"]["a/b"], tree["update"]["a/b"], equal_nan=True
        )


@codecs
def test_short_and_empty_arrays_go_as_they_are(codec):
    tree = [np.float32(1.1), torch.tensor(0.1), torch.empty(0), torch.empty(3, 0, 900), np.array([0.1], np.float32)]
    encoded, received, memory = compress(codec, tree, {}, rng())
    assert encoded[1:] == ["", []]
    assert all(a is b for a, b in zip(received, tree, strict=True))
    assert memory == {}


def test_names_and_options_in_a_scenario():
    assert find.names("codec") == ["bfloat16", "half", "int8", "rand_k", "top_k"]
    for name in find.names("codec"):
        options = {"share": "10 %"} if name.endswith("_k") else {}
        part = Part(name=name, **options)
        assert find.check("codec", part) == []
        codec = find.build("codec", part)
        assert codec.downwards == (not options)
        assert not options or (codec.share, codec.feedback) == (0.1, True)
    assert find.build("codec", Part(name="half")) == Half()
    assert find.build("codec", Part(name="rand_k", share=0.5, feedback=False)) == RandK(0.5, feedback=False)
    for wrong, match in [
        (Part(name="top_k"), "needs the option 'share'"),
        (Part(name="top_k", share=0), "share: 0: must be more than 0"),
        (Part(name="top_k", share=2), "between 0 and 1"),
        (Part(name="top_k", shares=0.1), "did you mean 'share'"),
        (Part(name="half", share=0.1), "no option 'share'"),
    ]:
        with pytest.raises(ScenarioError, match=match):
            find.build("codec", wrong)


@pytest.mark.parametrize("codec", [TopK(share=0.1), RandK(share=0.1)], ids=repr)
def test_what_an_upload_tells_beside_its_difference_is_not_picked_from(codec):
    beside = {"updated": torch.randn(40), "prototypes": [{"gradients": torch.randn(8, 8)}], "samples": 3}
    upload = {"update": gcn(), **beside}
    encoded, received, memory = compress(codec, upload, {}, rng())
    assert same({key: received[key] for key in beside}, beside)
    assert int((received["update"]["conv1"]["weight"] != 0).sum()) <= 410
    assert wire.size(encoded) == wire.size(codec.like(upload))
    assert {path.split("/")[1] for path in memory} == {"update"}
    assert int((compress(codec, beside, {}, rng())[1]["updated"] != 0).sum()) <= 4  # names none, and is one itself
