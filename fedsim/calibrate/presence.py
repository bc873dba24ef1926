"""Presence: when clients were offline, as a table that a scenario can repeat.

Only absences that the run has recorded (spans `offline`) are known; a client that did not answer for another reason
counts as online.  After the last recorded absence a client stays online.
"""

import numpy as np

from fedsim.calibrate.measured import Away

COLUMNS = ("client", "on_s", "off_s")


def stretches(away: Away) -> list[dict[str, float | int | None]]:
    """Return the rows of a table of `churn`: the stretches online of every client that was ever offline."""
    rows: list[dict[str, float | int | None]] = []
    for client in np.unique(away.client).tolist():
        own = away.take(away.client == client)
        on = 0.0
        for row in np.argsort(own.start).tolist():
            start, end = float(own.start[row]), float(own.end[row])
            if start > on:
                rows.append({"client": client, "on_s": on, "off_s": start})
            on = max(on, end)
        rows.append({"client": client, "on_s": on, "off_s": None})
    return rows
