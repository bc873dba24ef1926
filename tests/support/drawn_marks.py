"""What a chart shows: its marks as Vega draws them, each with its panel and what it says, from the scene itself.

A mark says the values that it was drawn at, "AM: 42.1%; algorithm: POWER", which Vega writes for screen readers. Of a
line that is only its first row; so lines are read from the page's description, which has a point at each of their rows.
"""

import re
from dataclasses import dataclass

import vl_convert

UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "B": 1.0, "kB": 1e3}
UNITS |= {"%": 0.01, "MB": 1e6, "GB": 1e9, "bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}


@dataclass(frozen=True)
class Mark:
    """One mark: its kind (symbol, rect, rule, text), its panel, its values by their titles, and the text that it is.

    `panel` are the labels above and beside it. Numbers are in SI units and fractions, other values texts.
    """

    kind: str
    panel: tuple[str, ...]
    says: dict[str, float | str]
    filled: bool
    text: str


def marks(spec):
    """The marks of a chart's description, in the order in which they are drawn."""
    root = vl_convert.vegalite_to_scenegraph(spec)["scenegraph"]["items"][0]
    cells = next((group["items"] for group in root["items"] if group.get("name") == "cell"), None)
    if cells is None:
        return [*_marks(root, ())]
    sides = {side: _headers(root, side) for side in ("column", "row")}
    found = []
    for cell in cells:
        labels = [sides["column"].get(cell["x"]), sides["row"].get(cell["y"])]
        found += _marks(cell, tuple(line for label in labels if label for line in label.split("\n")))
    return found


def shown(chart):
    """The description that the page draws (see choosing.interactive), as a chart by itself."""
    rows = [dict(zip(chart["table"]["columns"], row, strict=True)) for row in chart["table"]["rows"]]
    own = {key: value for key, value in chart.items() if key != "table"}
    return own | {"datasets": {"rows": rows}, "config": own["config"] | {"mark": {"aria": True}}}


def _headers(root, side):
    """The labels of the panels' columns or rows, by where they stand."""
    place = {"column": "x", "row": "y"}[side]
    ends = [group for group in root["items"] if group.get("name") in (f"{side}_header", f"{side}_footer")]
    return {item[place]: "\n".join(_titles(item)) for group in ends for item in group["items"] if [*_titles(item)]}


def _titles(item):
    """The texts of the titles in a part of the scene, line by line."""
    for inner in item.get("items", []):
        if inner.get("role") == "title-text":
            yield from (line for one in inner["items"] for line in [one["text"]] if isinstance(line, str))
            yield from (line for one in inner["items"] if isinstance(one["text"], list) for line in one["text"])
        elif inner.get("role") != "axis":
            yield from _titles(inner)


def _marks(group, panel):
    for inner in group["items"]:
        if inner.get("role") == "mark" and inner["marktype"] not in ("group", "line", "area"):
            for item in inner["items"]:
                filled = item.get("fill", "transparent") != "transparent"
                yield Mark(inner["marktype"], panel, _said(item.get("description", "")), filled, item.get("text", ""))
        elif inner["marktype"] == "group" and inner.get("role") in ("mark", "scope"):
            for item in inner["items"]:
                yield from _marks(item, panel)


def _said(description):
    pairs = [part.partition(": ")[::2] for part in description.split("; ") if ": " in part]
    return dict(_value(title, value) for title, value in pairs)


def _value(title, value):
    """A title without its unit, and the value in SI units: of "rate (Mbit/s): 3", "AM: 42.1%" and "time: 25.1 s"."""
    own = re.fullmatch(r"([-\u2212]?[\d.,]+(?:e[-+]?\d+)?)(%| (?:[\w/µ]+))?", str(value))
    unit = re.search(r" \(([^)]*)\)$", title)
    title = title.removesuffix(unit[0]) if unit and unit[1] in UNITS else title
    if own is None:
        return title, value
    scale = UNITS.get((own[2] or "").strip() or (unit[1] if unit else ""), 1.0)
    return title, float(own[1].replace("\u2212", "-").replace(",", "")) * scale
