"""A point's tables as they lie on the disk, beside the scenario that it was given."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from links import Links

TABLES = {
    "transfers": "sent arrived src dst kind version nbytes wire_bytes fate",
    "updates": "time version step asked folded lost late staleness refused epsilon wanted",
    "spans": "client start end what",
    "arrivals": "time client period version",
    "partitions": "time snapshot owners nodes edges cut largest moved scanned unowned majority",
    "scores": "time version client period seen model split metric value weight",
}
WHOLE = ("delivered", "late", "discarded")
CLOSE = 1e-9  # seconds, and relative to the time: rounding of sums of times
Findings = Iterator[str]


class Point:
    """A point's row of the summary and its tables, with the scenario that it was given."""

    def __init__(
        self, tables: dict[str, pd.DataFrame], row: dict[str, Any], scenario: dict[str, Any], files: dict[str, str]
    ) -> None:
        """Read what the scenario says of links, and who takes part."""
        self.tables, self.row, self.scenario, self.links = tables, row, scenario, Links(scenario, files)
        self.protocol = scenario["protocol"]["name"]
        self.topology = scenario["network"]["topology"]["name"]
        self.effects = {effect["name"] for effect in scenario["network"]["effects"]}

    def rows(self, name: str) -> list[Any]:
        """Return the rows of a table as named tuples."""
        return list(self.tables[name].itertuples(index=False))


def read(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the tables in a point's folder.  Raises OSError if one is missing."""
    return {name: pd.read_parquet(folder / f"{name}.parquet") for name in TABLES}
