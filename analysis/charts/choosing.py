"""Interaction with a chart on the page: tooltips, selection by the legend, and the choice of a condition.

A click on a legend's entry leaves only that entry; further clicks add or remove entries. The parameter `shown_FIELD` of
each chart, a list or null for all, says which values of a field it shows; the page's script sets it in every chart that
has the field, so that an algorithm selected in one is selected in all.

Figures for papers are made from the description without any of this.
"""

import copy
from typing import Any

from analysis.charts.panels import MEANS, units

Spec = dict[str, Any]
ELSEWHERE = ("$schema", "datasets", "usermeta", "title")
CHOSEN = "chosen"  # the selection that a legend is bound to; the page's script listens to its store


def interactive(spec: Spec) -> Spec:
    """Return a chart's description (see panels.finished) with tooltips and what is needed to choose.

    `usermeta` says the field of the `legend`, the fields that can be `shown` alone, the `choices` of `condition`, and
    what a row `tells`: field, title and format.

    The page puts the title into its caption and has its own background. The rows move from `datasets` to `table`,
    {"columns": names, "rows": lists of values}, which is half as long.
    """
    chart = copy.deepcopy({key: value for key, value in spec.items() if key not in ELSEWHERE}) | {"background": None}
    chart["config"] = chart["config"] | {"mark": {"aria": False}}  # a chart's data are a table, which can be read
    rows = spec["datasets"]["rows"]
    columns = list(rows[0]) if rows else []
    tips = spec["usermeta"]["tips"]
    tells = [{key: value for key, value in tip.items() if key != "from"} for tip in tips]
    _add_tooltips(chart, tells)
    written = [{"calculate": tip["from"], "as": tip["field"]} for tip in tips if "from" in tip]
    legend = _legend(chart)
    choices = spec["usermeta"]["choices"]
    fields = list(dict.fromkeys(name for name in ("algorithm", legend) if name in columns))
    fields += ["condition"] if choices[0] else []
    if choices[0]:
        del chart["transform"][0]  # which leaves the first choice only
    first = {"condition": choices[:1]}
    params = [{"name": f"shown_{name}", "value": first.get(name)} for name in fields]
    chart["params"] = [*chart.get("params", []), *params]
    shown = [{"filter": f"shown_{name} == null || indexof(shown_{name}, datum.{name}) >= 0"} for name in fields]
    chart["transform"] = [*shown, *written, *chart.get("transform", [])]
    table = {"columns": columns, "rows": [list(row.values()) for row in rows]}
    meta = {"legend": legend, "shown": fields, "choices": choices, "tells": tells}
    return {**chart, "table": table, "usermeta": meta}


def _legend(spec: Spec) -> str:
    """Bind the first legend of colours to a selection and return its field; "" if there is none."""
    for unit in units(spec):
        tint = unit.get("encoding", {}).get("color", {})
        if tint.get("field") and tint.get("legend", {}) is not None:
            select = {"type": "point", "fields": [tint["field"]], "toggle": "true"}
            unit["params"] = [{"name": CHOSEN, "select": select, "bind": "legend"}]
            return str(tint["field"])
    return ""


def _add_tooltips(spec: Spec, shown: list[Spec]) -> None:
    """Give marks their tooltips.

    A line would only show its first row, so it gets invisible points, unless it has visible ones already.
    """
    marks = list(units(spec))
    for unit in marks:
        if unit["mark"]["type"] in ("point", "bar", "rect"):
            unit.setdefault("encoding", {})["tooltip"] = shown
    means = [{"filter": MEANS}]
    lines = [unit for unit in marks if unit["mark"]["type"] == "line"]
    if lines and not any(unit["mark"]["type"] == "point" and unit.get("transform", means) == means for unit in marks):
        mark = {"type": "point", "filled": True, "size": 70, "opacity": 0}
        encoding = {name: lines[0]["encoding"][name] for name in ("x", "y", "color") if name in lines[0]["encoding"]}
        spec.get("spec", spec)["layer"].append({"mark": mark, "encoding": {**encoding, "tooltip": shown}})
