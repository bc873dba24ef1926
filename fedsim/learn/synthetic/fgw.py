"""The fused Gromov-Wasserstein loss between a graph and a generated one (GHOST, ICML 2025, Eq. 6).

    L = min_T (1 − a) ⟨T, M⟩ + a Σ |Aᵢₖ − Âⱼₗ|² Tᵢⱼ Tₖₗ,   Mᵢⱼ = ‖xᵢ − x̂ⱼ‖²,   T 1 = Tᵀ 1 = 1/n

(Vayer et al., "Optimal transport for structured data with application on graphs", ICML 2019.)  POT solves for T by
conditional gradients from the outer product of the marginals, on detached copies in double precision: a local
optimum, since the problem is not convex.  T is then held fixed, and Â is a constant (its edges are discrete), so that

    ∂L/∂X̂ = (1 − a) (2 diag(q) X̂ − 2 Tᵀ X)

as in the public helpers of this kind, which weigh the feature term by 1 − a too.  The structural term counts in the
value, not in the slope.
"""

import ot
import torch
from torch import Tensor

STEPS = 50  # conditional gradients at most; a handful is the rule
BILLED = 5  # of them, so that simulated time does not depend on how training goes


def plan(costs: Tensor, own: Tensor, pseudo: Tensor, a: float) -> Tensor:
    """Return T (n, m) for costs M (n, m) and adjacencies (n, n) and (m, m), float64, on the CPU."""
    # tensors, not arrays: NumPy's products of matrices round by processor
    m, first, second = (one.detach().cpu().double() for one in (costs, own, pseudo))
    p, q = (m.new_full((size,), 1 / size) for size in m.shape)
    found: Tensor = ot.gromov.fused_gromov_wasserstein(
        m, first, second, p, q, loss_fun="square_loss", symmetric=True, alpha=a, max_iter=STEPS
    )
    return found


def squared_distances(x: Tensor, pseudo: Tensor) -> Tensor:
    """Return M (n, m) of features x (n, F) and pseudo (m, F)."""
    sizes = x.square().sum(1).unsqueeze(1) + pseudo.square().sum(1)
    return (sizes - 2 * x @ pseudo.T).clamp(min=0)


def value(coupling: Tensor, x: Tensor, pseudo: Tensor, own: Tensor, other: Tensor, a: float) -> Tensor:
    """Return the objective () at T (n, m), features (n, F) and (m, F), adjacencies (n, n) and (m, m).

    It can be differentiated by the features, T and the adjacencies being constants.
    """
    coupling = coupling.to(x)
    p, q = coupling.sum(1), coupling.sum(0)
    features = p @ x.square().sum(1) + q @ pseudo.square().sum(1) - 2 * (coupling * (x @ pseudo.T)).sum()
    own, other = own.to(x), other.to(x)
    crossed = (coupling * (own @ coupling @ other.T)).sum()
    structure = p @ own.square() @ p + q @ other.square() @ q - 2 * crossed
    return (1 - a) * features + a * structure


def loss(x: Tensor, pseudo: Tensor, own: Tensor, other: Tensor, a: float = 0.5) -> Tensor:
    """Return L () of own features x (n, F) and adjacency (n, n), and generated ones (m, F) and (m, m)."""
    with torch.no_grad():
        coupling = plan(squared_distances(x, pseudo), own, other, a)
    return value(coupling, x, pseudo, own, other, a)


def flops(n: int, features: int) -> float:
    """Return the operations of one loss of n rows each: M, and for each step two products and an assignment, 5 n³."""
    return 2.0 * n * n * features + BILLED * 5.0 * n**3
