"""What the user can mend, as opposed to a fault of the program."""

from collections.abc import Sequence
from dataclasses import dataclass


class UserError(Exception):
    """A mistake of the user; its message names the place, what is wrong there and the mend."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: the scenario's key ("protocol.wait"; "" for the whole), what is wrong and the mend."""

    key: str
    message: str

    def __str__(self) -> str:
        """Return "key: message"."""
        return f"{self.key}: {self.message}" if self.key else self.message


class ScenarioError(UserError):
    """Several problems at once, each tied to a key, so that whoever knows the file can name the line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems; they are the exception's only argument, so that it pickles."""
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """Return a line a problem."""
        return "\n".join(map(str, self.problems))
