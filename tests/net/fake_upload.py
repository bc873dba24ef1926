"""An upload that notes when it is asked for, for tests of what stands around one."""

from dataclasses import dataclass
from typing import Any

from fedsim.net import wire


@dataclass
class Work:
    """A promise of a known upload."""

    upload: Any
    like: Any = None
    asked: int = 0
    cancelled: bool = False

    @property
    def nbytes(self):
        return wire.size(self.upload)

    def value(self):
        self.asked += 1
        return self.upload

    def memory(self):
        return {"own": self.asked}

    def cancel(self):
        self.cancelled = True
