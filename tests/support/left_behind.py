"""All that a sweep and its report leave behind, without what docs/faults.md lists as the host's."""

import csv
import io
import json

from fedsim.point.results import folders
from fedsim.sweep.result import write_report

REAL = "real_seconds"


def of(out):
    """Return what is left in a folder of results, which names its points in the report: {path: bytes, or rows}."""
    write_report(out, out / "report")
    paths = [path for path in sorted(out.rglob("*")) if path.is_file()]
    assert not [path for path in paths if path.name.startswith(".")]
    return {str(path.relative_to(out)): _held(path) for path in paths}


def differing(found, wanted):
    """Return the names of the files that are in one only or differ."""
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))


def _held(path):
    if path.name == "report.html" or path.suffix == ".tex":  # these show the tables, and tell when and where
        return b""
    if path.suffix == ".pdf":  # made from the SVG beside it, with fonts in any order
        return b""
    if path.suffix == ".csv":
        rows = csv.DictReader(io.StringIO(path.read_text("utf-8")))
        return [{name: cell for name, cell in row.items() if not name.startswith(REAL)} for row in rows]
    if path.name == "row.json":
        row = json.loads(path.read_text("utf-8"))
        return {name: value for name, value in row.items() if name not in (REAL, "provenance")}
    if path.name == folders.SUMS:
        return [line for line in path.read_text("utf-8").splitlines() if not line.endswith(" row.json")]
    return path.read_bytes()
