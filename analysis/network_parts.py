"""The parts of a report on the network and on computing: where bytes go, and what limits a round."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis import compute_time, fates, link_use, one_update, partition_figures, sections, tables, waiting
from analysis.costs_section import costs_section
from analysis.material import Material
from analysis.page import paragraph
from analysis.privacy_section import privacy_section
from analysis.sheet import part
from analysis.verdict import conditions


def privacy_part(m: Material) -> str:
    """Return the cost of privacy; "" if no run uses any."""
    return privacy_section(m.points, m.axes, m.score, m)


def costs_part(m: Material) -> str:
    """Return energy, carbon and money; "" if no run was priced."""
    return costs_section(m.points, m.kept.curves, m.runs.folders, m.axes, m.score, m.target, m)


def bytes_moved(m: Material) -> str:
    """Return bytes by direction, step and outcome, and what was wasted."""
    booked = m.kept.booked
    m.save("bytes_by_client", m.kept.clients)
    steps = tables.step_bytes(booked, m.points, m.by)
    m.save("bytes_by_step", steps)
    if steps.empty:
        m.save("bytes_by_direction", tables.direction_bytes(booked, m.points, m.by))
        return paragraph("No message was sent.")
    parts = [by_direction(m)] if "bytes_by_direction" not in m.charts else []
    if steps["kind"].nunique() > 1:
        parts += [m.stacked("bytes_by_step", steps, "kind"), by_fate(m)]
    else:
        parts.append(by_fate(m))
    wasted = tables.wasted_bytes(booked, m.points, m.by)
    m.save("bytes_wasted", wasted)
    return "".join([*parts, sections.wasted(wasted, m.axes)])


def by_direction(m: Material) -> str:
    """Return the chart of bytes up, down and between peers."""
    directions = tables.direction_bytes(m.kept.booked, m.points, m.by)
    m.save("bytes_by_direction", directions)
    return m.stacked("bytes_by_direction", directions, "direction") if len(directions) else ""


def by_fate(m: Material) -> str:
    """Return the chart of what became of the bytes of each step."""
    frame = fates.by_fate(m.kept.booked, m.points, m.by)
    m.save("bytes_by_fate", frame)
    return m.stacked("bytes_by_fate", frame.rename(columns={"kind": "step"}), "fate", ["step"])


def limits(m: Material) -> list[str]:
    """Return what a round waits for: the slowest reply, the server's links, computing, and what is lost."""
    lost = sections.losses(m.means, m.axes) if m.updated else ""
    parts = [timeline(m), waiting_part(m), link_use_part(m), computing(m), transfer_times(m), lost]
    return [] if parts == [lost] and not lost else parts


def timeline(m: Material) -> str:
    """Return the part on one update of one run; "" if none folded anything."""
    points, named = conditions(m.one_run_each()[0], m.by)
    transfers, spans, updates = map(m.runs.split, ("transfers", "spans", "updates"))
    frame, named = _of_each(
        m, points, named, lambda point: one_update.one_update(transfers[point], spans[point], updates[point])
    )
    if frame.empty:
        return ""
    m.save("timeline", frame.drop(columns="condition"))
    drawing = m.drawn("timeline", one_update.timeline(frame, named))
    return part("timeline", "", drawing, paragraph(one_update.NOTE, "note"))


def waiting_part(m: Material) -> str:
    """Return how long replies wait for the slowest; "" if no update had two replies."""
    frame = waiting.waiting(m.points, m.kept.waits, m.by)
    return _part_of(m, "waiting", frame, waiting.waited, waiting.waiting_section)


def link_use_part(m: Material) -> str:
    """Return the part on the server's links; "" if no message passed them."""
    points, named = m.one_run_each()
    transfers, updates = map(m.runs.split, ("transfers", "updates"))
    frame, named = _of_each(
        m,
        points,
        named,
        lambda point: link_use.link_use(transfers[point], updates[point], m.runs.resolved[point]),
    )
    if frame.empty:
        return ""
    m.save("link_use", frame.drop(columns="condition"))
    note = "The bytes of each transfer are spread evenly from its start to its end. Full table: tables/link_use.csv."
    drawing = m.drawn("link_use", link_use.used(frame, named))
    return part("links", "", drawing, paragraph(note, "note"))


def _of_each(
    m: Material, points: pd.DataFrame, named: list[str], of: Callable[[str], pd.DataFrame]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that `of` has of each point, with where they were run, and those of the conditions with any."""
    where = [*m.by, "condition"]
    frames = [of(str(row["point"])).assign(**row[where]) for _, row in points.iterrows()]
    frame = pd.concat(filter(len, frames) if any(map(len, frames)) else frames, ignore_index=True)
    there = {*frame["condition"]}
    return frame[[*where, *frame.columns.difference(where, sort=False)]], [name for name in named if name in there]


def partitions(m: Material) -> str:
    """Return the part on partitions of snapshots; "" if there are none."""
    frame = partition_figures.partitions(m.kept.partitions, m.by)
    return _part_of(m, "partitions", frame, partition_figures.divided, partition_figures.partitions_section)


def _part_of(
    m: Material,
    name: str,
    frame: pd.DataFrame,
    chart: Callable[[pd.DataFrame, list[str]], dict[str, Any]],
    tell: Callable[[pd.DataFrame, list[str], str], str],
) -> str:
    """Return the part on a frame, with a chart of it; "" if it is empty."""
    if frame.empty:
        return ""
    m.save(name, frame)
    return tell(frame, m.axes, m.drawn(name, chart(frame, m.axes)))


def transfer_times(m: Material) -> str:
    """Return the part on how long messages took; "" if there are scores, or if no message was delivered."""
    times = m.kept.times
    m.save("transfer_times", times)
    return "" if m.scored or times.empty else sections.transfer_times(times, m.axes)


def computing(m: Material) -> str:
    """Return the part on computing; "" if there was no computing."""
    frame = compute_time.compute_times(m.points, m.kept.computing, m.axes)
    if frame.empty:
        return ""
    m.save("compute_time", frame)
    return sections.compute_time(frame, m.axes)
