"""A torch module on which algorithms are tried: normalised, with dropout, neighbours, embeddings and a number alone."""

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """h = relu(norm(x W)); h = dropout(h + scale · sum over neighbours of h); logits = h C + c."""

    def __init__(self, features: int, classes: int, hidden: int = 8, norm: bool = True, dropout: float = 0.3) -> None:
        super().__init__()
        self.inner = nn.Linear(features, hidden, bias=False)
        self.norm = nn.BatchNorm1d(hidden) if norm else nn.Identity()
        self.scale = nn.Parameter(torch.tensor(0.2))
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(hidden, classes)

    def embed(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the hidden layer (N, hidden)."""
        h = self.norm(self.inner(x)).relu()
        near = torch.zeros_like(h).index_add(0, edge_index[1], h[edge_index[0]])
        return self.dropout(h + self.scale * near)  # type: ignore[no-any-return]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the logits (N, classes)."""
        return self.outer(self.embed(x, edge_index))  # type: ignore[no-any-return]
