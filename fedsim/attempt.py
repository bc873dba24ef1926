"""One point of a sweep, where it runs: in a worker, beside its place, with what tells later what it was made from.

Whatever happens is returned and never raised, so that one point's failure is no other's.
"""

import json
import platform
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsim import imports, provenance, stale, stamp
from fedsim.errors import UserError
from fedsim.lock import LOCK
from fedsim.point_folders import PARTIAL, put, strip
from fedsim.progress import Progress
from fedsim.scenario import Point
from fedsim.whole_files import unwritable

Row = dict[str, Any]
Run = Callable[[Point, Path, Path, Callable[[Progress], None]], Row]


@dataclass(frozen=True)
class Outcome:
    """What came of one point: its row, or the message and the traceback of its failure."""

    row: Row | None = None
    message: str = ""
    traceback: str = ""
    mistake: UserError | None = None  # where it is the user's, not the program's


def attempt(
    run: Run,
    out: Path,
    data: Path,
    git: Row | None,
    sources: imports.Known,
    point: Point,
    report: Callable[[Progress], None],
) -> Outcome:
    """Run one point beside its place and move it there when it is done; a failure is returned, not raised.

    `git` is the commit of what is run, for its provenance; `sources` is what the sweep has read of them, so that not
    every worker does.
    """
    folder = out / f"{PARTIAL}{point.id}"
    try:
        if not (out / LOCK).is_file():  # whoever runs the sweep holds it
            lacks = f"the machine {platform.node()} does not see what the sweep writes into {out}"
            raise UserError(f"{lacks}: all that run points must share this folder under this name; give another --out")
        imports.know(sources)
        strip(folder)  # of a worker that has died
        folder.mkdir(exist_ok=True)
        began, made = provenance.now(), stamp.of(point.scenario, point.written)
        row = run(point, folder, data, report)
        row = {**row, "provenance": {**provenance.here(began), **row.get("provenance", {}), "git": git}}
        (folder / stale.FILE).write_text(made.text(), encoding="utf-8")
        (folder / "row.json").write_text(json.dumps(row, default=_python), encoding="utf-8")
        put(folder, out / point.id)
    except Exception as error:
        if mistake := unwritable(out, error):
            return Outcome(message=str(mistake), mistake=mistake)  # its checkpoint is as good as before
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, UserError):
            return Outcome(message=str(error), mistake=error)
        message = f"{type(error).__name__}: {error}".splitlines()[0]
        return Outcome(message=message, traceback=traceback.format_exc())
    else:
        return Outcome(row=json.loads(json.dumps(row, default=_python)))
    finally:
        strip(folder)


def _python(value: Any) -> Any:
    return value.item()  # a number of numpy's
