"""Warnings to show before the answer: rounds that ran short, points that failed, periods that never arrived."""

import pandas as pd

from analysis.axes import condition_of
from analysis.report.page import note

SHORT = 0.95  # share of the clients wanted, below which there is a warning
MOST = 3  # conditions that are named


def cautions(points: pd.DataFrame, listed: pd.DataFrame, axes: list[str], fixed: bool = False) -> list[str]:
    """Return the cautions; `listed` are all points, of which `points` have results, `fixed` if on one fixed test."""
    return [*filter(None, (_short_rounds(points, axes), _odd(listed), "" if fixed else _periods(points)))]


def _short_rounds(points: pd.DataFrame, axes: list[str]) -> str:
    """Return where fewer clients were asked than the protocol wanted, and how many of them."""
    share = points["asked"] / points["wanted"].where(points["wanted"] > 0)
    short = points[share < SHORT]
    if short.empty:
        return ""
    updates = short["updates"].where(short["updates"] > 0)
    asked, wanted = ((short[name] / updates).mean() for name in ("asked", "wanted"))
    each = f" ({asked:.1f} of {wanted:.1f} per update)" if wanted == wanted else ""
    varied = [axis for axis in axes if points[axis].nunique() > 1]
    places = list(dict.fromkeys(condition_of({axis: row[axis] for axis in varied}) for _, row in short.iterrows()))
    where = "; ".join(places[:MOST]) + (f" and {len(places) - MOST} more" if len(places) > MOST else "")
    return note(
        "short_rounds", everywhere=len(short) == len(points), short=len(short), all=len(points), each=each,
        share=f"{100 * share[short.index].mean():.0f}", where=f" ({where})." if any(places) else ".",
    )  # fmt: skip


def _odd(listed: pd.DataFrame) -> str:
    counts = listed["status"].value_counts()
    failed, stalled = (int(counts.get(status, 0)) for status in ("failed", "stalled"))
    return note("odd", listed=len(listed), failed=failed, stalled=stalled)


def _periods(points: pd.DataFrame) -> str:
    """Return a warning if runs ended with different numbers of periods, so that their final tests differ."""
    known = points["periods"].dropna().round(6)
    return note("ends", least=known.min(), most=known.max()) if known.nunique() > 1 else ""
