"""Errors that the user can correct, as opposed to faults of the program.

Their messages quote what was given, which may be of any length: `brief` cuts it, for every message.
"""

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

LONGEST = 200  # characters of a quoted text or a word in a message
LONGEST_LINE = 10 * LONGEST
LEARNING = ("torch", "torch_geometric", "networkx", "ot", "community")  # in the extra `learn`
QUOTED = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|\S+")


class UserError(Exception):
    """A mistake of the user; its message names the place, the mistake and the remedy."""

    def __str__(self) -> str:
        """Return the message, briefly."""
        return brief(super().__str__())


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

    @classmethod
    def at(cls, key: str, message: str) -> Self:
        """Return the error of one problem."""
        return cls([Problem(key, message)])

    def __str__(self) -> str:
        """Return one line per problem."""
        return brief("\n".join(map(str, self.problems)))


def installing(extra: str) -> str:
    """Return the command that installs an extra of fedsim."""
    return f'pip install "fedgraphsim[{extra}]", or pip install -e ".[{extra}]" in a checkout'


def required(module: str, what: str, extra: str) -> Any:
    """Import and return the module of an extra.  Raises UserError, which begins with `what` needs it."""
    try:
        return import_module(module)
    except ImportError:
        raise UserError(f"{what}, which is not installed: {installing(extra)}") from None


def not_installed(error: ModuleNotFoundError) -> str:
    """Return the message for an absent package that only learning needs, "" for any other."""
    lacks = f"learning needs {error.name}, which is not installed: {installing('learn')}"
    return lacks if error.name in LEARNING else ""  # not for a module that an installed package has not


def brief(message: str) -> str:
    """Return a message with its quoted texts and words cut at 200 characters, and its lines at 2,000, in the middle."""
    lines = (QUOTED.sub(lambda found: _cut(found[0]), line) for line in message.split("\n"))
    half = LONGEST_LINE // 2
    return "\n".join(one if len(one) <= LONGEST_LINE else f"{one[:half]} ... {one[-half:]}" for one in lines)


def _cut(text: str) -> str:
    end = text[-1] if text[-1] in "'\":;,." else ""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}...{end}"


def exit_code(program: str, command: Callable[[], int], if_interrupted: str) -> int:
    """Run a command and return its exit code; a mistake of the user is printed in a line, with code 2."""
    try:
        return command()
    except (UserError, ModuleNotFoundError) as error:
        message = str(error) if isinstance(error, UserError) else not_installed(error)
        if not message:
            raise
        print(f"{program}: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{program}: interrupted; {if_interrupted}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
