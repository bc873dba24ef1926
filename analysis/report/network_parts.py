"""The parts of a report on the network and on computing: where bytes go, and what limits a round."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis.axes import conditions
from analysis.measures import compute_time, link_use, one_update, partition_figures, tables, waiting
from analysis.read.stored import read
from analysis.report import sections
from analysis.report.page import note, paragraph
from analysis.report.report_context import ReportContext
from analysis.report.sheet import part


def bytes_moved(m: ReportContext) -> str:
    """Return bytes by direction, step and outcome, and what was wasted."""
    booked = m.kept.booked
    m.save("bytes_by_client", m.kept.clients)
    steps = tables.wire_bytes(booked, m.points, m.by, "kind")
    m.save("bytes_by_step", steps)
    if steps.empty:
        m.save("bytes_by_direction", tables.wire_bytes(booked, m.points, m.by, "direction"))
        return paragraph("No message was sent.")
    parts = [by_direction(m)] if "bytes_by_direction" not in m.charts else []
    if steps["kind"].nunique() > 1:
        parts.append(m.stacked("bytes_by_step", steps, "kind"))
    parts.append(by_fate(m))
    wasted = tables.wasted_bytes(booked, m.points, m.by)
    m.save("bytes_wasted", wasted)
    return "".join([*parts, sections.wasted(wasted, m.axes)])


def by_direction(m: ReportContext) -> str:
    """Return the chart of bytes up, down and between peers."""
    directions = tables.wire_bytes(m.kept.booked, m.points, m.by, "direction")
    m.save("bytes_by_direction", directions)
    return m.stacked("bytes_by_direction", directions, "direction") if len(directions) else ""


def by_fate(m: ReportContext) -> str:
    """Return the chart of what became of the bytes of each step."""
    frame = tables.by_fate(m.kept.booked, m.points, m.by)
    m.save("bytes_by_fate", frame)
    return m.stacked("bytes_by_fate", frame.rename(columns={"kind": "step"}), "fate", ["step"])


def limits(m: ReportContext) -> list[str]:
    """Return what a round waits for: the slowest reply, the server's links, computing, and what is lost."""
    lost = sections.losses(m.means, m.axes) if m.updated else ""
    parts = [timeline(m), waiting_part(m), link_use_part(m), computing(m), transfer_times(m), lost]
    return [] if parts == [lost] and not lost else parts


def timeline(m: ReportContext) -> str:
    """Return the part on one update of one run; "" if none folded anything."""

    def stretches(run: str) -> pd.DataFrame:
        folder = m.runs.folders[run]
        transfers = read(folder, "transfers", ["sent", "arrived", "src", "dst", "fate"], ["fate"])
        updates = read(folder, "updates", ["time", "version", "folded"])
        return one_update.one_update(transfers, read(folder, "spans"), updates)

    runs = conditions(m.one_run_each()[0], m.by)
    return _of_each(m, "timeline", "timeline", *runs, stretches, one_update.timeline)


def waiting_part(m: ReportContext) -> str:
    """Return how long replies wait for the slowest; "" if no update had two replies."""
    frame = waiting.waiting(m.points, m.kept.waits, m.by)
    return _part_of(m, "waiting", frame, waiting.waited, waiting.waiting_section)


def link_use_part(m: ReportContext) -> str:
    """Return the part on the server's links; "" if no message passed them."""

    def use(run: str) -> pd.DataFrame:
        folder = m.runs.folders[run]
        transfers = read(folder, "transfers", ["sent", "arrived", "src", "dst", "wire_bytes"])
        return link_use.link_use(transfers, read(folder, "updates", ["time"]), m.runs.resolved[run])

    return _of_each(m, "links", "link_use", *m.one_run_each(), use, link_use.used)


def _of_each(
    m: ReportContext, name: str, figure: str, points: pd.DataFrame, named: list[str],
    of: Callable[[str], pd.DataFrame], chart: Callable[[pd.DataFrame, list[str], str], dict[str, Any]],
) -> str:  # fmt: skip
    """Return a part with a chart of what `of` has of each point, saved as `figure`; "" if that is nothing."""
    where = [*m.by, "condition"]
    frames = [of(str(row["run"])).assign(**row[where]) for _, row in points.iterrows()]
    frame = pd.concat(filter(len, frames) if any(map(len, frames)) else frames, ignore_index=True)
    if frame.empty:
        return ""
    frame = frame[[*where, *frame.columns.difference(where, sort=False)]]
    m.save(figure, frame.drop(columns="condition"))
    there = [each for each in named if each in {*frame["condition"]}]
    return part(name, "", m.drawn(figure, chart(frame, there, m.clock)), paragraph(note(name), "note"))


def partitions(m: ReportContext) -> str:
    """Return the part on partitions of snapshots; "" if there are none."""
    frame = partition_figures.partitions(m.kept.partitions, m.by)
    return _part_of(m, "partitions", frame, partition_figures.divided, partition_figures.partitions_section)


def _part_of(
    m: ReportContext,
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


def transfer_times(m: ReportContext) -> str:
    """Return the part on how long messages took; "" if there are scores, or if no message was delivered."""
    times = m.kept.times
    m.save("transfer_times", times)
    return "" if m.scored or times.empty else sections.transfer_times(times, m.axes)


def computing(m: ReportContext) -> str:
    """Return the part on computing; "" if there was no computing."""
    frame = compute_time.compute_times(m.points, m.kept.computing, m.axes)
    if frame.empty:
        return ""
    m.save("compute_time", frame)
    return sections.compute_time(frame, m.axes)
