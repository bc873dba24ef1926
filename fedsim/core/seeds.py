"""Named random streams of a run's seed.

Each name gives an independent stream, so what one part draws never depends on how often another part drew.
Names are hashed with BLAKE2, because Python's `hash` differs between processes.
"""

import hashlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsim.core.arrays import Floats, Ints

Words = npt.NDArray[np.uint64]
Rng = Callable[[str], np.random.Generator]  # the random stream of a name
# Odd constants of the SplitMix64 generator (Steele, Lea and Flood, OOPSLA 2014)
GAMMA = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BLAKE = hashlib.blake2b
_GAMMA, _FIRST, _SECOND, _WORD = int(GAMMA), int(FIRST), int(SECOND), 2**64 - 1


def integer(seed: int, *name: object) -> int:
    """Return a 62-bit integer that depends only on the seed and the name."""
    text = "\x1f".join([str(seed), *map(str, name)]).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 2


def of_jobs(seed: int, clients: Iterable[int], jobs: Iterable[int]) -> list[int]:
    """Return the seeds of clients' jobs: `integer(seed, "job", client, number)`, in half the time of single calls."""
    text = f"{seed}\x1fjob\x1f".encode()
    rows = zip(clients, jobs, strict=True)
    hashes = b"".join([_BLAKE(text + b"%d\x1f%d" % row, digest_size=8).digest() for row in rows])
    return (np.frombuffer(hashes, dtype=">u8") >> 2).tolist()  # type: ignore[no-any-return]


def uniforms(seed: int, *keys: Ints, count: int) -> Floats:
    """Return (count, n) numbers in [0, 1), of 53 bits each, that depend on the seed and a row of integer keys (n,)
    only.

    Creating a stream for each row would take hundreds of times as long.
    """
    words = np.full(len(keys[0]), seed % 2**64, dtype=np.uint64)
    for key in keys:
        words = mixed(words + (key.astype(np.uint64) + np.uint64(1)) * GAMMA)
    steps = np.arange(1, count + 1, dtype=np.uint64)[:, np.newaxis]
    return (mixed(words + steps * GAMMA) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def row_of_uniforms(seed: int, *keys: int, count: int) -> list[float]:
    """Return one column of `uniforms`, those of a single row of keys, without arrays."""
    word = seed % 2**64
    for key in keys:
        word = _mixed(word + (key + 1) * _GAMMA)
    return [(_mixed(word + step * _GAMMA) >> 11) * 2.0**-53 for step in range(1, count + 1)]


def mixed(words: Words) -> Words:
    """Return words of which every bit depends on every bit: SplitMix64's finaliser."""
    words = (words ^ (words >> np.uint64(30))) * FIRST
    words = (words ^ (words >> np.uint64(27))) * SECOND
    return words ^ (words >> np.uint64(31))


def _mixed(word: int) -> int:
    """Do the same with one word, of which the lowest 64 bits count."""
    word &= _WORD
    word = (word ^ (word >> 30)) * _FIRST & _WORD
    word = (word ^ (word >> 27)) * _SECOND & _WORD
    return word ^ (word >> 31)


def generator(seed: int, *name: object) -> np.random.Generator:
    """Return the random stream of that name.

    >>> generator(7, "loss").random() == generator(7, "loss").random() != generator(7, "latency").random()
    True
    """
    return np.random.Generator(np.random.PCG64(integer(seed, *name)))


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Have what is drawn from the global generators of Python, NumPy and torch depend on the number alone."""
    torch = sys.modules.get("torch")  # nobody draws from it who has not imported it
    others, state, drawn = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()
    random.seed(number)
    np.random.seed(number % 2**32)
    if torch:
        torch.default_generator.manual_seed(number)
    try:
        yield
    finally:
        random.setstate(others)
        np.random.set_state(state)
        if torch:
            torch.set_rng_state(drawn)


class Streams:
    """One independent random stream a name, each continued from call to call."""

    def __init__(self, seed: int) -> None:
        """Draw everything from this seed."""
        self.seed = seed
        self._open: dict[str, np.random.Generator] = {}

    def __call__(self, name: str) -> np.random.Generator:
        """Return the stream of that name where it stands."""
        if name not in self._open:
            self._open[name] = generator(self.seed, name)
        return self._open[name]

    def states(self) -> dict[str, Any]:
        """Return where each stream stands."""
        return {name: stream.bit_generator.state for name, stream in self._open.items()}

    def move(self, states: Mapping[str, Any]) -> None:
        """Have streams stand where they stood in a checkpoint."""
        for name, state in states.items():
            self(name).bit_generator.state = state
