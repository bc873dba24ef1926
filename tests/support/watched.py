"""What a stretch of a test writes, removes, renames, starts or connects to, whoever does it within this process.

Python tells its audit hooks; a hook cannot be taken away again, so there is one, which is idle outside `watched`.
Not seen: what libraries do below Python, as Arrow does when it writes tables.  Tests list the folders around, too.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from analysis.charts.library import COMMAND
from fedsim.point.attempt import CHANGED, GIT, WHICH

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PATHS: dict[str, list[tuple[int, int | None]]] = {  # which arguments of an event are paths, and their folders if given
    "open": [(0, None)], "os.mkdir": [(0, 2)], "os.remove": [(0, 1)], "os.rmdir": [(0, 1)], "os.truncate": [(0, None)],
    "os.chmod": [(0, 2)], "os.chown": [(0, 3)], "os.utime": [(0, 3)], "os.rename": [(0, 2), (1, 3)],
    "os.link": [(1, 3)], "os.symlink": [(1, 2)],
}  # fmt: skip
NEVER = {  # in a run of one process
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn",
    "socket.connect", "socket.bind", "socket.sendto",
}  # fmt: skip
STARTS = ("subprocess.Popen", "os.posix_spawn")  # by which a run may do what `_may_start` says, and nothing else
_now: list[list[tuple[str, str]]] = []  # the stretches that are watched: what happened in each, and where


@contextmanager
def watched(*allowed: Path) -> Iterator[list[str]]:
    """Give a list that holds, when the block has ended, a line for each thing that has happened elsewhere."""
    _hooked()
    inside, told, outside = [os.path.realpath(folder) for folder in allowed], [], []
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    _now.append(told)
    try:
        yield outside
    finally:
        _now.remove(told)
        sys.dont_write_bytecode = before
        outside += [f"{what} {path}" for what, path in told if not _within(path, [*inside, os.devnull, "/dev/tty"])]


@cache
def _hooked() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, args: Sequence[Any]) -> None:
    if not _now:
        return
    found = [(event, repr(args))] if event in NEVER and not (event in STARTS and _may_start(args[1])) else []
    if event in PATHS and not (event == "open" and not _writes(args[2])):
        for path, folder in PATHS[event]:
            found.append((event, _place(args[path], None if folder is None else args[folder], event == "open")))
    for told in _now:
        told += found


def _may_start(words: Any) -> bool:
    """Return whether the command only prints: two read a repository, and one puts a report's scripts together.

    They are compared word for word, but for the repository's folder.
    """
    told = [os.fsdecode(word) for word in words]
    first, folder, rest = tuple(told[: len(GIT)]), told[len(GIT) : len(GIT) + 1], tuple(told[len(GIT) + 1 :])
    return tuple(told) == COMMAND or (first == GIT and len(folder) == 1 and rest in (WHICH, CHANGED))


def _writes(flags: Any) -> bool:
    return isinstance(flags, int) and bool(flags & WRITES)


def _place(path: Any, folder: int | None, follow: bool) -> str:
    """Where it really is, however it was told."""
    if isinstance(path, int):
        return _opened(path)
    above = "" if folder is None or folder < 0 else _opened(folder)
    whole = os.path.abspath(os.path.join(above, os.fsdecode(path)))
    if "\0" in whole:
        return whole  # which no system call takes
    return (
        os.path.realpath(whole)
        if follow
        else os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
    )


def _opened(number: int) -> str:
    """Where the file lies that is open under this number."""
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(number, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.path.realpath(f"/proc/self/fd/{number}")


def _within(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}{os.sep}") for folder in folders)
