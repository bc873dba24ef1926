"""The messages of secure aggregation and their sizes in bytes: pairwise masking with secret-shared keys.

Bonawitz et al., CCS 2017 (honest but curious server), and with few neighbours Bell et al., CCS 2020.  Three
exchanges surround the round's own.  `keys`: each client sends two public keys.  `shares`: it receives those
of its neighbours and sends each of them a sealed share of its two secrets.  The round's own download then
brings the neighbours' shares, and its upload is a vector of masked integers.  `unmask`: the client receives
the list of neighbours whose vectors have arrived, and sends one share for each neighbour that had shared, and
one of its own.

Only sizes are modelled, with the real counts and lengths: nothing is masked, and the sum equals the true one
up to rounding to `bits`.  Not modelled: signatures and the consistency check against a deviating server, the
computing time of keys and masks, a directory of identities, and clients that lie.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.core.wire import Spec, Tree
from fedsim.net import floats

STEPS = ("keys", "shares", "unmask")  # the exchanges that masking adds to a round
BESIDE = "masking"  # the key of a download under which masking's part travels
NUMBER = 4  # bytes of a client's number
KEY = 32  # of a public key on Curve25519
SHARE = 32  # of a share of a secret of 256 bits
SEAL = 12 + 16  # nonce and tag of what is encrypted
SEALED = 2 * NUMBER + 2 * SHARE + SEAL  # of both secrets' shares, from whom and for whom

Neighbours = Mapping[int, Collection[int]]


@dataclass(frozen=True)
class Masking:
    """`neighbours`: the number of others with which a client shares, even; None for all.

    `threshold`: a client's secret can be reconstructed if more than this share of it and its neighbours
    answer, two at least.  `bits`: the width of a number; a sum of n of them needs log2(n) more.
    """

    neighbours: int | None = None
    threshold: float = 0.5
    bits: int = 32

    def graph(self, clients: Sequence[int], rng: np.random.Generator) -> dict[int, list[int]]:
        """Return each client's neighbours, ascending: all others, or those nearest on a circle drawn at random."""
        if self.neighbours is None or self.neighbours >= len(clients) - 1:
            return {client: [other for other in clients if other != client] for client in clients}
        circle = [clients[place] for place in rng.permutation(len(clients))]
        reach, count = self.neighbours // 2, len(clients)
        steps = [*range(-reach, 0), *range(1, reach + 1)]
        return {client: sorted(circle[(at + step) % count] for step in steps) for at, client in enumerate(circle)}

    def holds(self, graph: Neighbours, masked: Collection[int], present: Collection[int]) -> bool:
        """Return whether the clients that are `present` suffice to remove the masks of all `masked` clients."""
        left, groups = set(present), [{client, *graph[client]} for client in masked]
        needed = [max(2, math.floor(self.threshold * len(group) + 1e-9) + 1) for group in groups]
        return len(left) > 1 and all(len(left & group) >= count for group, count in zip(groups, needed, strict=True))

    def vector(self, numbers: int, clients: int) -> int:
        """Return the bytes of a masked vector of that many numbers, to be added over that many clients."""
        return math.ceil(numbers * (self.bits + math.ceil(math.log2(clients))) / 8)


def keys_of(count: int) -> Tree:
    """Return the numbers and two public keys each of `count` clients."""
    return {"keys": _bytes(count * (NUMBER + 2 * KEY))}


def sealed(count: int, clients: int = 0) -> Tree:
    """Return `count` sealed shares, and the number of `clients` whose masked vectors are added."""
    return {"sealed": _bytes(count * SEALED), "of": clients}


def alive(count: int, sharing: int) -> Tree:
    """Return the numbers of `count` neighbours that have sent a vector, out of `sharing` that had shared."""
    return {"alive": _bytes(count * NUMBER), "of": sharing}


def answer(step: str, asked: Tree) -> Tree:
    """Return a client's reply to what it was sent in one of `STEPS`."""
    if step == "keys":
        return {"keys": _bytes(2 * KEY)}  # its own public ones
    if step == "shares":
        return sealed(asked["keys"].shape[0] // (NUMBER + 2 * KEY))
    return {"shares": _bytes((asked["of"] + 1) * SHARE)}


def numbers(tree: Tree) -> int:
    """Return the count of numbers in a tree, in arrays and alone."""
    if isinstance(tree, dict | list | tuple):
        return sum(map(numbers, tree.values() if isinstance(tree, dict) else tree))
    return math.prod(floats.spec(tree).shape) if floats.is_array(tree) else 1


def _bytes(count: int) -> Spec:
    return Spec((count,), "uint8")
