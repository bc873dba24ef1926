"""A cell of the reference table: one run, and its name as text."""

from dataclasses import dataclass, fields
from typing import Any, Self

from fedsim.core.errors import UserError

GIVEN, HALVED = "given", "halved"  # the rates of all clients' links
Key = tuple[str, str, str]  # a setting: deployment, data, task


@dataclass(frozen=True)
class Cell:
    """One run.  Its text is `campus/digits/static/power/sync/given/3`."""

    deployment: str
    data: str
    task: str
    method: str
    protocol: str
    links: str
    seed: int

    @property
    def setting(self) -> Key:
        """What it is compared within."""
        return self.deployment, self.data, self.task

    @property
    def row(self) -> dict[str, Any]:
        """Its fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        """Return its name."""
        return "/".join(map(str, self.row.values()))

    def within(self, name: str) -> bool:
        """Return whether a name, or the first steps of one, means this cell."""
        return f"{self}/".startswith(f"{name.rstrip('/')}/")

    @classmethod
    def of(cls, name: str) -> Self:
        """Return the cell of a name.  Raises UserError if it is not one."""
        *steps, seed = name.split("/")
        if len(steps) != len(fields(cls)) - 1 or not seed.isdecimal():
            form = "/".join(field.name.upper() for field in fields(cls))
            raise UserError(f"{name!r} is not a cell; write {form}, as in campus/digits/static/power/sync/given/3")
        deployment, data, task, method, protocol, links = steps
        return cls(deployment, data, task, method, protocol, links, int(seed))
