"""What all charts share: panels for the axes of a sweep, fonts, tooltips and texts.

Not modelled: which algorithm has which colour in a whole report (see palette).
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import altair as alt
import pandas as pd

from analysis.axes import ordered, short
from analysis.charts.amounts import Amount
from analysis.charts.palette import FRAME, GRID, INK, SOFT, TICK, Palette
from analysis.quantity import MISSING
from analysis.statistics.constant_axes import left_out

Chart = Any  # one of Altair's chart classes, which have no common typed base

MOST_COLUMNS = 4
MOST_ACROSS, MOST_DOWN, MOST_IN_A_ROW = 6, 8, 24  # panels that are drawn
PANEL = ("column", "row")
DIGITS = 5  # of numbers inside a chart; the tables have all digits
WIDTHS = {1: 620, 2: 400, 3: 270, 4: 200}
FONT = "Helvetica, Arial, sans-serif"
LOOK = {
    "font": FONT,
    "axis": {
        "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "gridColor": GRID, "labelLimit": 220,
        "labelColor": INK, "titleColor": SOFT, "tickColor": TICK, "domainColor": TICK,
    },
    "header": {"labelColor": INK, "titleColor": INK},
    "view": {"stroke": FRAME, "continuousWidth": 300, "continuousHeight": 300},
    "legend": {
        "orient": "top", "labelFontSize": 12, "symbolStrokeWidth": 2.5, "labelLimit": 300, "labelColor": INK,
        "titleColor": SOFT, "rowPadding": 12,
    },
}  # fmt: skip
MEANS, UNITS = "!isValid(datum.unit)", "isValid(datum.unit)"  # which rows of `each_unit` are drawn


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
    return left_out(shown, f"; {drawn} of {whole} panels are drawn, the tables have all")


def each_unit(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows, and below them one for each of their `units` with its value in `unit`, which is NaN in a mean's.

    Rows rather than a flatten: inside a panel, that of Vega-Lite gives the units of all panels.
    """
    units = rows[rows["units"].str.len() > 0].explode("units")
    below = pd.concat([rows.assign(unit=float("nan")), units.assign(unit=units["units"].astype(float))])
    below.attrs = rows.attrs
    return below.drop(columns="units").reset_index(drop=True)


def evenly(labels: list[Any], most: int) -> list[Any]:
    """Return at most `most` (two or more) of the labels, evenly spaced, the first and the last included."""
    if len(labels) <= most:
        return labels
    return [labels[round(i * (len(labels) - 1) / (most - 1))] for i in range(most)]


def facet(
    layers: list[Chart], frame: pd.DataFrame, height: int, width: int | None = None, **resolve: Any
) -> dict[str, Any]:
    """Return the layers, one panel for each of the frame's values of `column` and `row`; `finished` adds the data.

    A description rather than one of Altair's charts, which copies all of its layers for every property it gets.
    """
    columns, rows = _panel_order(frame["column"]), _panel_order(frame["row"])
    size = width or WIDTHS[min(len(columns), MOST_COLUMNS)]
    panel = {"layer": [_described(layer) for layer in layers], "height": height, "width": size}
    head = {"$schema": alt.SCHEMA_URL, "config": {}, "data": {"name": "rows"}}
    header: dict[str, Any] = {"labelFontSize": 11, "labelFontWeight": "bold", "title": None}
    header["labelExpr"], loose = "split(datum.label, ', ')", {"resolve": {"scale": resolve}}
    if len(columns) > MOST_COLUMNS and len(rows) == 1:
        wrapped = alt.Facet("column:N", sort=columns, header=alt.Header(**header))
        return {**head, "facet": _described(wrapped), "spec": panel, "columns": MOST_COLUMNS, **loose, "spacing": 14}
    sides: dict[str, Any] = {}
    if len(columns) > 1:
        sides["column"] = alt.Column("column:N", sort=columns, header=alt.Header(**header))
    if len(rows) > 1:
        lines: dict[str, Any] = {"labelAngle": 0, "labelAlign": "right"}
        sides["row"] = alt.Row("row:N", sort=rows, header=alt.Header(**header, **lines, labelOrient="right"))
    if not sides:
        return {**panel, **head}
    by = {side: _described(channel) for side, channel in sides.items()}
    return {**head, "facet": by, "spec": panel, **loose, "spacing": {"row": 14, "column": 14}}


def _described(part: Chart) -> dict[str, Any]:
    """Return the description of a layer or channel, as it stands inside that of a chart."""
    described: dict[str, Any] = part.to_dict(validate=False, context={"top_level": False, "data": "rows"})
    return described


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as plain dictionaries, missing values as None, numbers with as many digits as can be seen."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(key): _rounded(value) for key, value in row.items()} for row in plain.to_dict("records")]


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def tip(column: str, title: str, form: str | Amount | None = None) -> dict[str, Any]:
    """Return one line of a mark's tooltip: the column, what it is called, and how numbers are written.

    `form` is in the language of d3-format, or the axis whose labels a value is written like; None for a text.
    """
    if isinstance(form, Amount):
        return {"field": f"{column}_text", "title": title, "type": "nominal", "from": form.expression(column)}
    kind = {"type": "nominal"} if form is None else {"type": "quantitative", "format": form}
    return {"field": column, "title": title, **kind}


def colour(algorithms: list[str], *, explained: bool = True, **legend: Any) -> alt.Color:
    """Return the colour channel for algorithms; with_palette makes it the same in all charts of a report."""
    key = alt.Legend(symbolOpacity=1, title=None, **legend) if explained else None
    return alt.Color("algorithm:N", scale=_scale("color", algorithms), legend=key)


def share(column: str, title: str | None, **options: Any) -> alt.Y:
    """Return an upright axis of fractions, written in percent."""
    return alt.Y(f"{column}:Q", title=title, axis=alt.Axis(format="%", tickCount=5), **options)


def dash(algorithms: list[str]) -> alt.StrokeDash:
    """Return the dash channel for algorithms: solid for as many as there are colours, then other dashes."""
    return alt.StrokeDash("algorithm:N", scale=_scale("strokeDash", algorithms), title=None)


def shape(algorithms: list[str], *, explained: bool = True) -> alt.Shape:
    """Return the shape channel for algorithms, which distinguishes them in black and white too."""
    scale = _scale("shape", algorithms)
    return alt.Shape("algorithm:N", scale=scale, title=None, legend=alt.Undefined if explained else None)


def _scale(channel: str, algorithms: list[str]) -> alt.Scale:
    return alt.Scale(domain=algorithms, range=Palette(tuple(algorithms)).range(channel, algorithms))


def finished(
    chart: Chart | dict[str, Any],
    rows: pd.DataFrame,
    title: str,
    subtitle: str,
    tips: Sequence[dict[str, Any]] = (),
    says: str = "",
    choices: Sequence[str] = ("",),
) -> dict[str, Any]:
    """Return the chart's Vega-Lite description, with its rows, title and the common look.

    Of the rows' columns only those stay that the chart uses. `tips` (see tip) are kept under `usermeta`, for the page.
    The description for readers who do not see the drawing is the title, the subtitle and `says`, what it shows. Where
    there are several `choices`, values of the rows' column `condition`, the first is drawn, and the page offers all.
    """
    spec: dict[str, Any] = chart if isinstance(chart, dict) else chart.to_dict(validate=False)
    note = ". ".join(filter(None, (subtitle + rows.attrs.get("left_out", ""), alike(spec, rows), _own_scales(spec))))
    where = f"At {choices[0]}. " if choices[0] else ""
    spec["title"] = {
        "text": title, "subtitle": where + note, "anchor": "start", "fontSize": 14, "color": INK,
        "subtitleColor": SOFT, "offset": 10,
    }  # fmt: skip
    spec |= {"background": "white", "config": LOOK}
    spec["description"] = ". ".join(part for part in (title, where + note, says) if part)
    spec["usermeta"] = {"tips": [*_place(rows), *tips], "note": note, "choices": [*choices]}
    if choices[0]:
        chosen = {"filter": {"field": "condition", "equal": choices[0]}}
        spec["transform"] = [chosen, *spec.get("transform", [])]
    text = json.dumps(spec)
    used = [name for name in rows.columns if f'"{name}"' in text or f"datum.{name}" in text or name in PANEL]
    # added last, because Altair would check and copy every row
    return {**spec, "datasets": {"rows": records(rows[used])}}


def units(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of single marks inside a layered or faceted one."""
    if "spec" in spec:
        yield from units(spec["spec"])
    elif "layer" in spec:
        for layer in spec["layer"]:
            yield from units(layer)
    else:
        yield spec


def alike(spec: dict[str, Any], rows: pd.DataFrame) -> str:
    """Return "Identical: FedAvg = FedProx (latency 1 s)": algorithms whose lines cover each other; "" without any."""
    line = next((unit["encoding"] for unit in units(spec) if unit["mark"]["type"] == "line"), dict[str, Any]())
    if "algorithm" not in rows or line.get("color", {}).get("field") != "algorithm":
        return ""
    x, y = (line[side]["field"] for side in ("x", "y"))
    panels = [name for name in PANEL if rows[name].nunique() > 1 and not rows[name].equals(rows["algorithm"])]
    known, same = rows.dropna(subset=y), dict[str, list[str]]()
    groups = known.groupby(panels, sort=False) if panels else [((), known)]
    for place, panel in groups:
        lines: dict[tuple[Any, ...], list[str]] = {}
        for name, curve in panel.groupby("algorithm", sort=False):
            lines.setdefault(tuple(map(_rounded, [*curve[x], *curve[y]])), []).append(str(name))
        for names in lines.values():
            if len(names) > 1:
                same.setdefault(" = ".join(names), []).append(", ".join(filter(None, map(str, place))))
    names_at = []
    for names_alike, where in same.items():
        places = "; ".join(where) if len(where) < 3 else f"in {len(where)} of {len(groups)} panels"
        names_at.append(names_alike if len(where) == len(groups) else f"{names_alike} ({places})")
    return f"Identical: {', '.join(names_at)}" if names_at else ""


def _own_scales(spec: dict[str, Any]) -> str:
    """Return the sentence that panels cannot be compared by length, where each has a scale of its own."""
    scales = spec.get("resolve", {}).get("scale", {}) if "facet" in spec else {}
    own = [side for side in ("x", "y") if scales.get(side) == "independent"]
    kinds = {side: {unit["encoding"].get(side, {}).get("type") for unit in units(spec)} for side in own}
    sides = [side for side in own if "quantitative" in kinds[side]]
    return f"Every panel has its own {' and '.join(sides)} axis" if sides else ""


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


def _panel_order(labels: pd.Series) -> list[str]:
    """Return the panels by the value of their axis: "latency 10 ms" before "latency 1 s"; names stay as they come."""
    # a comma inside "lognormal(50 ms, 0.5)", "[1, 2]" or "kind=kept, request=push" parts nothing
    apart = re.compile(r", (?=[^\s=]+ )(?![^(]*\)|[^[]*\])")
    split = {str(label): [part.split(" ", 1)[-1] for part in apart.split(str(label))] for label in labels.unique()}
    if len({*map(len, split.values())}) > 1:  # a value has such a comma in it
        split = {label: [label] for label in split}
    parts = [dict.fromkeys(values) for values in zip(*split.values(), strict=True)]
    lines = [ordered(values) if any(re.search(r"\d", value) for value in values) else [*values] for values in parts]
    places = [{value: i for i, value in enumerate(line)} for line in lines]
    return sorted(split, key=lambda label: [place[v] for place, v in zip(places, split[label], strict=True)])
