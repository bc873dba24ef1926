"""Turn pydantic's errors into plain sentences, for the kinds of error that scenarios can cause."""

from collections.abc import Callable, Sequence
from typing import Any

from fedsim.core.errors import Problem
from fedsim.core.units import did_you_mean, nearest

SHORT = 60  # characters of a value in a message
PLAIN: dict[str, str] = {
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list, such as [a, b]"),
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type", "dataclass_type"), "must be a mapping of keys to values"
    ),
    "finite_number": "must be a finite number",
    "string_type": "must be a text",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "too_short": "needs at least {min_length} entry",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "does not have the form {pattern}",
}


def problems(
    errors: Sequence[Any],
    where: tuple[str, ...] = (),
    known: Callable[[tuple[Any, ...]], Sequence[str]] = lambda path: (),
    elsewhere: Callable[[str], Sequence[str]] = lambda word: (),
) -> list[Problem]:
    """Return one problem per key, with hints.

    `known` gives the names that a mapping at a path may hold, `elsewhere` the keys with that name elsewhere.
    """
    by_path: dict[tuple[Any, ...], Problem] = {}
    for error in errors:
        # an unknown key is the user's own word, whatever it looks like
        unknown = len(error["loc"]) - 1 if error["type"] == "extra_forbidden" else None
        path = tuple(step for place, step in enumerate(error["loc"]) if place == unknown or not _invented(step))
        key = ".".join(map(str, (*where, *path)))
        message = sentence(error, path, known, elsewhere)
        if _wants_one_value(error, path):
            message += several(key, error["input"])
        by_path.setdefault(path, Problem(key, message))
    # For a text or a mapping, an error inside the mapping is more helpful than "not a text".
    inside = {path[:depth] for path in by_path for depth in range(len(path))}
    return [problem for path, problem in by_path.items() if path not in inside]


def sentence(
    error: Any,
    path: tuple[Any, ...],
    known: Callable[[tuple[Any, ...]], Sequence[str]],
    elsewhere: Callable[[str], Sequence[str]] = lambda word: (),
) -> str:
    """Return a pydantic error in plain words."""
    kind, given, context = error["type"], error.get("input"), error.get("ctx", {})
    if kind == "extra_forbidden":
        word = str(path[-1])
        joined = [place for place in elsewhere(word.partition("_")[2]) if place.replace(".", "_") == word]
        return f"there is no such key{no_such_key(word, known(path[:-1]), joined or elsewhere(word))}"
    if kind in ("missing", "missing_argument"):
        return "is missing and has no default"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    if kind == "literal_error":
        near = nearest(str(given), context["expected"].replace("'", "").replace(" or ", ", ").split(", "))
        return f"{_short(given)} is not one of {context['expected']}" + (f"; did you mean {near!r}?" if near else "")
    if kind in PLAIN:
        limits = {key: f"{value:g}" if isinstance(value, float) else value for key, value in context.items()}
        return f"{_short(given)}: {PLAIN[kind].format(**limits)}"
    message = str(error["msg"])
    return f"{_short(given)}: {message[:1].lower()}{message[1:]}"


def no_such_key(word: str, siblings: Sequence[str], elsewhere: Sequence[str]) -> str:
    """Return a hint for an unknown key: the places with a key of that name, or else the valid keys."""
    return f"; did you mean {' or '.join(elsewhere)}?" if elsewhere else did_you_mean(word, siblings)


def several(key: str, values: Sequence[Any]) -> str:
    """Return the hint that several values make an axis."""
    shown = f"{key}: [{', '.join('null' if value is None else str(value) for value in values)}]"
    return f"; several values go under grid: {shown if len(shown) <= SHORT else shown[: SHORT - 3] + '...'}"


def _wants_one_value(error: Any, path: tuple[Any, ...]) -> bool:
    """Return whether a list was given for one value; where a list is valid, its entries are wrong."""
    given, kind = error.get("input"), error["type"]
    if not isinstance(given, list) or not given or isinstance(path[-1] if path else 0, int):
        return False
    of_lists = kind.startswith(("too_", "list_", "tuple_")) or kind in ("extra_forbidden", "missing")
    return not of_lists and not isinstance(error.get("ctx", {}).get("error"), Entries)


class Entries(ValueError):  # noqa: N818 - the name says what is wrong
    """An error in the entries of a valid list."""


def _short(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= SHORT else text[: SHORT - 3] + "..."


def _invented(step: Any) -> bool:
    # Pydantic adds the branch of a union to the path: "function-before[...]", "list[str]", "constrained-int".
    return isinstance(step, str) and ("[" in step or "-" in step or step in ("int", "float", "str", "bool", "none"))
