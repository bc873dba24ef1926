"""Which of torch's operations have a kernel on a CUDA GPU, by the list from which torch itself is built.

Known of an operation are the backends for which it is written, and for sparse matrices separately.  Not known are the
types of numbers that a kernel accepts, except that products of integers are not computed on a GPU.
"""

import re
from functools import cache
from importlib.resources import files

import torch

EVERYWHERE = {"CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd"}
DENSE = EVERYWHERE | {"CUDA"}
SPARSE = EVERYWHERE | {"SparseCsr", "SparseCsrCUDA"}
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "vdot", "addbmm"}
FUNCTION = re.compile(r"([\w.]+)\(")
DELEGATE = re.compile(r"^  structured_delegate: ([\w.]+)", re.MULTILINE)
KERNELS = re.compile(r"^    ([A-Z]\w*(?:, \w+)*):", re.MULTILINE)
AUTOGEN = re.compile(r"^  autogen: (.+)$", re.MULTILINE)


@cache
def backends() -> dict[str, set[str]]:
    """Return the backends of every operation, by its name and overload as in "add.Tensor"."""
    listed = files("torchgen").joinpath("packaged", "ATen", "native", "native_functions.yaml").read_text("utf-8")
    found: dict[str, set[str]] = {}
    delegates: dict[str, str] = {}
    for entry in re.split(r"^- func: ", listed, flags=re.MULTILINE)[1:]:
        match = FUNCTION.match(entry)
        assert match is not None
        name = match.group(1)
        if delegate := DELEGATE.search(entry):
            delegates[name] = delegate.group(1)
        found[name] = {key for line in KERNELS.findall(entry) for key in line.split(", ")}
        if "\n  ufunc_inner_loop:" in entry:  # one loop that is compiled for both
            found[name] |= {"CPU", "CUDA"}
        if not found[name] and "\n  dispatch:" not in entry and name not in delegates:
            found[name] = {"CompositeImplicitAutograd"}
        for derived in AUTOGEN.findall(entry):
            found |= {key: {"CompositeExplicitAutograd"} for key in derived.split(", ")}
    for name, delegate in delegates.items():
        found[name] = found[name] | found[delegate]
    return found


def missing(func: torch._ops.OpOverload, tensors: list[torch.Tensor]) -> str | None:
    """Return why a GPU cannot compute an operation on these tensors, or None if it can."""
    name, multiplies, dense, sparse = _known(func)
    if dense and sparse and not multiplies:
        return None
    is_sparse = any(tensor.layout == torch.sparse_csr for tensor in tensors)
    if not (sparse if is_sparse else dense):
        return f"{name} has no kernel for {'sparse matrices on ' if is_sparse else ''}CUDA"
    if multiplies and (whole := {one.dtype for one in tensors if not one.is_floating_point() and not one.is_complex()}):
        return f"{name} is not computed of {', '.join(map(str, whole))} on CUDA"
    return None


@cache
def _known(func: torch._ops.OpOverload) -> tuple[str, bool, bool, bool]:
    """Return an operation's name, whether it is a product, and whether it has a kernel for dense and sparse tensors."""
    space, _, name = func.name().partition("::")
    there = backends()[name] if space == "aten" else EVERYWHERE
    return name, name.partition(".")[0].rstrip("_") in PRODUCTS, bool(there & DENSE), bool(there & SPARSE)
