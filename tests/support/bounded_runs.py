"""The command line run in this process, in a folder of its own: what any input at all must come to.

Done; a point failed, and its log names the reason in a sentence; or one message and nothing written.  Never anything
else: no traceback, no end that does not come, nothing written outside the folder of results.
"""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from refusals import LONGEST, Hangs, in_time
from watched import watched

from fedsim.__main__ import main

PATIENCE = 120  # seconds: a run takes one at most, but for a machine that is busy and the first that loads libraries


@dataclass(frozen=True)
class Ended:
    """How a command has ended: its exit code, and what it has said on both outputs."""

    code: int
    out: str
    err: str


def run(words: Sequence[str], home: Path, results: Path, shown: object, loose: Sequence[Path] = ()) -> Ended:
    """Run the command in the folder `home` and return how it ended.

    It may write into the folder `results`, which should not be there before, into its cache under `home`, and into
    `loose`.  Raises AssertionError, with what was given, where it did anything else than it may.
    """
    out, err, around = io.StringIO(), io.StringIO(), {*_entries(home.parent, results)}
    try:
        with (
            chdir(home), redirect_stdout(out), redirect_stderr(err), in_time(PATIENCE),
            watched(results, home / ".cache", *loose) as outside,
        ):  # fmt: skip
            code = main(words)
    except SystemExit as error:
        code = int(str(error.code))
    except (Exception, Hangs) as error:
        raise AssertionError(f"it ends in {error!r}:\n{shown}") from error
    ended = Ended(code, out.getvalue(), err.getvalue())
    parents = {f"os.{done}dir {folder}" for folder in results.resolve().parents for done in ("mk", "rm")}
    assert not [line for line in outside if line not in parents], f"{outside} is elsewhere:\n{shown}"
    assert code in (0, 1, 2), f"exit code {code}:\n{shown}"
    assert "Traceback" not in ended.out + ended.err, f"{ended.out}{ended.err}\n{shown}"
    if code == 2:
        assert ended.err.strip(), f"refused without a word:\n{shown}"
        assert len(ended.err) < LONGEST, f"{len(ended.err)} characters are no message:\n{shown}"
        assert not os.path.exists(results), f"refused ({ended.err}), and something is written:\n{shown}"
    if code == 1:
        logs = {path.parent.name: path.read_text("utf-8") for path in results.glob("points/*/error.log")}
        assert logs, f"a point failed and left no log:\n{shown}"
        assert not [text for text in logs.values() if "Traceback" in text], f"{logs}\n{shown}"
    new = {*_entries(home.parent, results)} - around
    new -= {path for path in new if path.is_relative_to(home / ".cache") or results.is_relative_to(path)}
    assert not new, f"{new} is new:\n{shown}"
    return ended


@contextmanager
def unwatched(*allowed: Path) -> Iterator[list[str]]:
    """Stand for `watched` where it does not matter what is written."""
    yield []


def _entries(above: Path, but: Path) -> Iterator[Path]:
    # Arrow writes tables where no audit hook sees it.
    for folder, inner, files in os.walk(above):
        inner[:] = [name for name in inner if Path(folder, name) != but]
        yield from (Path(folder, name) for name in (*inner, *files))
