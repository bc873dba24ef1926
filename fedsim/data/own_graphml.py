"""Read a user's graph from GraphML with networkx: ids are the nodes' own, labels and features their attributes.

Vertices are numbered in the file's order.  All node attributes except the label and the split are features, unless
`features` names some or `ignore` leaves some out.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt

from fedsim.core.errors import UserError
from fedsim.data.raw import MASKS, Raw, from_texts, masks_from_words, numbered


def from_graphml(
    path: Path, label: str | None = "label", features: Sequence[str] | None = None, ignore: Sequence[str] = ()
) -> Raw:
    """Return the graph of a GraphML file; `label` None: vertices have none.

    Raises UserError, which names file, node, attribute and remedy.
    """
    whole = _read(path)
    nodes: list[tuple[str, Mapping[str, Any]]] = [
        (str(name), attributes) for name, attributes in whole.nodes(data=True)
    ]
    numbers = {name: number for number, (name, _) in enumerate(nodes)}
    ends = [(numbers[str(source)], numbers[str(target)]) for source, target in whole.edges()]
    weights = {key for *_, attributes in whole.edges(data=True) for key in attributes if key not in ignore}
    if weights:
        message = "graphs have no edge weights or attributes"
        raise UserError(
            f"{path}: the edges have an unknown attribute {min(weights)!r} ({message}); list it under `ignore:`"
        )
    split = "split" not in ignore and any("split" in attributes for _, attributes in nodes)
    names = _features_of(nodes, [label, "split"], ignore) if features is None else [*features]
    return Raw(
        len(nodes), np.array(ends, dtype=np.int64).reshape(-1, 2).T.copy(),
        _labels(path, nodes, label) if label else np.full(len(nodes), -1),
        _features(path, nodes, names), masks_from_words(_words(path, nodes)) if split else {},
    )  # fmt: skip


def ids(path: Path) -> list[str]:
    """Return the nodes' ids, in the file's order."""
    return [str(name) for name in _read(path).nodes()]


def _read(path: Path) -> Any:
    try:
        with warnings.catch_warnings():  # about attributes without a type, which become texts and are refused later
            warnings.simplefilter("ignore")
            return nx.read_graphml(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except Exception as error:  # of any kind, from networkx and the parser, where the text is wrong
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path} cannot be read as GraphML ({message}); write it with networkx.write_graphml") from None


def _features_of(
    nodes: Sequence[tuple[str, Mapping[str, Any]]], taken: Sequence[Any], ignore: Sequence[str]
) -> list[str]:
    names = dict.fromkeys(
        key for _, attributes in nodes for key in attributes if key not in taken and key not in ignore
    )
    return [*names]


def _labels(path: Path, nodes: Sequence[tuple[str, Mapping[str, Any]]], label: str) -> npt.NDArray[np.int64]:
    if nodes and not any(label in attributes for _, attributes in nodes):
        remedy = "name the attribute of labels with `label:`, or write labelled: false"
        raise UserError(f"{path}: no node has the attribute {label!r}; {remedy}")
    try:
        return numbered(from_texts([str(attributes.get(label, "")).strip() for _, attributes in nodes]))
    except ValueError as error:
        at, why = error.args
        raise UserError(f"{path}, node {nodes[at][0]!r}: attribute {label!r}: {why}") from None


def _features(
    path: Path, nodes: Sequence[tuple[str, Mapping[str, Any]]], names: Sequence[str]
) -> npt.NDArray[np.float32] | None:
    if not names:
        return None
    x = np.empty((len(nodes), len(names)), dtype=np.float32)
    for row, (node, attributes) in enumerate(nodes):
        for column, name in enumerate(names):
            value = attributes.get(name)
            if not isinstance(value, int | float):
                why = "is missing" if value is None else f"is {value!r} and not a number"
                remedy = "give every node a number, or list the attribute under `ignore:`"
                raise UserError(f"{path}, node {node!r}: attribute {name!r} {why}; {remedy}")
            with np.errstate(over="ignore"), suppress(OverflowError):  # whole numbers of hundreds of digits
                x[row, column] = np.inf
                x[row, column] = value
            if not np.isfinite(x[row, column]):
                raise UserError(f"{path}, node {node!r}: attribute {name!r} is {value}; features must be finite")
    return x


def _words(path: Path, nodes: Sequence[tuple[str, Mapping[str, Any]]]) -> npt.NDArray[np.str_]:
    words = [str(attributes.get("split", "")).strip() for _, attributes in nodes]
    wrong = next((at for at, word in enumerate(words) if word not in (*MASKS, "")), None)
    if wrong is not None:
        message = f"attribute 'split': {words[wrong]!r} is not one of {', '.join(MASKS)}"
        raise UserError(f"{path}, node {nodes[wrong][0]!r}: {message}")
    return np.array(words, dtype=np.str_)
