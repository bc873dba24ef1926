"""Data that a function or class of the user's returns: `dataset: {name: mine.data}`, read once into tensors.

What is returned is a torch `Dataset` of pairs (x, y), the two arrays (x, y), a mapping of arrays as a file
holds them, or PyG's `Data`.  With edges it is a graph, otherwise rows (`own_rows`).  Options are the function's
keywords; one called `seed` is filled in with the run's seed, from which the generators of torch, NumPy and
Python are seeded too.  Not noticed: changes of files that the function reads, unless an option names them.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch.utils import data

from fedsim.core.arrays import Array
from fedsim.core.errors import ScenarioError, UserError
from fedsim.core.seeds import integer, seeded
from fedsim.data.dataset import Dataset
from fedsim.data.files import own_arrays, own_rows
from fedsim.data.files.raw import Targets
from fedsim.data.graph import Graph
from fedsim.scenario.parts import keywords, source

FORMS = "a torch Dataset of pairs (x, y), two arrays (x, y), or a mapping of arrays: {'x': x, 'y': y}"


@dataclass(frozen=True)
class OwnData(Dataset):
    """What `adopted` derives a class from for each function or class; its fields are the keywords."""

    # what targets are; null: numbers with a fraction are real, whole numbers and texts are classes
    targets: Targets | None = field(default=None, kw_only=True)
    keywords: ClassVar[tuple[str, ...]]
    maker: ClassVar[Callable[..., Any]]

    def load(self, root: Path, seed: int) -> Graph:
        """Return what the function returns, as a graph.  Raises UserError where that fails."""
        options = {name: getattr(self, name) for name in self.keywords}
        if "seed" in inspect.signature(self.maker).parameters:
            options["seed"] = seed
        name = self.maker.__name__
        try:
            with seeded(integer(seed, "data.own")):
                arrays = arrays_in(name, self.maker(**options))
        except UserError:
            raise
        except Exception as error:  # of any kind: it is the user's code
            place = source.place_of(error)
            message = f"{name} raises {source.in_a_line(error)}" + (f" ({place})" if place else "")
            raise ScenarioError.at("data.dataset", message) from error
        if {"edge_index", "edges"} & {*arrays}:
            raw = own_arrays.raw(name, arrays, labelled="y" in arrays, targets=self.targets or "classes")
            return raw.graph(name, "refuse")
        return own_rows.of_arrays(name, arrays, self.targets).rows()


def arrays_in(where: str, made: Any) -> dict[str, Array]:
    """Return the arrays, by name, of what a function has returned.  Raises UserError for another form."""
    if hasattr(made, "to_dict") and hasattr(made, "edge_index"):  # PyG's Data
        made = {name: value for name, value in made.to_dict().items() if value is not None}
    if isinstance(made, data.TensorDataset):
        made = made.tensors
    if isinstance(made, data.Dataset):
        made = _columns(where, _items(made))
    if isinstance(made, tuple | list) and len(made) == 2:
        made = {"x": made[0], "y": made[1]}
    if not isinstance(made, Mapping):
        raise UserError(f"{where} returns a {type(made).__name__}; return {FORMS}")
    return {str(name): own_arrays.as_array(where, str(name), value) for name, value in made.items()}


def _items(dataset: Any) -> list[Any]:
    if isinstance(dataset, data.IterableDataset):
        return [*dataset]
    return [dataset[number] for number in range(len(dataset))]


def _columns(where: str, items: Sequence[Any]) -> tuple[Array, Array]:
    """Return the pairs of a data set as two arrays."""
    if not items:
        raise UserError(f"{where} returns a data set without an example; it needs one at least")
    columns = []
    for place, name in enumerate(("x", "y")):
        rows = []
        for number, item in enumerate(items):
            if not isinstance(item, tuple | list) or len(item) != 2:
                raise UserError(f"{where}: example {number} is a {type(item).__name__} and not a pair (x, y)")
            rows.append(own_arrays.as_array(where, f"{name} of example {number}", item[place]))
            if rows[number].shape != rows[0].shape:
                shapes = f"{rows[number].shape}, and that of example 0 {rows[0].shape}"
                raise UserError(f"{where}: {name!r} of example {number} has the shape {shapes}; make all the same")
        columns.append(np.stack(rows))
    return columns[0], columns[1]


@cache
def adopted(maker: Callable[..., Any]) -> type[OwnData]:
    """Return the data set of a function or class, whose options are its keywords.

    Raises UserError where it has a parameter that cannot be an option.
    """
    meaning = inspect.getdoc(maker) or f"What {maker.__name__} returns."
    return keywords.adopted(maker, "maker", OwnData, ("seed",), ("targets",), meaning)


def parts_of(namespace: Mapping[str, Any], module: str, name: str) -> dict[str, type[OwnData]]:
    """Return the data sets of a file's functions and torch `Dataset`s, by name: the one asked for, or all.

    Of several the one that is called like the file counts.  Raises UserError if what is asked for is not there.
    """
    asked = name.rpartition(".")[2]
    if name != module and "." in name:
        if not callable(namespace.get(asked)):
            raise UserError(f"it has no function or class {asked!r}")
        return {asked: adopted(namespace[asked])}
    defined = {
        key: value
        for key, value in namespace.items()
        if getattr(value, "__module__", None) == module and not key.startswith("_") and _makes_data(value)
    }
    return {key: adopted(value) for key, value in defined.items() if asked not in defined or key == asked}


def _makes_data(value: Any) -> bool:
    return inspect.isfunction(value) or (inspect.isclass(value) and issubclass(value, data.Dataset))
