"""The lock of a folder of results: one process at a time writes there, and the lock of a dead process is released.

Not modelled: machines that share the folder over a file system without locks.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fedsim.core.errors import UserError
from fedsim.point.folders import refuse_links

LOCK, HOLDER = ".lock", ".holder"  # Windows lets no other process read a locked file, so HOLDER is separate


@contextmanager
def locked(out: Path) -> Iterator[list[Path]]:
    """Lock the folder for this process, creating it; the lock of a dead process is free.

    Folders added to the yielded list are removed at the end if this call created them and they are empty.
    Raises UserError if the folder cannot be written, holds links or another process holds it.
    """
    refuse_links(out)
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
        for name in (HOLDER, LOCK):  # remove the lock while it is held: afterwards it may be another process's
            with suppress(OSError):  # in a folder that is no longer writable it stays, without effect
                (out / name).unlink(missing_ok=True)
        lock.release()  # on Windows, where an open file cannot be removed, this removes it
        for folder in new if remove else []:
            if not any(folder.iterdir()):
                folder.rmdir()


def _take(lock: FileLock, out: Path) -> None:
    # The system frees the lock of a process that dies, for any reason.
    try:
        lock.acquire(timeout=0)
    except Timeout:
        holder = (out / HOLDER).read_text("utf-8").strip() if (out / HOLDER).is_file() else ""
        remedy = "wait until it ends, or give another folder with --out"
        raise UserError(f"{out} is being written by process {holder or '?'}; {remedy}") from None
    try:
        if not (out / HOLDER).is_file():
            (out / HOLDER).unlink(missing_ok=True)  # a pipe, into which a write would never end
        (out / HOLDER).write_text(f"{os.getpid()}\n", "utf-8")
    except OSError:
        lock.release()
        raise
