"""The timeline of a point as `trace.json.gz` in its folder; see analysis/timeline/."""

from dataclasses import dataclass

from analysis.logger import Finished, Logger
from analysis.timeline.write import NAME, write


@dataclass(frozen=True)
class Timeline(Logger):
    """Writes the timeline; always beside the point's tables."""

    def logged(self, point: Finished) -> bool:
        """Return whether there is a timeline."""
        return (point.folder / NAME).is_file()

    def log(self, point: Finished) -> None:
        """Write the timeline."""
        write(point.folder)
