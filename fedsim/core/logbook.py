"""A point's log: messages of fedsim and the algorithms while it runs, in run.log beside its tables.

Messages carry no wall-clock time, and say nothing that depends on the host, so that equal runs leave equal logs, also
after an interruption; what the host decides goes into the provenance of a point.  Nothing goes to the terminal, which
the progress display uses.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCES = ("fedsim", "algorithms")
Message = tuple[str, int, str]  # the logger, the level and the text


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


class Collector(logging.Handler):
    """Collects messages as (logger's name, level, text)."""

    def __init__(self) -> None:
        """Start without any."""
        super().__init__()
        self.messages: list[Message] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Collect a message."""
        self.messages.append((record.name, record.levelno, record.getMessage()))


@contextmanager
def set_aside() -> Iterator[list[Message]]:
    """Collect messages of level INFO and above that are logged while the block runs; they go nowhere else.

    It serves what is computed once and used by several points: `repeat` writes them to the log of each.
    """
    handler, loggers = Collector(), [logging.getLogger(name) for name in SOURCES]
    before = [(logger.level, logger.propagate, logger.handlers) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.propagate, logger.handlers = False, [handler]
    try:
        yield handler.messages
    finally:
        for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
            logger.setLevel(level)
            logger.propagate, logger.handlers = propagate, handlers


@contextmanager
def collected() -> Iterator[list[Message]]:
    """Collect the messages that are logged while the block runs, beside wherever else they go."""
    handler = Collector()
    for name in SOURCES:
        logging.getLogger(name).addHandler(handler)
    try:
        yield handler.messages
    finally:
        for name in SOURCES:
            logging.getLogger(name).removeHandler(handler)


def repeat(messages: Iterable[Message]) -> None:
    """Log messages that were collected before."""
    for name, level, text in messages:
        logging.getLogger(name).log(level, "%s", text)
