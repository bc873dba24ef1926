"""Files by which the command and the server's process, which Flower starts, speak of one run.

They lie in the run's folder while it goes on: the scenario (`POINT`), how far it has come (`PROGRESS`), and its outcome
(`OUTCOME`): the row of its summary, a mistake of the user, or a failure.  What there is to tell meanwhile, such as that
a client is lost, is a line of `NEWS`.
"""

import json
import logging
from pathlib import Path
from typing import Any

from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.core.whole_files import replace

POINT, PROGRESS, OUTCOME, NEWS = "point.yaml", "progress.json", "outcome.json", "news.txt"


class Failed(Exception):  # noqa: N818
    """The server's process has failed; the message holds its traceback."""


class News(logging.FileHandler):
    """Appends warnings to the news of a run."""

    def __init__(self, folder: Path) -> None:
        """Create the file once there is one."""
        super().__init__(folder / NEWS, encoding="utf-8", delay=True)
        self.setLevel(logging.WARNING)

    def format(self, record: logging.LogRecord) -> str:
        """Return the message in a line."""
        return " ".join(record.getMessage().split())


def news(folder: Path, seen: int) -> list[str]:
    """Return the lines of news after the first `seen` ones."""
    path = folder / NEWS
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [line.rstrip("\n") for line in lines[seen:] if line.endswith("\n")]


def finish(folder: Path, **outcome: Any) -> None:
    """Leave what came of a run: its `row`, a `mistake` or a `failure`."""
    replace(folder / OUTCOME, json.dumps(outcome, default=lambda number: number.item()))


def progress(folder: Path) -> Progress | None:
    """Return how far the run has come, None if it has not begun."""
    path = folder / PROGRESS
    if not path.exists():
        return None
    seconds, share, version = json.loads(path.read_text("utf-8"))
    return Progress(seconds, share, None, version)


def outcome(folder: Path) -> dict[str, Any] | None:
    """Return the run's row, None as long as it goes on.  Raises UserError for a mistake, Failed for a failure."""
    path = folder / OUTCOME
    if not path.exists():
        return None
    content = json.loads(path.read_text("utf-8"))
    if "mistake" in content:
        raise UserError(content["mistake"])
    if "failure" in content:
        raise Failed(content["failure"])
    return dict(content["row"])


def clear(folder: Path) -> None:
    """Remove these files."""
    for name in (POINT, PROGRESS, OUTCOME, NEWS):
        (folder / name).unlink(missing_ok=True)
