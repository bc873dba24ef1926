"""What byzantine clients send: uploads and shares with forged values, of the size and at the time of the true ones.

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
    """Who forges, and how: each client's functions, one after the other.

    `rng` is the client's own random stream, which goes on from upload to upload.
    """

    def __init__(self, effects: Sequence[Mapping[int, Forge]]) -> None:
        """Take what each effect does."""
        clients = sorted({client for each in effects for client in each})
        self._forges = {client: [each[client] for each in effects if client in each] for client in clients}

    def __contains__(self, client: int) -> bool:
        """Return whether a client forges what it sends."""
        return client in self._forges

    def upload(self, client: int, upload: Tree, rng: np.random.Generator) -> Tree:
        """Return what a client that forges sends in place of an upload."""
        if isinstance(upload, dict) and DIFFERENCE in upload:
            return {**upload, DIFFERENCE: self._replaced(client, upload[DIFFERENCE], rng)}
        return self._replaced(client, upload, rng)

    def share(self, client: int, tree: Tree, rng: np.random.Generator) -> Tree:
        """Return what a client that forges sends in place of a tree."""
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
