"""The lock of a folder of results: one process at a time writes there, and a process that has died holds nobody off.

Not modelled: machines that share the folder over a file system without locks.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fedsim.errors import UserError

LOCK, HOLDER = ".lock", ".holder"  # nobody else may read a file that is locked on Windows: its holder is beside it


@contextmanager
def locked(out: Path) -> Iterator[list[Path]]:
    """Hold the folder for this process alone, creating it; the lock of a process that has died is free again.

    Folders put into the list that it gives are removed at the end if this call created them and they are empty.
    Raises UserError if the folder cannot be written or another process holds it.
    """
    new, lock = [folder for folder in (out, *out.parents) if not os.path.exists(folder)], FileLock(out / LOCK)
    try:
        out.mkdir(parents=True, exist_ok=True)
        _take(lock, out)
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error.strerror}); give another folder with --out") from None
    remove: list[Path] = []
    try:
        yield remove
    finally:
        for name in (HOLDER, LOCK):  # the lock while it is held: afterwards it may be another's
            with suppress(OSError):  # in a folder that is barred by now it stays, and holds nobody off
                (out / name).unlink(missing_ok=True)
        lock.release()  # on Windows, where a file that is open cannot be removed, this removes it
        for folder in new if remove else []:
            if not any(folder.iterdir()):
                folder.rmdir()


def _take(lock: FileLock, out: Path) -> None:
    # The system frees the lock of a process that dies, however it dies.
    try:
        lock.acquire(timeout=0)
    except Timeout:
        holder = (out / HOLDER).read_text("utf-8").strip() if (out / HOLDER).is_file() else ""
        remedy = "wait until it ends, or give another folder with --out"
        raise UserError(f"{out} is being written by process {holder or '?'}; {remedy}") from None
    try:
        (out / HOLDER).write_text(f"{os.getpid()}\n", "utf-8")
    except OSError:
        lock.release()
        raise
