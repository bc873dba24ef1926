"""The cohorts of a list are asked, round by round; nothing is random.

For comparisons with a run whose cohorts are known, and for schedules that are planned elsewhere.  Of a round's cohort
those are asked that are available when the round begins; if none is, the round waits for the first of them.  Not
modelled: lists of requests for protocols without rounds.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsim.clock.clients import Clients
from fedsim.clock.sampler import Cohorts, Sampler
from fedsim.core.arrays import Ints
from fedsim.core.errors import UserError
from fedsim.core.table import Column, FilePath, fault, read_lines

COLUMNS = [Column("round", whole=True, low=1), Column("client", whole=True, low=0)]


@dataclass(frozen=True)
class Listed(Sampler):
    """Rounds count from 1; the lines of a round may stand anywhere in the file."""

    file: FilePath  # with the columns round and client: one line for each client of each round
    repeat: bool = False  # whether the list starts over at its end; otherwise it must have a cohort for every round

    def __post_init__(self) -> None:
        """Read the list.  Raises UserError if it is invalid, lacks a round, or lists a client twice in one."""
        _ = self._cohorts

    def suits(self, clients: int, cohorts: Cohorts | None) -> None:
        """Raise UserError unless there is such a cohort for every round."""
        if cohorts is None:
            raise UserError(
                "a list says whom to ask in each round, and the protocol draws no cohort for a round: take sync, "
                "deadline, isolated or one_shot, or another sampler"
            )
        if cohorts.waits:
            raise UserError("the protocol's 'least' counts any clients, not those of the list: leave 'least' out")
        rounds, members, lines = self._rows
        if len(wrong := np.flatnonzero(members >= clients)):
            place = wrong[0]
            raise fault(self.file, int(lines[place]), f"client {members[place]}: there are {clients}, numbered from 0")
        seen: dict[int, int] = {}
        for number, line in zip(rounds.tolist(), lines.tolist(), strict=True):
            seen[number] = seen.get(number, 0) + 1
            if seen[number] > cohorts.most:
                message = f"round {number} has {seen[number]} clients, and the protocol asks {cohorts.most} at most"
                raise fault(self.file, line, f"{message}; remove the line, or raise the protocol's number")
        if len(self._cohorts) < cohorts.rounds and not self.repeat:
            many = f"{self.file} ends with round {len(self._cohorts)}, and the protocol has {cohorts.rounds}"
            raise UserError(f"{many}: list the others, or start over with repeat: true")

    def choose(self, free: Ints, count: int, columns: Clients, rng: np.random.Generator) -> Ints:
        """Return the free clients of the next cohort.  Raises UserError at the list's end."""
        if columns.cohorts >= len(self._cohorts) and not self.repeat:
            raise UserError(f"{self.file} has no round {columns.cohorts + 1}; list it, or start over with repeat: true")
        cohort = self._cohorts[columns.cohorts % len(self._cohorts)]
        return np.intersect1d(cohort, free, assume_unique=True)[:count]

    @cached_property
    def _rows(self) -> tuple[Ints, Ints, Ints]:
        columns, lines = read_lines(self.file, COLUMNS)
        return columns["round"], columns["client"], lines

    @cached_property
    def _cohorts(self) -> list[Ints]:
        rounds, members, lines = self._rows
        order = np.lexsort((lines, members, rounds))
        rounds, members, lines = rounds[order], members[order], lines[order]
        again = np.flatnonzero((np.diff(rounds) == 0) & (np.diff(members) == 0))
        if len(again):
            first, second = lines[again[0]], lines[again[0] + 1]
            message = f"client {members[again[0]]} is in line {first} too, in round {rounds[again[0]]}; keep one"
            raise fault(self.file, int(second), message)
        numbers, starts = np.unique(rounds, return_index=True)
        if len(gaps := np.flatnonzero(numbers != np.arange(1, len(numbers) + 1))):
            place = gaps[0]
            line = int(lines[starts[place] : starts[place + 1] if place + 1 < len(starts) else None].min())
            message = f"round {numbers[place]}, and there is no round {place + 1}: number them from 1 without gaps"
            raise fault(self.file, line, message)
        return np.split(members, starts[1:])
