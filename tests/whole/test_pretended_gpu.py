"""The pretended GPU refuses whatever a real one does, allows what it allows, and computes what the host does."""

import copy
import pickle

import numpy as np
import pytest
import torch
from pretended_gpu import CPU, GPU, MixedError, pretended_gpu
from torch import Tensor

from fedsim.core import wire
from fedsim.data.graph import csr


@pytest.fixture(autouse=True)
def gpu():
    with pretended_gpu() as gpu:
        yield gpu


def here(*shape):
    return torch.ones(*shape)


def there(*shape):
    return torch.ones(*shape, device="cuda")


def matrix(values):
    where = values.device
    return csr(torch.tensor([0, 1, 2]).to(where), torch.tensor([1, 0]).to(where), values, (2, 2))


REFUSED = {
    "sum": lambda: there(3) + here(3),
    "number on the host written by a GPU's tensor": lambda: torch.tensor(1.0).add_(there(3).sum()),
    "in place": lambda: here(3).add_(there(3)),
    "a GPU's number in place": lambda: here(3).mul_(there(1)[0]),
    "comparison": lambda: there(3) > here(3),
    "product": lambda: there(2, 3) @ here(3, 2),
    "product with a number in it": lambda: torch.addmm(here(1)[0], there(2, 3), there(3, 2)),
    "concatenation": lambda: torch.cat([there(3), here(3)]),
    "stack of numbers": lambda: torch.stack([there(3).sum(), torch.tensor(1.0)]),
    "where": lambda: torch.where(here(3) > 0, there(3), 0.0),
    "equality": lambda: torch.equal(there(3), here(3)),
    "index_select": lambda: there(3).index_select(0, torch.tensor([1])),
    "gather": lambda: there(3).gather(0, torch.tensor([1])),
    "scatter": lambda: there(3).scatter_add_(0, torch.tensor([1]).cuda(), here(1)),
    "a GPU's index of a host's tensor": lambda: here(3)[torch.tensor([1]).cuda()],
    "a GPU's mask of a host's tensor": lambda: here(3)[there(3) > 0],
    "assignment under a GPU's index": lambda: here(3).__setitem__(torch.tensor([1]).cuda(), 2.0),
    "assignment of a host's values": lambda: there(3).__setitem__(torch.tensor([0, 1]), here(2)),
    "masked_fill": lambda: there(3).masked_fill(here(3) > 0, 1.0),
    "repeat_interleave": lambda: there(3).repeat_interleave(torch.tensor([1, 2, 0])),
    "searchsorted": lambda: torch.searchsorted(there(3), here(1)),
    "foreach": lambda: torch._foreach_add([there(3)], [here(3)]),
    "out": lambda: torch.mm(there(2, 2), there(2, 2), out=here(2, 2)),
    "loss": lambda: torch.nn.functional.cross_entropy(there(3, 2), torch.tensor([0, 1, 0])),
    "sparse product": lambda: matrix(here(2)) @ there(2, 2),
    "sparse parts": lambda: csr(torch.tensor([0, 1]), torch.tensor([0]), there(1), (1, 1)),
    "view of it": lambda: there(4)[1:3] + here(2),
    "its data": lambda: there(3).data + here(3),
    "as those like it": lambda: torch.zeros_like(there(3)) + here(3),
    "new ones": lambda: there(3).new_tensor([1.0, 2.0, 3.0]) + here(3),
    "from the host's array": lambda: torch.from_numpy(np.ones(3, np.float32)) + there(3),
    "of lists": lambda: torch.tensor([1.0, 2.0, 3.0]) + there(3),
    "numbers": lambda: torch.arange(3) + there(3),
    "generator": lambda: torch.rand(3, generator=torch.Generator(), device="cuda"),
    "generator of the GPU": lambda: torch.rand(3, generator=torch.Generator(device="cuda")),
    "generator in place": lambda: there(3).uniform_(generator=torch.Generator()),
    "memory": lambda: torch.empty(0).set_(there(3).untyped_storage()),
    "product of integers": lambda: there(2, 2).long() @ there(2, 2).long(),
    "no kernel": lambda: torch.ops.aten._sparse_mm_reduce_impl(matrix(there(2)), there(2, 2), "sum"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_mixes_devices_is_refused(name):
    with pytest.raises(MixedError):
        REFUSED[name]()


def test_the_same_is_allowed_where_all_is_on_the_host():
    torch.mm(here(2, 2), here(2, 2), out=here(2, 2))
    assert (here(3)[torch.tensor([1])] + here(1)).tolist() == [2]
    assert (here(2, 2).long() @ here(2, 2).long()).tolist() == [[2, 2], [2, 2]]


ALLOWED = {
    "a number of the host": (lambda: there(3) + torch.tensor(1.0), [2, 2, 2]),
    "a number of the host, in place": (lambda: there(3).add_(torch.tensor(1.0)), [2, 2, 2]),
    "a condition": (lambda: torch.where(there(3) > 0, torch.tensor(2.0), there(3)), [2, 2, 2]),
    "the host's index": (lambda: there(3)[torch.tensor([1])], [1]),
    "the host's mask": (lambda: there(3)[here(3) > 0], [1, 1, 1]),
    "a number, assigned": (lambda: assigned(there(3), torch.tensor([1]), torch.tensor(2.0)), [1, 2, 1]),
    "the host's values, assigned to a slice": (lambda: assigned(there(3), slice(2), 2 * here(2)), [2, 2, 1]),
    "copy": (lambda: there(3).copy_(here(3)), [1, 1, 1]),
    "to another's": (lambda: here(3).to(there(1)), [1, 1, 1]),
    "to a type": (lambda: there(3).to(torch.long), [1, 1, 1]),
    "by keyword": (lambda: here(3).to(device="cuda", dtype=torch.double), [1, 1, 1]),
    "as_tensor": (lambda: torch.as_tensor([1.0, 2.0], device="cuda"), [1, 2]),
    "as_tensor of an array": (lambda: torch.as_tensor(np.arange(2), device="cuda"), [0, 1]),
    "as_tensor of itself": (lambda: torch.as_tensor(there(2)), [1, 1]),
    "tensor of itself": (lambda: there(2).clone().detach(), [1, 1]),
    "sparse product": (lambda: (matrix(there(2)) @ there(2, 2))[0], [1, 1]),
    "deep copy": (lambda: copy.deepcopy(there(2)), [1, 1]),
    "pinned before": (lambda: here(2).pin_memory().to("cuda", non_blocking=True), [1, 1]),
    "a GPU's generator": (lambda: torch.rand(2, generator=torch.Generator("cuda"), device="cuda") * 0, [0, 0]),
    "made by torch inside an operation": (
        lambda: torch.nn.functional.one_hot(torch.tensor([1, 0]).cuda())[0] * there(2), [0, 1],
    ),
}  # fmt: skip


def assigned(tensor, place, value):
    tensor[place] = value
    return tensor


@pytest.mark.parametrize("name", ALLOWED)
def test_what_a_gpu_allows_is_allowed_and_stays_there(name):
    make, expected = ALLOWED[name]
    made = make()
    assert made.device == GPU
    assert made.is_cuda
    assert made.get_device() == 0
    assert made.tolist() == expected
    assert made.cpu().device == CPU
    assert made.cpu().numpy().tolist() == expected


@pytest.mark.parametrize("read", [Tensor.numpy, np.asarray, lambda one: np.stack([one])])
def test_numpy_does_not_read_a_gpus_memory(read):
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        read(there(1))
    assert read(here(1)) == 1


def test_numbers_may_be_read():
    assert there(3).sum().item() == float(there(3).sum()) == 3
    assert bool(there(3).any())
    assert there(3).tolist() == [1, 1, 1]
    assert here(3)[torch.tensor(1).cuda()] == 1  # a number, which torch reads


def test_messages_are_encoded_from_there():
    tree = {"a": torch.arange(6.0).view(2, 3), "b": [torch.ones(2, dtype=torch.bfloat16), 3]}
    on_gpu = {"a": tree["a"].cuda(), "b": [tree["b"][0].cuda(), 3]}
    assert wire.encode(on_gpu) == wire.encode(tree)
    assert wire.size(on_gpu) == len(wire.encode(tree))


def test_nothing_is_forgotten_silently():
    with pytest.raises(NotImplementedError, match="would forget"):
        pickle.dumps(there(3))
    with pytest.raises(NotImplementedError, match="does not know"):
        torch.normal(0.0, 1.0, (2,), device="cuda")
    with pytest.raises(RuntimeError, match="invalid device ordinal: cuda:1"):
        torch.ones(1, device="cuda:1")
    with pytest.raises(RuntimeError, match="cannot pin"):
        there(3).pin_memory()


def test_gradients_come_back_to_where_the_parameters_are(gpu):
    w, x = here(2, 2).requires_grad_(), torch.tensor([[1.0, 2.0]], device="cuda")
    before = gpu.operations
    (grad,) = torch.autograd.grad((x @ w.to("cuda")).max(1).values.sum(), w)
    assert grad.device == CPU
    assert gpu.operations > before + 4
    assert torch.equal(grad, torch.tensor([[1.0, 0.0], [2.0, 0.0]]))


class Wrong(torch.autograd.Function):
    """Whose gradient is made on the host."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * torch.full((2,), 2.0)


class Right(Wrong):
    """Which asks where its gradient is."""

    @staticmethod
    def backward(ctx, grad):
        return grad * torch.full((2,), 2.0, device=grad.device)


def test_backward_passes_are_seen():
    x = there(2).requires_grad_()
    Right.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(MixedError):
        Wrong.apply(x).sum().backward()
    Wrong.apply(here(2).requires_grad_()).sum().backward()


def test_it_ends_with_its_block(gpu):
    inside, done = there(2), gpu.operations
    with torch._C.DisableTorchFunction():  # as after the block
        assert inside.device == CPU
    assert gpu.operations == done
