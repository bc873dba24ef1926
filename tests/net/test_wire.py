import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from fedsim.core import wire
from fedsim.core.wire import ITEM, Sizes, Spec, array_bytes, decode, encode, size

NUMPY = [name for name in ITEM if name != "bfloat16"]
TORCH = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int8, torch.bool, torch.complex64]

numpy_arrays = st.sampled_from(NUMPY).flatmap(lambda name: nps.arrays(name, nps.array_shapes(min_dims=0, min_side=0)))


@st.composite
def tensors(draw):
    shape = draw(nps.array_shapes(min_dims=0, min_side=0, max_dims=3))
    torch.manual_seed(draw(st.integers(0, 9)))
    tensor = (torch.randn(shape) * 9).to(draw(st.sampled_from(TORCH)))
    return tensor.mT if draw(st.booleans()) and tensor.ndim > 1 else tensor


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300)
)
trees = st.recursive(
    scalars | numpy_arrays | tensors(),
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.lists(inner, max_size=20).map(tuple)
        | st.dictionaries(st.text(max_size=40), inner, max_size=20)
    ),
    max_leaves=25,
)


def same(a, b):
    if hasattr(a, "dtype"):
        a = a.numpy() if isinstance(a, torch.Tensor) else np.asarray(a)
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@given(trees)
def test_size_is_length_and_decoding_inverts(tree):
    data = encode(tree)
    assert size(tree) == len(data)
    assert same(tree, decode(data))
    assert array_bytes(tree) <= len(data)


@given(st.lists(trees, min_size=1, max_size=4), st.data())
def test_sizes_of_trees_that_share_parts_are_those_of_each(parts, data):
    sizes, model = Sizes(), {"model": parts[0], "deep": {"er": parts}}
    for _ in range(3):
        tree = {"update": model, "samples": 0, "own": data.draw(st.sampled_from(parts)), "twice": [model, (model,)]}
        assert sizes.of(tree) == size(tree) == len(encode(tree))


def test_a_remembered_size_is_of_the_very_dict_that_was_measured():
    sizes = Sizes()
    for length in range(200):  # each dict is freed but for what remembers it, and its address would be taken again
        assert sizes.of({"a": {"b": np.zeros(length)}}) == len(encode({"a": {"b": np.zeros(length)}}))
    shared = {"b": np.zeros(3)}
    before = sizes.of([shared])
    shared["b"] = np.zeros(4)
    assert Sizes().of([shared]) == size([shared]) == before + 8  # a new one knows nothing of the old


def test_equal_shapes_of_different_kinds_of_array_do_not_share_a_size():
    for array in (
        np.zeros((3, 3), "f4"),
        torch.zeros(3, 3),
        torch.zeros(3, 3, dtype=torch.float64),
        Spec((3, 3), "int8"),
    ):
        assert size(array) == size(Spec((3, 3), str(array.dtype).removeprefix("torch.")))
    with pytest.raises(ValueError, match="sparse"):  # of the same class, dtype and shape as one that has a size
        size(torch.eye(3).to_sparse_coo())


class Measured(dict):
    """A dict that knows its size, or not."""

    measured = None


def test_a_dict_of_a_class_of_its_own_may_know_its_size():
    measured = Measured(a=np.zeros(3))
    assert size([measured]) == len(encode([measured]))
    assert array_bytes([measured]) == 24
    measured.measured = (1000, 900)
    assert size([measured]) == 4 + 1 + 1000
    assert Sizes().of([measured]) == 4 + 1 + 1000
    assert array_bytes([measured, np.zeros(1)]) == 908


@pytest.mark.parametrize("length", [0, 1, 15, 16, 31, 32, 127, 128, 255, 256, 65535, 65536])
def test_size_at_the_lengths_where_the_skeleton_changes(length):
    for tree in ("x" * length, "é" * length, b"x" * length, [None] * length, (None,) * length, np.zeros(length, bool)):
        assert size(tree) == len(encode(tree))
    keys = {str(i): None for i in range(length)}
    assert size(keys) == len(encode(keys))
    assert size({"x" * length: None}) == len(encode({"x" * length: None}))


@given(st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans())
def test_size_does_not_depend_on_values(whole, real, truth):
    assert size({"a": whole, "b": [real, truth]}) == size({"a": 0, "b": [0.0, False]})


@given(st.lists(st.integers(0, 5), max_size=3), st.sampled_from(list(ITEM)))
def test_a_spec_has_the_size_of_its_array(shape, name):
    array = torch.zeros(shape, dtype=getattr(torch, name))
    assert size(Spec(tuple(shape), name)) == size(array) == len(encode(array))
    assert array_bytes([Spec(tuple(shape), name), 1.0, 2]) == array.numel() * array.element_size()


def test_a_spec_of_any_size_is_measured_and_not_encoded():
    huge = Spec((10**6, 10**6), "float32")
    assert size(huge) == 4 * 10**12 + size(Spec((10**6, 0), "float32")) + 4
    with pytest.raises(ValueError, match="no values"):
        encode({"x": huge})


def test_not_a_number_and_signed_zero_survive():
    back = decode(encode([math.nan, -0.0, math.inf]))
    assert math.isnan(back[0])
    assert struct.pack("<d", back[1]) == struct.pack("<d", -0.0)
    assert back[2] == math.inf


def test_bfloat16_decodes_as_the_float32_that_holds_it():
    tensor = torch.randn(7, 3).to(torch.bfloat16)
    back = decode(encode(tensor))
    assert back.dtype == np.float32
    assert np.array_equal(back, tensor.float().numpy())


def test_tensors_with_gradient_or_on_no_device():
    parameter = torch.nn.Parameter(torch.ones(3))
    assert same(parameter.detach(), decode(encode(parameter)))
    assert size(torch.empty(5, device="meta")) == size(Spec((5,), "float32"))


def test_decoded_arrays_are_writable_copies():
    data = encode(np.arange(3))
    back = decode(data)
    back[0] = 9
    assert decode(data)[0] == 0


def test_a_tensor_that_is_sent_is_unchanged():
    tensor = torch.arange(6.0).reshape(2, 3).mT
    before = tensor.clone()
    encode(tensor)
    assert torch.equal(tensor, before)


def test_numpy_scalars_travel_as_arrays_without_axes():
    assert decode(encode(np.float32(2.5))) == np.float32(2.5)
    assert size(np.float64(1.0)) == len(encode(np.float64(1.0)))


def sparse_arrays():
    import scipy.sparse

    yield scipy.sparse.eye(3, format="csr")
    yield torch.eye(3).to_sparse_coo()


@pytest.mark.parametrize("measure", [size, encode])
def test_what_cannot_travel_is_refused(measure):
    for sparse in sparse_arrays():
        with pytest.raises(ValueError, match="sparse"):
            measure({"x": sparse})
    for bad, match in [
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        ({1: None}, "type str"),
        ({"a"}, "type set"),
        (object(), "type object"),
        (np.array(["a"]), "dtype '<U1'"),
        (np.array([None]), "dtype 'object'"),
        (np.zeros(2, ">f4"), "dtype '>f4'"),
    ]:
        with pytest.raises(ValueError, match=match):
            measure([bad])


@given(trees, st.data())
def test_truncated_and_lengthened_bytes_are_refused(tree, data):
    whole = encode(tree)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for bad in (whole[:cut], whole + b"\0"):
        with pytest.raises(ValueError, match="malformed"):
            decode(bad)


@given(st.binary(max_size=40) | st.binary(max_size=20).map(lambda body: len(body).to_bytes(4, "big") + body))
def test_any_bytes_are_a_tree_or_malformed(data):
    try:
        tree = decode(data)
    except ValueError:
        with pytest.raises(ValueError, match="malformed"):
            decode(data)
    else:
        assert same(tree, decode(encode(tree)))


def test_a_tree_that_no_table_could_hold_is_refused():
    huge = {"ballast": Spec((10**15 + wire.ENVELOPE,), "uint8")}
    for measure in (size, Sizes().of, lambda tree: wire.SizedTree(**tree)):
        with pytest.raises(ValueError, match="bytes are too many for one message; 1,000,000,000,000,000 are allowed"):
            measure(huge)
    assert size({"ballast": Spec((10**15,), "uint8")}) > 10**15  # the largest payload that a scenario may name
