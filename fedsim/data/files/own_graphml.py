"""Read a user's graph from GraphML with networkx: ids of nodes, and their attributes as labels and features.

Nodes are numbered in the file's order.  All node attributes except the label and the split are features,
unless `features` names some or `ignore` leaves some out.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt

from fedsim.core.arrays import Ints, Strings
from fedsim.core.errors import UserError
from fedsim.data.files.raw import Raw, from_texts, masks_from_words, numbered
from fedsim.data.graph import MASKS

LARGEST = float(np.finfo(np.float32).max)
NodeAttributes = Mapping[str, Mapping[str, Any]]  # each node's attributes, by its id


def from_graphml(
    path: Path, label: str | None = "label", features: Sequence[str] | None = None, ignore: Sequence[str] = ()
) -> Raw:
    """Return the graph of a GraphML file; `label` None: nodes have none.

    Raises UserError, which names file, node, attribute and remedy.
    """
    content = _read(path)
    nodes: NodeAttributes = {str(name): attributes for name, attributes in content.nodes(data=True)}
    numbers = {name: number for number, name in enumerate(nodes)}
    ends = [(numbers[str(source)], numbers[str(target)]) for source, target in content.edges()]
    weights = {key for *_, attributes in content.edges(data=True) for key in attributes if key not in ignore}
    if weights:
        message = f"the edges have an unknown attribute {min(weights)!r} (these are read from .npz and .pt alone)"
        raise UserError(f"{path}: {message}; list it under `ignore:`")
    present = dict.fromkeys(key for attributes in nodes.values() for key in attributes if key not in ignore)
    if features is None:
        features = [key for key in present if key not in (label, "split")]
    labels = _labels(path, nodes, label) if label else np.full(len(nodes), -1)
    masks = masks_from_words(_words(path, nodes)) if "split" in present else {}
    edges = np.array(ends, dtype=np.int64).reshape(-1, 2).T.copy()
    return Raw(len(nodes), edges, labels, _features(path, nodes, features), masks)


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


def _labels(path: Path, nodes: NodeAttributes, label: str) -> Ints:
    if nodes and not any(label in attributes for attributes in nodes.values()):
        remedy = "name the attribute of labels with `label:`, or write labelled: false"
        raise UserError(f"{path}: no node has the attribute {label!r}; {remedy}")
    try:
        return numbered(from_texts([str(attributes.get(label, "")).strip() for attributes in nodes.values()]))
    except ValueError as error:
        at, why = error.args
        raise UserError(f"{path}, node {[*nodes][at]!r}: attribute {label!r}: {why}") from None


def _features(path: Path, nodes: NodeAttributes, names: Sequence[str]) -> npt.NDArray[np.float32] | None:
    if not names:
        return None
    rows = [[attributes.get(name) for name in names] for attributes in nodes.values()]
    for node, row in zip(nodes, rows, strict=True):
        for name, value in zip(names, row, strict=True):
            where = f"{path}, node {node!r}: attribute {name!r}"
            if not isinstance(value, int | float):
                why = "is missing" if value is None else f"is {value!r} and not a number"
                remedy = "give every node a number, or list the attribute under `ignore:`"
                raise UserError(f"{where} {why}; {remedy}")
            if not abs(value) <= LARGEST:  # NaN too, and whole numbers of hundreds of digits
                raise UserError(f"{where} is {value}; features must be finite")
    return np.array(rows, dtype=np.float32).reshape(len(nodes), len(names))


def _words(path: Path, nodes: NodeAttributes) -> Strings:
    words = {node: str(attributes.get("split", "")).strip() for node, attributes in nodes.items()}
    for node, word in words.items():
        if word not in (*MASKS, ""):
            raise UserError(f"{path}, node {node!r}: attribute 'split': {word!r} is not one of {', '.join(MASKS)}")
    return np.array([*words.values()], dtype=np.str_)
