"""What byzantine clients send: uploads and shares with forged values, with the sizes and times of the true ones.

In an upload that names the difference to what was received (`update`), only that part is forged; in others,
everything is.  Only arrays of floats are forged; integers, scalars and texts (counts, weights, names) stay as
they are.  Forging comes before compression by a codec.  What a client keeps to itself, such as its model, is
not changed.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from fedsim.core.seeds import Rng
from fedsim.core.wire import Spec, Tree
from fedsim.net import floats, marks
from fedsim.net.codec import DIFFERENCE
from fedsim.net.effect import Effect, Forge


class Attackers(dict[int, list[Forge]]):
    """The functions with which each client forges that does, applied in order.

    `rng` is the client's own random stream, continued from upload to upload.
    """

    @classmethod
    def drawn(cls, effects: Sequence[Effect], clients: int, rng: Rng) -> "Attackers":
        """Return the clients that forge under these effects, each drawn from a stream of its own name."""
        numbered = [(number, effect) for number, effect in enumerate(effects) if effect.forges]
        forging = [effect.forge(clients, rng(f"effect/{number}/forge")) for number, effect in numbered]
        clients_forging = sorted({*chain(*forging)})
        return cls({client: [each[client] for each in forging if client in each] for client in clients_forging})

    def upload(self, client: int, upload: Tree, rng: np.random.Generator) -> Tree:
        """Return the forged upload of a client that forges."""
        if isinstance(upload, dict) and DIFFERENCE in upload:
            return {**upload, DIFFERENCE: self.share(client, upload[DIFFERENCE], rng)}
        return self.share(client, upload, rng)

    def share(self, client: int, node: Tree, rng: np.random.Generator) -> Tree:
        """Return the forged share, or part of one, of a client that forges."""

        def forged(array: Any) -> Any:
            if isinstance(array, Spec) or floats.spec(array).dtype not in floats.LETTERS:
                return array
            values = floats.values(array)
            for forge in self[client]:
                values = forge(values, rng)
            return floats.kin(values, array)

        return marks.transform(forged, node)
