"""Two modules in plain PyTorch and PyG for `own_modules.yaml`; its third is `digit_net.py`."""

from torch import Tensor, nn, randn
from torch_geometric.nn import GATv2Conv


class GraphNet(nn.Module):
    """Two layers of attention over a graph, with BatchNorm; the second is residual."""

    def __init__(self, in_channels: int, num_classes: int, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.first = GATv2Conv(in_channels, width // heads, heads)
        self.second = GATv2Conv(width, width // heads, heads)
        self.norm, self.out = nn.BatchNorm1d(width), nn.Linear(width, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the logits (N, classes) of nodes."""
        h = self.norm(self.first(x, edge_index)).relu()
        logits: Tensor = self.out(h + self.second(h, edge_index).relu())
        return logits


class RowTransformer(nn.Module):
    """A transformer that reads an image as a sequence of its rows."""

    def __init__(self, num_classes: int, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.read, self.place = nn.Linear(8, width), nn.Parameter(0.1 * randn(8, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, num_classes)

    def forward(self, image: Tensor) -> Tensor:
        """Return the logits (N, classes) of images (N, 1, 8, 8)."""
        rows = self.read(image.squeeze(1)) + self.place
        logits: Tensor = self.out(self.encoder(rows).mean(1))
        return logits
