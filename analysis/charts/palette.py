"""The colours of charts: one look per algorithm in a whole report, a second palette for the rest, and dark variants.

An algorithm's colour, dash and shape follow from its place among all algorithms of a report, not among those of a
single chart: charts name their algorithms, and `with_palette` assigns the looks. Other categories, such as directions
and fates, have colours that no algorithm has.

Not modelled: more than fifty algorithms, whose looks repeat.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Okabe and Ito's colours, distinct under every common colour blindness; without yellow, which is faint on white. The
# last three, for sweeps of eight to ten algorithms, are apart from those in lightness or hue, less so from one another.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333", "#882255", "#999933", "#7B68EE"]
# for other categories: muted, and distinct in lightness for colour-blind readers
CATEGORIES = ["#66778C", "#C3CEDB", "#D2B84F", "#BD5A68", "#4F3B2C", "#8DB29A", "#F2DDD2", "#4A3B5C"]
SLATE, MIST, SAND, ROSE, UMBER, SAGE, _, PLUM = CATEGORIES
DASHES = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [12, 3]]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right"]
STAR = "M0,.5L.6,.8L.5,.1L1,-.3L.3,-.4L0,-1L-.3,-.4L-1,-.3L-.5,.1L-.6,.8Z"
SHAPES += ["triangle-left", STAR, "M-1,-1L1,-1L-1,1L1,1Z"]  # the last is an hourglass

INK, SOFT, TICK, RULE = "#1d2733", "#555f6b", "#8a929b", "#76808b"
FRAME, GRID, ABSENT = "#cbd0d6", "#e6e9ed", "#eeeeef"
ON_LIGHT, ON_DARK = "#1a1a1a", "white"  # text on coloured cells, which are the same in the dark
DARK = {  # replacements on a dark page for colours that would be too dark or too light there
    INK: "#e3e7ec", SOFT: "#aab3bd", TICK: "#7d8792", RULE: "#97a1ac", FRAME: "#475059", GRID: "#2b323a",
    ABSENT: "#2b323a", "#0072B2": "#3C92D6", "#D55E00": "#E06A10", "#56B4E9": "#8ECBF2", "#333333": "#D5DAE0",
    "#882255": "#B8457F", "#7B68EE": "#8A78F5", UMBER: "#9C7F68", PLUM: "#8E7CA8",
}  # fmt: skip


@dataclass(frozen=True)
class Palette:
    """Which algorithm has which look: by its place among all of a report's."""

    algorithms: tuple[str, ...]

    def range(self, channel: str, names: Sequence[str]) -> list[Any]:
        """Return the looks of some algorithms on a channel: color, strokeDash or shape.

        When the colours run out, they repeat with another dash and shape.
        """
        places = [self.algorithms.index(name) for name in names]
        rounds = [place // len(PALETTE) for place in places]
        if channel == "color":
            return [PALETTE[place % len(PALETTE)] for place in places]
        if channel == "strokeDash":
            return [DASHES[once % len(DASHES)] for once in rounds]
        return [SHAPES[(place + once) % len(SHAPES)] for place, once in zip(places, rounds, strict=True)]


def with_palette(spec: dict[str, Any], palette: Palette) -> dict[str, Any]:
    """Return a chart's description in which every algorithm looks the same as in all other charts."""
    described = copy.deepcopy({key: value for key, value in spec.items() if key != "datasets"})
    for channel, encoded in _channels(described):
        if encoded.get("field") == "algorithm" and "domain" in (encoded.get("scale") or {}):
            encoded["scale"]["range"] = palette.range(channel, encoded["scale"]["domain"])
    return {**described, "datasets": spec["datasets"]}


def dark_rules(of: str) -> str:
    """Return the CSS that replaces the colours of drawings inside elements `of` by their dark variants."""
    rules = [f'{of} [{kind}="{light}"] {{ {kind}: {dark}; }}' for light, dark in DARK.items() for kind in PAINT]
    return "\n".join(rules)


PAINT = ("fill", "stroke")


def _channels(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the channels of algorithms' looks anywhere inside a description."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        if name in ("color", "strokeDash", "shape") and isinstance(one, dict):
            yield name, one
        yield from _channels(one)
