"""OASIS's two distances between a teacher and a student on the same nodes, both zero where they agree.

Of their answers (WESAD), for each node the entropic transport between p and q, softened by a temperature:

    S(p, q) = OT_ε(p, q) − OT_ε(p, p)/2 − OT_ε(q, q)/2,    c_ab = 1 − exp(−κ (1 − cos(w_a, w_b)))

with w the rows of the teacher's classifier.  The cost, and that the divergence takes the place of OT_ε (Feydy et al.,
AISTATS 2019), so that equal answers cost nothing, are reconstructed; ε is not stated.  Of their codes (WDSRD), the
squared Wasserstein distance of Gaussians that are fitted to both, as of Fréchet's inception distance:

    W² = ‖μ₁ − μ₂‖² + tr(Σ₁ + Σ₂ − 2 (Σ₁^½ Σ₂ Σ₁^½)^½)
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.learn.engine import ops

ITERATIONS = 50  # of Sinkhorn's algorithm, always as many, so that simulated time does not depend on values
JITTER = 1e-6  # on the diagonal of covariances


def costs(rows: Tensor, kappa: float) -> Tensor:
    """Return c (C, C) of a classifier's rows (C, D)."""
    unit = F.normalize(rows, dim=1)
    c: Tensor = 1 - torch.exp(-kappa * (1 - unit @ unit.T).clamp(min=0))
    return c - torch.diag_embed(c.diagonal())


@torch.no_grad()
def potentials(p: Tensor, q: Tensor, cost: Tensor, epsilon: float, iterations: int) -> tuple[Tensor, Tensor]:
    """Return the dual potentials (n, C) and (n, C) of transport between rows of p and q (n, C), in the log domain."""
    log_p, log_q = (one.clamp(min=1e-30).log() for one in (p, q))
    f, g = torch.zeros_like(p), torch.zeros_like(q)
    for _ in range(iterations):
        f = -epsilon * torch.logsumexp((g / epsilon + log_q).unsqueeze(1) - cost / epsilon, 2)
        g = -epsilon * torch.logsumexp((f / epsilon + log_p).unsqueeze(2) - cost / epsilon, 1)
    return f, g


def divergence(p: Tensor, q: Tensor, cost: Tensor, epsilon: float = 0.05, iterations: int = ITERATIONS) -> Tensor:
    """Return S (n,) of rows of p and q (n, C); the gradient is that of the potentials, held fixed."""
    f, g = potentials(p.detach(), q.detach(), cost, epsilon, iterations)
    own, own_too = potentials(p.detach(), p.detach(), cost, epsilon, iterations)
    other, other_too = potentials(q.detach(), q.detach(), cost, epsilon, iterations)
    return (p * (f - (own + own_too) / 2)).sum(1) + (q * (g - (other + other_too) / 2)).sum(1)


def answers(teacher: Tensor, student: Tensor, cost: Tensor, temperature: float, epsilon: float) -> Tensor:
    """Return WESAD () of logits (n, C), the mean over nodes."""
    p, q = (torch.softmax(one / temperature, 1) for one in (teacher, student))
    return divergence(p, q, cost, epsilon).mean()


def fitted(s: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean (M,) and the biased covariance (M, M) of rows s (n, M), in double precision."""
    s = s.double()
    mean = s.mean(0)
    gap = s - mean
    return mean, gap.T @ gap / len(s) + JITTER * torch.eye(s.shape[1], dtype=s.dtype, device=s.device)


def between(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> Tensor:
    """Return W² () of two Gaussians, given as mean (M,) and covariance (M, M); no gradient passes to the first."""
    (mean, spread), (other, wide) = (first[0].detach(), first[1].detach()), second
    values, vectors = torch.linalg.eigh(spread)
    root = (vectors * ops.root(values.clamp(min=0))) @ vectors.T
    crossed = torch.linalg.eigvalsh(root @ wide @ root).clamp(min=JITTER**2)
    return (mean - other).square().sum() + spread.trace() + wide.trace() - 2 * ops.root(crossed).sum()


def flops(n: int, classes: int, codes: int, hidden: int) -> float:
    """Return the operations of both, and of their gradients: three problems of transport, and two decompositions."""
    return ITERATIONS * 3 * 10.0 * n * classes**2 + 6.0 * n * codes * (hidden + codes) + 40.0 * codes**3
