"""What byzantine clients send: uploads and shares with forged values, with the sizes and times of the true ones.

In an upload that names the difference to what was received (`update`), only that part is forged; in others, everything
is.  Only arrays of floats are forged; integers, scalars and texts (counts, weights, names) stay as they are.  Forging
comes before compression by a codec.  What a client keeps to itself, such as its model, is not changed.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fedsim.core.wire import Spec, Tree
from fedsim.net import floats
from fedsim.net.codec import DIFFERENCE
from fedsim.net.effect import Forge


class Forgers:
    """The clients that forge, with the functions of each, applied in order.

    `rng` is the client's own random stream, continued from upload to upload.
    """

    def __init__(self, effects: Sequence[Mapping[int, Forge]]) -> None:
        """Combine the functions of all effects, each a mapping by client."""
        clients = sorted({client for each in effects for client in each})
        self._forges = {client: [each[client] for each in effects if client in each] for client in clients}

    def __contains__(self, client: int) -> bool:
        """Return whether a client forges what it sends."""
        return client in self._forges

    def upload(self, client: int, upload: Tree, rng: np.random.Generator) -> Tree:
        """Return the forged upload of a client that forges."""
        if isinstance(upload, dict) and DIFFERENCE in upload:
            return {**upload, DIFFERENCE: self._replaced(client, upload[DIFFERENCE], rng)}
        return self._replaced(client, upload, rng)

    def share(self, client: int, tree: Tree, rng: np.random.Generator) -> Tree:
        """Return the forged share of a client that forges."""
        return self._replaced(client, tree, rng)

    def _replaced(self, client: int, node: Tree, rng: np.random.Generator) -> Tree:
        if isinstance(node, dict):
            return {key: self._replaced(client, value, rng) for key, value in node.items()}
        if isinstance(node, list | tuple):
            return type(node)(self._replaced(client, value, rng) for value in node)
        if not floats.is_array(node) or isinstance(node, Spec) or floats.spec(node).dtype not in floats.LETTERS:
            return node
        array = floats.values(node)
        for forge in self._forges[client]:
            array = forge(array, rng)
        return floats.kin(array, node)
