"""Interaction with a chart on the page: tooltips, and selection by the legend.

A click on a legend's entry leaves only that entry; further clicks add or remove entries. The parameter `shown_FIELD` of
each chart, a list or null for all, says which values of a field it shows; the page's script sets it in every chart that
has the field, so that an algorithm selected in one is selected in all.

Figures for papers are made from the description without any of this.
"""

import copy
from collections.abc import Iterator
from typing import Any

Spec = dict[str, Any]
ELSEWHERE = ("$schema", "datasets", "usermeta", "title")
CHOSEN = "chosen"  # the selection that a legend is bound to; the page's script listens to its store


def interactive(spec: Spec) -> Spec:
    """Return a chart's description (see panels.finished) with tooltips and what is needed to choose.

    The page puts the title into its caption and has its own background. The rows move from `datasets` to `table`,
    {"columns": names, "rows": lists of values}, which is half as long.
    """
    chart = copy.deepcopy({key: value for key, value in spec.items() if key not in ELSEWHERE}) | {"background": None}
    rows = spec["datasets"]["rows"]
    columns = list(rows[0]) if rows else []
    written = _with_tooltips(chart, spec["usermeta"]["tips"])
    legend = _legend(chart)
    fields = list(dict.fromkeys(name for name in ("algorithm", legend) if name in columns))
    chart["params"] = [*chart.get("params", []), *({"name": f"shown_{name}", "value": None} for name in fields)]
    shown = [{"filter": f"shown_{name} == null || indexof(shown_{name}, datum.{name}) >= 0"} for name in fields]
    chart["transform"] = [*shown, *written, *chart.get("transform", [])]
    table = {"columns": columns, "rows": [list(row.values()) for row in rows]}
    return {**chart, "table": table, "usermeta": {"legend": legend, "shown": fields}}


def _units(spec: Spec) -> Iterator[Spec]:
    """Yield the descriptions of single marks inside a layered or faceted one."""
    if "spec" in spec:
        yield from _units(spec["spec"])
    elif "layer" in spec:
        for layer in spec["layer"]:
            yield from _units(layer)
    else:
        yield spec


def _legend(spec: Spec) -> str:
    """Bind the first legend of colours to a selection and return its field; "" if there is none."""
    for unit in _units(spec):
        tint = unit.get("encoding", {}).get("color", {})
        if tint.get("field") and tint.get("legend", {}) is not None:
            select = {"type": "point", "fields": [tint["field"]], "toggle": "true"}
            unit["params"] = [{"name": CHOSEN, "select": select, "bind": "legend"}]
            return str(tint["field"])
    return ""


def _with_tooltips(spec: Spec, tips: list[Spec]) -> list[Spec]:
    """Give marks their tooltips, and return the transforms that write what these show.

    A line would only show its first row, so it gets invisible points, unless it has visible ones already.
    """
    shown = [{key: value for key, value in tip.items() if key != "from"} for tip in tips]
    units = list(_units(spec))
    for unit in units:
        if unit["mark"]["type"] in ("point", "bar", "rect"):
            unit.setdefault("encoding", {})["tooltip"] = shown
    lines = [unit for unit in units if unit["mark"]["type"] == "line"]
    if lines and not any(unit["mark"]["type"] == "point" and "transform" not in unit for unit in units):
        mark = {"type": "point", "filled": True, "size": 70, "opacity": 0}
        encoding = {name: lines[0]["encoding"][name] for name in ("x", "y", "color") if name in lines[0]["encoding"]}
        over = {"mark": mark, "encoding": {**encoding, "tooltip": shown}}
        spec.get("spec", spec)["layer"].append(over)
    return [{"calculate": tip["from"], "as": tip["field"]} for tip in tips if "from" in tip]
