"""Write a LaTeX table beside each CSV: a booktabs tabular, or a longtable if it would not fit on a page.

Numbers keep four digits, enough for a paper; the CSV has all. A missing value is a dash.
"""

import math
from typing import Any

import pandas as pd

MOST_ROWS = 1000  # of a table that a paper could print
LONG = 50  # rows, from which on a table is broken over pages
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {sign: f"\\{sign}" for sign in "&%$#_{}"} | {"<": r"\textless{}", ">": r"\textgreater{}"}
DASH = "--"


def tabular(frame: pd.DataFrame) -> str:
    """Return the frame as a table: texts left, numbers right, its columns' names as heads; no empty columns.

    More than MOST_ROWS rows, which no paper prints, give a comment that says so.
    """
    if len(frame) > MOST_ROWS:
        return f"% {len(frame):,} rows are too many to print: the CSV of the same name has them.\n"
    frame = frame.dropna(axis="columns", how="all") if len(frame) else frame
    numeric = [pd.api.types.is_numeric_dtype(frame[name]) for name in frame]
    columns = "".join("r" if number else "l" for number in numeric)
    heads = " & ".join(escaped(str(name)) for name in frame.columns)
    lines = [" & ".join(map(_cell, row)) for row in frame.itertuples(index=False, name=None)]
    long = len(frame) > LONG
    kind, packages = ("longtable", "booktabs, longtable") if long else ("tabular", "booktabs")
    top = [r"\toprule", rf"{heads} \\", r"\midrule", *([r"\endhead"] if long else [])]
    body = [rf"{line} \\" for line in lines]
    return "\n".join([
        rf"% \usepackage{{{packages}}}", rf"\begin{{{kind}}}{{{columns}}}", *top, *body, r"\bottomrule",
        rf"\end{{{kind}}}", "",
    ])  # fmt: skip


def escaped(text: str) -> str:
    """Return the text with LaTeX's special characters escaped."""
    return "".join(SPECIAL.get(sign, " " if sign.isspace() else sign) for sign in text)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value is pd.NA:
        return DASH
    if not isinstance(value, int | float) and not hasattr(value, "dtype"):
        return escaped(str(value)) or DASH
    number = float(value)
    if math.isnan(number):
        return DASH
    if math.isinf(number):
        return r"$\infty$" if number > 0 else r"$-\infty$"
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number)}"
    if abs(number) >= 1000:
        return f"{number:.0f}"
    digits, _, power = f"{number:.4g}".partition("e")
    return rf"${digits}\times10^{{{int(power)}}}$" if power else digits
