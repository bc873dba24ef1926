"""Run one point of a sweep in a worker, in a temporary folder, and record what it was made from.

Failures are returned, never raised, so that one point's failure does not affect others.
"""

import json
import platform
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.core.whole_files import unwritable
from fedsim.point import garbage, imports, memory, provenance, stale, stamp, sums
from fedsim.point.folders import PARTIAL, put, strip
from fedsim.point.lock import LOCK
from fedsim.scenario import own_code
from fedsim.scenario.schema import Point

Row = dict[str, Any]
Run = Callable[[Point, Path, Path, Callable[[Progress], None]], Row]


@dataclass(frozen=True)
class Outcome:
    """The result of one point: its row, or a message about its failure, with traceback and line of the user's code."""

    message: str = ""
    traceback: str = ""
    place: str = ""
    row: Row | None = None
    mistake: UserError | None = None  # if the failure is the user's mistake


def attempt(
    run: Run,
    out: Path,
    data: Path,
    git: Row | None,
    sources: imports.Known,
    point: Point,
    report: Callable[[Progress], None],
) -> Outcome:
    """Run one point in a temporary folder and move it into place when done; return a failure instead of raising it.

    `git` is the commit, for the provenance; `sources` holds the sources that the sweep has read already, so that
    workers need not.
    """
    folder, before = out / f"{PARTIAL}{point.id}", garbage.peak()
    try:
        if not (out / LOCK).is_file():  # held by the process that runs the sweep
            lacks = f"the machine {platform.node()} does not see the sweep's folder {out}"
            raise UserError(f"{lacks}: all machines must share it under the same path; give --out a shared folder")
        imports.know(sources)
        strip(folder)  # left by a worker that died
        folder.mkdir(exist_ok=True)
        began, made = provenance.now(), stamp.of(point.scenario, point.written)
        row = run(point, folder, data, report)
        row = {**row, "provenance": {**provenance.here(began), **row.get("provenance", {}), "git": git}}
        (folder / stale.FILE).write_text(made.text(), encoding="utf-8")
        (folder / "row.json").write_text(json.dumps(row, default=_python), encoding="utf-8")
        sums.write(folder)
        put(folder, out / point.id)
    except Exception as error:
        if mistake := unwritable(out, error):
            return Outcome(message=str(mistake), mistake=mistake)  # its checkpoint is still valid
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, UserError):
            return Outcome(message=str(error), mistake=error)
        if message := memory.lacking(error):
            return Outcome(message=message, mistake=UserError(message))
        return Outcome(own_code.line(error), traceback.format_exc(), own_code.place(error))
    else:
        return Outcome(row=json.loads(json.dumps(row, default=_python)))
    finally:
        strip(folder)
        garbage.reclaim(before)


def _python(value: Any) -> Any:
    return value.item()  # a NumPy number
