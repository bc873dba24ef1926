"""A quadratic pull towards the parameters of earlier graphs or periods, each weighed by its importance then.

    P(θ) = Σ_τ Σ_p I_p^τ (θ_p − θ_p^τ)²

All terms are kept as two tensors for each parameter and one number, whatever the count of terms: W = Σ I^τ, the
weighted mean μ = Σ I^τ θ^τ / W, and s = Σ I^τ (θ^τ − μ)², for then P(θ) = Σ_p W (θ − μ)² + s exactly.  (Sums of
I θ and I θ² would do as well, but lose the digits of what nearly cancels.)  After the diagonal penalties of EWC
(Kirkpatrick et al., PNAS 2017) and TWP (Liu, Yang and Wang, AAAI 2021); nothing fades, and nothing is merged.
"""

from typing import Any

import torch
from torch import Tensor

from fedsim.learn.engine import tree

Retained = dict[str, Any]


def nothing(params: tree.Tree) -> Retained:
    """Return what is retained before the first graph: {"weight": W, "mean": μ, "spread": s ()}."""
    zeros = tree.zeros_like(params)
    some = next(tree.leaves(params))
    return {"weight": zeros, "mean": zeros, "spread": some.new_zeros(())}


def added(retained: Retained, params: tree.Tree, importance: tree.Tree) -> Retained:
    """Return what is retained with one graph more: its parameters θ and their importance I, trees alike."""
    weight = tree.add(retained["weight"], importance)

    def share(own: Tensor, total: Tensor) -> Tensor:
        return torch.where(total > 0, own / total.clamp(min=torch.finfo(total.dtype).tiny), 0.0)

    shares = tree.transform(share, importance, weight)
    gap = tree.sub(params, retained["mean"])
    mean = tree.transform(lambda mu, part, way: mu + part * way, retained["mean"], shares, gap)
    moved = tree.transform(lambda old, part, way: (old * part * way.square()).sum(), retained["weight"], shares, gap)
    return {"weight": weight, "mean": mean, "spread": retained["spread"] + sum(tree.leaves(moved))}


def pull(retained: Retained, params: tree.Tree) -> Tensor:
    """Return P − s (K,) of parameters with a client axis."""
    pairs = zip(tree.leaves(params), tree.leaves(retained["weight"]), tree.leaves(retained["mean"]), strict=True)
    parts = [(weight * (own - mean).square()).reshape(len(own), -1).sum(1) for own, weight, mean in pairs]
    return torch.stack(parts).sum(0)


def penalty(retained: Retained, params: tree.Tree) -> Tensor:
    """Return P (K,) of parameters with a client axis."""
    spread: Tensor = retained["spread"]
    return pull(retained, params) + spread
