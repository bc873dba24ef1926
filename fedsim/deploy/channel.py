"""Files by which the command and the server's process, which Flower starts, speak of one run.

They lie in the run's folder while it goes on: the scenario (`POINT`), how far it has come (`PROGRESS`), and its outcome
(`OUTCOME`): the row of its summary, a mistake of the user, or a failure.
"""

import json
from pathlib import Path
from typing import Any

from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.core.whole_files import replace

POINT, PROGRESS, OUTCOME = "point.yaml", "progress.json", "outcome.json"


class Failed(Exception):  # noqa: N818
    """The server's process has failed; the message holds its traceback."""


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
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if "mistake" in found:
        raise UserError(found["mistake"])
    if "failure" in found:
        raise Failed(found["failure"])
    row: dict[str, Any] = found["row"]
    return row


def clear(folder: Path) -> None:
    """Remove these files."""
    for name in (POINT, PROGRESS, OUTCOME):
        (folder / name).unlink(missing_ok=True)
