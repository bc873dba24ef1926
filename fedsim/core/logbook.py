"""A point's log: messages of fedsim and the algorithms while it runs, in run.log beside its tables.

Messages carry no wall-clock time, so that equal runs leave equal logs; nothing goes to the terminal, which the
progress display uses.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCES = ("fedsim", "algorithms")


@contextmanager
def keep(path: Path) -> Iterator[None]:
    """Write messages of level INFO and above to the file while the block runs.

    Raises OSError if the file cannot be written.
    """
    path.unlink(missing_ok=True)
    handler = logging.FileHandler(path, encoding="utf-8")  # appends
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    before = {name: (logging.getLogger(name).level, logging.getLogger(name).propagate) for name in SOURCES}
    for name in SOURCES:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    try:
        yield
    finally:
        for name, (level, propagate) in before.items():
            logger = logging.getLogger(name)
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
        handler.close()
