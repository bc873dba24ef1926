"""Named random streams of a run's seed.

Each name gives an independent stream, so what one part draws never depends on how often another part drew.
Names are hashed with BLAKE2, not with Python's `hash`, which differs between processes.
"""

import hashlib

import numpy as np


def integer(seed: int, *name: object) -> int:
    """Return 62 bits that depend on the seed and the name only."""
    text = "\x1f".join([str(seed), *map(str, name)]).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 2


def uniforms(seed: int, *name: object, count: int) -> tuple[float, ...]:
    """Return `count` (at most 8) numbers in [0, 1), of 53 bits each, that depend on the seed and the name only.

    A stream of that name would take fifty times as long to make.
    """
    text = "\x1f".join([str(seed), *map(str, name)]).encode()
    digest = hashlib.blake2b(text, digest_size=8 * count).digest()
    return tuple((int.from_bytes(digest[at : at + 8], "big") >> 11) * 2.0**-53 for at in range(0, 8 * count, 8))


def generator(seed: int, *name: object) -> np.random.Generator:
    """Return the random stream of that name."""
    return np.random.Generator(np.random.PCG64(integer(seed, *name)))
