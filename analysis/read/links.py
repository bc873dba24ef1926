"""Whether a folder of results can be written: none of what fedsim writes there is a link, which is never followed.

A folder of results may be untrusted.  What is written, replaced and removed there would reach any place of this
machine through a link.  The folder itself may be a link, for its user has named it, and what others put beside the
results is theirs.  Not found: junctions of Windows, and hard links, through which nothing is written.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

WRITTEN = re.compile(  # what is written into a folder of results, by name; tests hold what is against it
    r"points|\.partial-.*|\..*\.partial|\.lock|\.holder"
    r"|scenario\.yaml|summary\.csv|results\.txt|report\.html|trials\.csv|.*_tuned\.yaml"
    r"|figures|flower|inputs|records|report|tables|tuning"
)
EARLIER = re.compile(r"[0-9a-f]{12}")  # what earlier versions called the folders of points, beside the summary
CACHE = "records"  # what is no plain record in there is not used, and replaced (`point/resume/following.py`)


def link_in(folder: Path) -> str:
    """Return why nothing can be written into a folder of results: a link, or something else that is neither file nor
    folder, among what fedsim writes; "" if there is none, or no such folder."""
    for entry in _entries(folder):
        if WRITTEN.fullmatch(entry.name) and (found := _irregular(entry)):
            what = "a link" if Path(found).is_symlink() else "neither a file nor a folder"
            return f"{found} is {what}, and in a folder of results no link is followed: move it away"
    return ""


def earlier_layout(out: Path) -> str:
    """Return why a folder cannot be used in which an earlier version has laid out its points, "" if it can."""
    if not any(EARLIER.fullmatch(path.parent.name) for path in out.glob("*/scenario.yaml")):
        return ""
    return f"{out} was written by an earlier version, whose folders are laid out otherwise: give or write another one"


def _irregular(entry: "os.DirEntry[str]") -> str:
    """Return the path of the first link (or pipe, socket, device) at or below a place, "" if there is none."""
    if entry.is_dir(follow_symlinks=False):
        below = () if entry.name == CACHE else _entries(entry.path)
        return next((found for inner in below if (found := _irregular(inner))), "")
    return "" if entry.is_file(follow_symlinks=False) else entry.path


def _entries(folder: "Path | str") -> "Iterator[os.DirEntry[str]]":
    with suppress(OSError), os.scandir(folder) as found:  # what cannot be read cannot be written; gone: another's run
        yield from sorted(found, key=lambda entry: entry.name)
