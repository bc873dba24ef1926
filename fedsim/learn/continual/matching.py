"""How far the gradients that a vector sends are from those received, for many at once, with the slope of that.

Γ is an MLP with three rectified layers.  A row x sends eᵢ ⊗ aᵢ and eᵢ for its layers i = 1 … 4, where aᵢ is the layer's
input and eᵢ the derivative of the cross-entropy at its output.  From the gradients Gᵢ and gᵢ received that is

    Σ ‖eᵢ ⊗ aᵢ − Gᵢ‖² + ‖eᵢ − gᵢ‖²  =  Σ ‖eᵢ‖² (‖aᵢ‖² + 1) − 2 eᵢᵀ (Gᵢ aᵢ + gᵢ) + ‖Gᵢ‖² + ‖gᵢ‖²

which needs no outer product.  Its derivative is written out as well: some fifty calls on a few rows, where autograd
makes several hundred.  The slope of a rectifier is constant, so that masks have none.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

LAYERS = range(4)


class Matching:
    """An `lbfgs.Objective`: the squared distance of Γ's gradients at x from the wanted ones, and its derivative."""

    def __init__(self, network: Mapping[str, Tensor], wanted: Mapping[str, Tensor], labels: Tensor) -> None:
        """Take Γ and what is wanted in double precision, each with a first axis of B, and labels (B,)."""
        weights = [network[f"w{i + 1}"] for i in LAYERS]
        self._forward = [weight.T for weight in weights]
        # The same numbers by columns: a product with few rows takes half as long where the matrix is read by columns.
        self._across = [weight.T.contiguous().T for weight in weights]
        self._biases = [network[f"b{i + 1}"] for i in LAYERS]
        self._outs = [len(bias) for bias in self._biases]
        self._ins = [weight.shape[1] for weight in weights]
        received = [wanted[f"w{i + 1}"].clone() for i in LAYERS]
        g = torch.cat([wanted[f"b{i + 1}"] for i in LAYERS], 1)
        norms = g.square().sum(1) + torch.stack([each.square().flatten(1).sum(1) for each in received]).sum(0)
        hot = torch.nn.functional.one_hot(labels, self._outs[-1]).to(g.dtype)
        self._parts = [*received, g, norms, hot]  # what each problem is matched with, in the order of `_rows`
        a = g.new_empty(len(labels), sum(self._ins))
        self._room = [a, torch.empty_like(a), torch.empty_like(a), torch.empty_like(g), torch.empty_like(g)]
        self._of_in, self._of_out = (
            torch.eye(len(LAYERS), dtype=g.dtype).repeat_interleave(torch.tensor(widths), 0)
            for widths in (self._ins, self._outs)
        )
        self._rows = list(range(len(labels)))
        self._look_at(self._rows)

    def __call__(self, x: Tensor, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the distances (b,) of x (b, F) from what problems `rows` want, and their derivatives (b, F)."""
        if self._rows != rows:
            self._arrange(rows)
        g, norms, hot = self._matched
        (all_a, a), (all_q, q), (all_mask, mask), (all_e, e), (all_p, p) = self._layers
        forward, across, b = self._forward, self._across, self._biases

        a[0].copy_(x)
        for i in LAYERS[:-1]:
            torch.addmm(b[i], a[i], forward[i], out=a[i + 1]).clamp_min_(0)
        said = torch.softmax(torch.addmm(b[-1], a[-1], forward[-1]), 1)
        torch.sub(said, hot, out=e[-1])
        torch.sign(all_a, out=all_mask)  # one where a rectifier lets through
        for i in LAYERS[:0:-1]:
            torch.mm(e[i], across[i], out=e[i - 1]).mul_(mask[i])

        for row, matrix, into in self._products:
            torch.bmm(row, matrix, out=into)
        all_p += g
        sizes_a, sizes_e = (all_a * all_a) @ self._of_in + 1, (all_e * all_e) @ self._of_out
        value = (sizes_a * sizes_e).sum(1) - 2 * (all_e * all_p).sum(1) + norms

        # Half the derivatives by e and by a where they stand above, then what e and a hang on.
        torch.sub(all_e * (sizes_a @ self._of_out.T), all_p, out=all_p)
        torch.sub(all_a * (sizes_e @ self._of_in.T), all_q, out=all_q)
        by_e = p[0]
        for i in LAYERS[1:]:
            by_e = torch.addmm(p[i], by_e * mask[i], forward[i])
        by_output = (by_e - (said * by_e).sum(1, keepdim=True)) * said
        for i in LAYERS[:0:-1]:
            by_output = torch.addmm(q[i], by_output, across[i]).mul_(mask[i])
        return value, torch.addmm(q[0], by_output, across[0]) * 2

    def _arrange(self, rows: Sequence[int]) -> None:
        """Have problem rows[i] at place i, which is where it was unless another one ended there."""
        for i, row in enumerate(rows):
            if self._rows[i] != row:
                place = self._rows.index(row)
                for part in self._parts:
                    part[i] = part[place]
        self._rows = list(rows)
        self._look_at(rows)

    def _look_at(self, rows: Sequence[int]) -> None:
        """Make the views of the problems that go on: they take as long as the products, so they are made once."""
        *received, g, norms, hot = (part[: len(rows)] for part in self._parts)
        widths = [self._ins] * 3 + [self._outs] * 2
        whole = [part[: len(rows)] for part in self._room]
        self._matched = g, norms, hot
        self._layers = [(part, torch.split(part, each, 1)) for part, each in zip(whole, widths, strict=True)]
        a, q, _, e, p = ([layer.unsqueeze(1) for layer in layers] for _, layers in self._layers)
        self._products = [
            product for i in LAYERS for product in ((a[i], received[i].mT, p[i]), (e[i], received[i], q[i]))
        ]
