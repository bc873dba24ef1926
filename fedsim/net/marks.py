"""Trees taken apart: a tree without some of its arrays, marks for their places, and what replaces them.

The tree is kept with None in place of every replaced array.  A text has one letter for every None in the
tree, in order: "-" for a None that was there before, otherwise the array's type.  The replacements are a list
beside it.  So nothing that a tree may hold can be mistaken for a mark, and a mark costs two bytes per array.
"""

from collections.abc import Callable, Iterator
from typing import Any

from fedsim.core.arrays import Array
from fedsim.core.wire import Tree
from fedsim.net import floats

NONE = "-"
COST = 2  # bytes: the None in an array's place, and its letter


def split_arrays(tree: Tree, pieces_of: Callable[[str, Any], Tree]) -> list[Tree]:
    """Return what stays of the tree, the letters and the pieces; `pieces_of(path, array)` is None if the array stays.

    A path names a place in the tree as in RFC 6901: "/update/w", or "" for the tree itself.
    """
    letters: list[str] = []
    pieces: list[Tree] = []

    def walk(node: Any, path: str) -> Tree:
        if floats.is_array(node):
            replacement = pieces_of(path, node)
            if replacement is None:
                return node
            letters.append(floats.LETTERS[floats.spec(node).dtype])
            pieces.append(replacement)
            return None
        if node is None:
            letters.append(NONE)
            return None
        if isinstance(node, dict):
            return {key: walk(value, f"{path}/{_escaped(key)}") for key, value in node.items()}
        if isinstance(node, list | tuple):
            walked = [walk(value, f"{path}/{place}") for place, value in enumerate(node)]
            return tuple(walked) if isinstance(node, tuple) else walked
        return node

    skeleton = walk(tree, "")
    return [skeleton, "".join(letters), pieces]


def join_arrays(parts: Tree, grow: Callable[[Tree, str], Array]) -> Tree:
    """Return the tree that was taken apart; `grow(pieces, type)` reconstructs an array.

    Raises ValueError if the parts do not fit each other.
    """
    if not isinstance(parts, list | tuple) or len(parts) != 3:
        raise ValueError("malformed tree: it was not encoded by a codec")
    skeleton, letters, pieces = parts
    marks, rest = iter(letters), iter(pieces)
    if len(letters) - letters.count(NONE) != len(pieces):
        raise ValueError(f"malformed tree: {len(pieces)} arrays for the marks {letters!r}")
    tree = _filled(skeleton, marks, rest, grow)
    if next(marks, None) is not None:
        raise ValueError(f"malformed tree: more marks than places: {letters!r}")
    return tree


def transform(function: Callable[..., Any], first: Tree, *others: Tree) -> Tree:
    """Apply the function to every array of the first tree and the nodes in the same place of the others."""
    if floats.is_array(first):
        return function(first, *others)
    if isinstance(first, dict):
        return {key: transform(function, value, *(other[key] for other in others)) for key, value in first.items()}
    if isinstance(first, list | tuple):
        inner = [transform(function, *rest) for rest in zip(first, *others, strict=True)]
        return tuple(inner) if isinstance(first, tuple) else inner
    return first


def _escaped(key: Any) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _filled(node: Tree, letters: Iterator[str], pieces: Iterator[Tree], grow: Callable[[Tree, str], Array]) -> Tree:
    if node is None:
        letter = next(letters, "nothing")
        if letter == NONE:
            return None
        if letter not in floats.NAMES:
            raise ValueError(f"malformed tree: {letter!r} marks no type of array")
        return grow(next(pieces), floats.NAMES[letter])
    if isinstance(node, dict):
        return {key: _filled(value, letters, pieces, grow) for key, value in node.items()}
    if isinstance(node, list | tuple):
        filled = [_filled(value, letters, pieces, grow) for value in node]
        return tuple(filled) if isinstance(node, tuple) else filled
    return node
