"""An upload that notes when it is asked for, for tests of what stands around one."""

from dataclasses import dataclass
from typing import Any

from fedsim.core import wire


@dataclass
class Work:
    """A promise of a known upload; its size is declared where there is something like it."""

    upload: Any
    like: Any = None
    asked: int = 0
    cancelled: bool = False
    job: Any = None

    @property
    def declared(self):
        return None if self.like is None else wire.size(self.like)

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


@dataclass
class Works:
    """A backend whose jobs bring these uploads, one after the other."""

    works: list[Work]
    submitted: int = 0

    def submit(self, job):
        work = self.works[self.submitted]
        work.job, self.submitted = job, self.submitted + 1
        return work

    def flops(self, job):
        return 1.0
