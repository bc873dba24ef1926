"""A point's log: messages of fedsim and the algorithms while it runs, in run.log beside its tables.

Messages carry no wall-clock time, and say nothing that depends on the host, so that equal runs leave equal logs, also
after an interruption; what the host decides goes into the provenance of a point.  Nothing goes to the terminal, which
the progress display uses.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SOURCES = ("fedsim", "algorithms")
LogMessage = tuple[str, int, str]  # the logger, the level and the text


@contextmanager
def keep(path: Path) -> Iterator[list[LogMessage]]:
    """Write messages of level INFO and above to the file while the block runs, which is given the list of them.

    Raises OSError if the file cannot be written.
    """
    path.unlink(missing_ok=True)
    file, collector = logging.FileHandler(path, encoding="utf-8"), Collector()  # appends
    file.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(name) for name in SOURCES]
    try:
        with _handled({logger: [*logger.handlers, file, collector] for logger in loggers}):
            yield collector.messages
    finally:
        file.close()


@contextmanager
def _handled(handlers: Mapping[logging.Logger, list[logging.Handler]]) -> Iterator[None]:
    """Give each logger these handlers, for messages of level INFO and above, while the block runs."""
    before = {logger: (logger.level, logger.propagate, logger.handlers) for logger in handlers}
    for logger, wanted in handlers.items():
        logger.setLevel(logging.INFO)
        logger.propagate, logger.handlers = False, wanted
    try:
        yield
    finally:
        for logger, (level, propagate, earlier) in before.items():
            logger.setLevel(level)
            logger.propagate, logger.handlers = propagate, earlier


class Collector(logging.Handler):
    """Collects messages as (logger's name, level, text)."""

    def __init__(self) -> None:
        """Start without any."""
        super().__init__()
        self.messages: list[LogMessage] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Collect a message."""
        self.messages.append((record.name, record.levelno, record.getMessage()))


@contextmanager
def set_aside() -> Iterator[list[LogMessage]]:
    """Collect messages of level INFO and above that are logged while the block runs; they go nowhere else.

    It serves what is computed once and used by several points: `repeat` writes them to the log of each.
    """
    collector = Collector()
    with _handled({logging.getLogger(name): [collector] for name in SOURCES}):
        yield collector.messages


def repeat(messages: Iterable[LogMessage]) -> None:
    """Log messages that were collected before."""
    for name, level, text in messages:
        logging.getLogger(name).log(level, "%s", text)
