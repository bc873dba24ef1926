"""Trees of arrays of all kinds, and codecs, for the tests of codecs."""

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from fedsim.net.codecs.bfloat16 import Bfloat16
from fedsim.net.codecs.half import Half
from fedsim.net.codecs.int8 import Int8
from fedsim.net.codecs.rand_k import RandK
from fedsim.net.codecs.top_k import TopK

CODECS = [
    Half(),
    Bfloat16(),
    Int8(),
    TopK(0.1),
    TopK(0.4, feedback=False),
    RandK(0.1),
    RandK(0.5, feedback=False),
]
FLOATS = ["float16", "float32", "float64", "bfloat16"]
OTHERS = ["int64", "int8", "bool", "complex64"]


@st.composite
def arrays(draw):
    """A tensor or a numpy array, of any type that travels, long enough to be compressed or not."""
    shape = tuple(draw(nps.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9)))
    name = draw(st.sampled_from(FLOATS + OTHERS))
    values = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape) * draw(
        st.sampled_from([0, 1, 1e-9, 50])
    )
    tensor = torch.as_tensor(values).to(getattr(torch, name))
    tensor = tensor.mT if draw(st.booleans()) and tensor.ndim > 1 else tensor
    return tensor if name == "bfloat16" or draw(st.booleans()) else tensor.numpy()


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.binary(max_size=3)
)
trees = st.recursive(
    leaves | arrays() | arrays(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text("a/~0-", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


def plain(node):
    """The tree as the receiver of its bytes has it: numpy's arrays, those of bfloat16 as float32."""
    if isinstance(node, torch.Tensor):
        return (node.float() if node.dtype == torch.bfloat16 else node).detach().numpy()
    if isinstance(node, dict):
        return {key: plain(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return type(node)(map(plain, node))
    return node


def same(a, b):
    """Whether two trees are the same bit for bit, with arrays of the same kind, shape and type."""
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if not hasattr(a, "dtype"):
        return type(a) is type(b) and a == b
    alike = isinstance(a, torch.Tensor) == isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape
    return alike and plain(a).tobytes() == plain(b).tobytes()
