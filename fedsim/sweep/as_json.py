"""What `--json` prints for programs: one JSON document on the standard output; other words go to the standard error.

    --list [KIND [NAME ...]]    a list of parts: kind, name, description, source, options (null but for those named)
    SCENARIO --dry-run          the runs: id, axes, and the scenario with every default written out
    SCENARIO --explain          what is estimated of each condition: seconds, bytes, clients asked
    SCENARIO --status           the folder, the process that writes into it (or null), and each run's state
    SCENARIO                    the folder, the report (null without one), and the rows of summary.csv

Numbers that are missing are null.  Not covered: --tune, which is made to be read.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedsim.scenario.parts import find, options
from fedsim.scenario.schema import Point
from fedsim.sweep import listing


def parts(kinds: Sequence[str], names: Sequence[str]) -> str:
    """Return the parts of these kinds, or the named ones of the only kind with their options."""
    found = []
    for kind in kinds:
        for name in names or find.names(kind):
            description, source = listing.entry(kind, name)
            known = [asdict(option) for option in options.of(kind, name)[1]] if names else None
            part = {"kind": kind, "key": find.KINDS[kind].key, "name": name, "description": description}
            found.append({**part, "source": source or None, "options": known})
    return text(found)


def planned(points: Sequence[Point], notes: Sequence[str]) -> str:
    """Return the runs that a scenario has, and what there is to say of them."""
    runs = [{"id": point.id, "axes": point.axes, "scenario": point.scenario.plain()} for point in points]
    return text({"runs": runs, "notes": [*notes]})


def ended(rows: Sequence[Mapping[str, Any]], out: Path, report: Path | None) -> str:
    """Return what has been run, and where it is."""
    return text({"folder": str(out), "report": str(report) if report else None, "runs": [*rows]})


def text(found: Any) -> str:
    """Return a document of plain data, with null for what is no number."""
    return json.dumps(_plain(found), ensure_ascii=False, indent=1, allow_nan=False, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
