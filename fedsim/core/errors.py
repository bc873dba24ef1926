"""Errors that the user can correct, as opposed to faults of the program."""

from collections.abc import Sequence
from dataclasses import dataclass


class UserError(Exception):
    """A mistake of the user; its message names the place, the mistake and the remedy."""


class UnknownSizeError(UserError):
    """What an estimate cannot say: the size of a message that is known only after training."""


@dataclass(frozen=True)
class Problem:
    """One mistake in a scenario: its key ("protocol.wait"; "" for the whole), and a message with the remedy."""

    key: str
    message: str

    def __str__(self) -> str:
        """Return "key: message"."""
        return f"{self.key}: {self.message}" if self.key else self.message


class ScenarioError(UserError):
    """Several problems at once, each tied to a key, so that the file's reader can add the lines."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Store the problems as the exception's only argument, so that it can be pickled."""
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """Return one line per problem."""
        return "\n".join(map(str, self.problems))
