"""The parts of a report on who is served: indices, distributions over the clients, and how stale uploads were."""

from analysis import sections, served_figures
from analysis.material import Material
from analysis.page import paragraph
from analysis.sheet import part

NOTE = "Clients in order; a straight line from corner to corner is an even distribution of uploads."


def served_parts(m: Material) -> list[str]:
    """Return the parts, "" for one with nothing to say."""
    found = [sections.served(m.means, m.axes)]
    drawings = []
    for what in served_figures.CURVES:
        frame = served_figures.curves(m.kept.among, what, m.by)
        if frame.empty or frame["value"].nunique() < 2:
            continue
        m.save(f"clients_{what}", frame)
        drawings.append(m.drawn(f"clients_{what}", served_figures.drawn(frame, what, m.axes, m.score)))
    if drawings:
        found.append(part("clients", "From client to client", *drawings, paragraph(NOTE, "note")))
    stale = served_figures.staleness(m.kept.among, m.by)
    if len(stale):
        m.save("staleness", stale)
    return [*found, served_figures.staleness_part(stale, m.axes)]
