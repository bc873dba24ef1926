"""For how long this process has been running: what starting it took, seen from within.

Linux tells when a process began, in ticks since the machine was started.  Not modelled: other systems, which are not
asked.
"""

import math
import os
import time
from pathlib import Path

STAT, BEGAN = Path("/proc/self/stat"), 19  # place of the beginning among the fields after the name (proc(5): field 22)


def uptime() -> float:
    """Return the seconds since this process began, NaN if the system does not tell."""
    try:
        fields = STAT.read_text("utf-8", "replace").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[BEGAN]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return math.nan
