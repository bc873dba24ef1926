"""What all charts share: panels for the axes of a sweep, fonts, tooltips, texts, and rendering to SVG and PNG.

Not modelled: which algorithm has which colour in a whole report (see looks).
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from analysis.axes import ordered, short
from analysis.looks import FRAME, GRID, INK, SOFT, TICK, Looks
from analysis.quantity import MISSING

Chart = Any  # one of Altair's chart classes, which have no common typed base

MOST_COLUMNS = 4
MOST_ACROSS, MOST_DOWN, MOST_IN_A_ROW = 6, 6, 24  # panels that are drawn
PANEL = ("column", "row")
DIGITS = 5  # of numbers inside a chart; the tables have all digits
WIDTHS = {1: 620, 2: 400, 3: 270, 4: 200}


def with_panels(frame: pd.DataFrame, axes: list[str], column: str | None = None) -> pd.DataFrame:
    """Return the frame with texts `column` and `row`: which panel a row of it belongs to.

    The first axis with several values, but not too many, makes the columns, all others the rows; an axis with one
    value makes none.
    If another column of the frame makes the columns, such as the algorithm, every axis makes rows. If some
    combinations are missing, as in a union of grids, all panels form one sequence, so that none is empty.
    """
    varied = [axis for axis in axes if frame[axis].nunique() > 1]
    first = next((axis for axis in varied if frame[axis].nunique() <= MOST_COLUMNS), varied[0] if varied else "")
    across = [first] if column is None and first else []
    down = [axis for axis in varied if axis not in across]
    labels = [_labels(frame, axis) for axis in down]
    rows = [", ".join(parts) for parts in zip(*labels, strict=True)] if labels else ""
    columns = [label for axis in across for label in _labels(frame, axis)] or ""
    whole = frame.assign(column=columns if column is None else frame[column], row=rows)
    return _readable(_without_gaps(whole), across=column is None)


def _labels(frame: pd.DataFrame, axis: str) -> list[str]:
    return [f"{short(axis)} {str(value) or MISSING}" for value in frame[axis]]


def _without_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    panels = frame[["column", "row"]].drop_duplicates()
    if len(panels) == panels["column"].nunique() * panels["row"].nunique():
        return frame
    return frame.assign(column=frame["column"].astype(str) + ", " + frame["row"].astype(str), row="")


def _readable(frame: pd.DataFrame, across: bool) -> pd.DataFrame:
    """Return the rows of as many panels as are readable, an even selection; `attrs` says if any is left out.

    If the columns are not conditions (`across`), such as algorithms, all of them stay.
    """
    columns, rows = _panel_order(frame["column"]), _panel_order(frame["row"])
    most = MOST_IN_A_ROW if len(rows) == 1 else MOST_ACROSS
    kept_columns, kept_rows = evenly(columns, most if across else len(columns)), evenly(rows, MOST_DOWN)
    if len(kept_columns) == len(columns) and len(kept_rows) == len(rows):
        return frame
    shown = frame[frame["column"].isin(kept_columns) & frame["row"].isin(kept_rows)].copy()
    drawn, whole = (f[["column", "row"]].drop_duplicates().shape[0] for f in (shown, frame))
    shown.attrs["left_out"] = (
        frame.attrs.get("left_out", "") + f"; {drawn} of {whole} panels are drawn, the tables have all"
    )
    return shown


def evenly(labels: list[Any], most: int) -> list[Any]:
    """Return at most `most` (two or more) of the labels, evenly spaced, the first and the last included."""
    if len(labels) <= most:
        return labels
    return [labels[round(i * (len(labels) - 1) / (most - 1))] for i in range(most)]


def facet(layers: list[Chart], frame: pd.DataFrame, height: int, width: int | None = None, **resolve: Any) -> Chart:
    """Return the layers, one panel for each of the frame's values of `column` and `row`; `finished` adds the data."""
    columns, rows = _panel_order(frame["column"]), _panel_order(frame["row"])
    size = width or WIDTHS[min(len(columns), MOST_COLUMNS)]
    chart = alt.layer(*layers, data=alt.NamedData(name="rows")).properties(width=size, height=height)
    header: dict[str, Any] = {"labelFontSize": 11, "labelFontWeight": "bold", "title": None}
    header["labelExpr"] = "split(datum.label, ', ')"
    if len(columns) > MOST_COLUMNS and len(rows) == 1:
        wrapped = alt.Facet("column:N", sort=columns, header=alt.Header(**header))
        return chart.facet(facet=wrapped, columns=MOST_COLUMNS, spacing=14).resolve_scale(**resolve)
    sides: dict[str, Any] = {}
    if len(columns) > 1:
        sides["column"] = alt.Column("column:N", sort=columns, header=alt.Header(**header))
    if len(rows) > 1:
        lines: dict[str, Any] = {"labelAngle": 0, "labelAlign": "right"}
        sides["row"] = alt.Row("row:N", sort=rows, header=alt.Header(**header, **lines, labelOrient="right"))
    if not sides:
        return chart
    return chart.facet(**sides, spacing={"row": 14, "column": 14}).resolve_scale(**resolve)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as plain dictionaries, missing values as None, numbers with as many digits as can be seen."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(key): _rounded(value) for key, value in row.items()} for row in plain.to_dict("records")]


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def tip(column: str, title: str, form: str | None = None, expression: str | None = None) -> dict[str, Any]:
    """Return one line of a mark's tooltip: the column, what it is called, and how numbers are written (d3-format).

    `expression` is a Vega expression that formats the value instead, such as that of `Amount.expression`.
    """
    if expression is not None:
        return {"field": f"{column}_text", "title": title, "type": "nominal", "from": expression}
    if form is None:
        return {"field": column, "title": title, "type": "nominal"}
    return {"field": column, "title": title, "type": "quantitative", "format": form}


def colour(algorithms: list[str], *, explained: bool = True, **legend: Any) -> alt.Color:
    """Return the colour channel for algorithms; looks.dressed makes it the same in all charts of a report."""
    key = alt.Legend(symbolOpacity=1, title=None, **legend) if explained else None
    return alt.Color("algorithm:N", scale=_scale("color", algorithms), legend=key)


def dash(algorithms: list[str]) -> alt.StrokeDash:
    """Return the dash channel for algorithms: solid for as many as there are colours, then other dashes."""
    return alt.StrokeDash("algorithm:N", scale=_scale("strokeDash", algorithms), title=None)


def shape(algorithms: list[str], *, explained: bool = True) -> alt.Shape:
    """Return the shape channel for algorithms, which distinguishes them in black and white too."""
    scale = _scale("shape", algorithms)
    return alt.Shape("algorithm:N", scale=scale, title=None, legend=alt.Undefined if explained else None)


def _scale(channel: str, algorithms: list[str]) -> alt.Scale:
    return alt.Scale(domain=algorithms, range=Looks(tuple(algorithms)).range(channel, algorithms))


def finished(
    chart: Chart, rows: pd.DataFrame, title: str, subtitle: str, tips: Sequence[dict[str, Any]] = (), says: str = ""
) -> dict[str, Any]:
    """Return the chart's Vega-Lite description, with its rows, title and the common look.

    Of the rows' columns only those stay that the chart uses. `tips` (see tip) are kept under `usermeta`, for the page.
    The description for readers who do not see the drawing is the title, the subtitle and `says`, what it shows.
    """
    subtitle += rows.attrs.get("left_out", "")
    heading = alt.Title(title, subtitle=subtitle, anchor="start", fontSize=14, color=INK, subtitleColor=SOFT, offset=10)
    described = (
        chart.properties(title=heading, background="white")
        .configure(font="Helvetica, Arial, sans-serif")
        .configure_axis(
            labelFontSize=11, titleFontSize=11, titleFontWeight="normal", gridColor=GRID, labelLimit=220,
            labelColor=INK, titleColor=SOFT, tickColor=TICK, domainColor=TICK,
        )
        .configure_header(labelColor=INK, titleColor=INK)
        .configure_view(stroke=FRAME)
        .configure_legend(
            orient="top", labelFontSize=12, symbolStrokeWidth=2.5, labelLimit=300, labelColor=INK, titleColor=SOFT
        )
    )  # fmt: skip
    spec: dict[str, Any] = described.to_dict()
    spec["description"] = ". ".join(part for part in (title, subtitle, says) if part)
    spec["usermeta"] = {"tips": [*_place(rows), *tips]}
    text = json.dumps(spec)
    used = [name for name in rows.columns if f'"{name}"' in text or f"datum.{name}" in text or name in PANEL]
    # added last, because Altair would check and copy every row
    return {**spec, "datasets": {"rows": records(rows[used])}}


def ranges_text(rows: pd.DataFrame, value: str, write: Callable[[float], str], by: str = "algorithm") -> str:
    """Return "fedavg 32 % to 80 %; power 41 %": the range of a column over the panels, for a chart's description."""
    parts = []
    for name, group in rows.groupby(by, sort=False):
        known = group[value].dropna()
        ends = list(dict.fromkeys(write(float(end)) for end in (known.min(), known.max()))) if len(known) else [MISSING]
        parts.append(f"{name}: {' to '.join(ends)}")
    return "; ".join(parts)


def _place(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the lines of tooltips that say whose row it is, and of which panel."""
    tips = [tip("algorithm", "algorithm")] if "algorithm" in rows else []
    for column, title in (("column", "where"), ("row", "and")):
        if column in rows and rows[column].nunique() > 1 and not (tips and rows[column].equals(rows["algorithm"])):
            tips.append(tip(column, title))
    return tips


def draw(spec: dict[str, Any], path: Path) -> str:
    """Write a description as SVG and PNG (192 pixels an inch) beside each other; return the SVG's text.

    `path` lacks the ending. Raises OSError if the folder cannot be written.
    """
    svg: str = vl_convert.vegalite_to_svg(spec)
    path.with_suffix(".svg").write_text(svg, "utf-8", newline="")
    path.with_suffix(".png").write_bytes(vl_convert.svg_to_png(svg, ppi=192))
    return svg


def _panel_order(labels: pd.Series) -> list[str]:
    """Return the panels by the value of their axis: "latency 10 ms" before "latency 1 s"; names stay as they come."""
    apart = re.compile(r", (?![^(]*\)|[^[]*\])")  # a comma inside "lognormal(50 ms, 0.5)" or "[1, 2]" parts nothing
    split = {str(label): [part.split(" ", 1)[-1] for part in apart.split(str(label))] for label in labels.unique()}
    parts = [dict.fromkeys(values) for values in zip(*split.values(), strict=True)]
    lines = [ordered(values) if any(re.search(r"\d", value) for value in values) else [*values] for values in parts]
    places = [{value: i for i, value in enumerate(line)} for line in lines]
    return sorted(split, key=lambda label: [place[v] for place, v in zip(places, split[label], strict=True)])
