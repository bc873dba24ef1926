"""A `torch.nn.Module` as a model: its trainable parameters by name, its forward pass on one client's graph.

Parameters are a flat dict {name: tensor} of the module's `named_parameters()` that require gradients, each tensor
once.  What is frozen stays in the module and never travels.  `forward` is handed what it names, in PyG's conventions:
the features first, whatever their name; `edge_index`, `edge_weight`, `edge_attr`, and `batch`.  Optional ones are left
out where the data have none.  Parameters of the constructor that are called like a size of the data (`FEATURES`,
`CLASSES`) are filled in; all others are options.  A function that returns a module stands for a class.

A module is run client by client, so that nothing depends on what runs beside.  While training, torch's default
generator is seeded for each forward pass from the job's seed.  Not modelled: states of nodes, weights that evolve
between periods, and modules that keep tensors outside of parameters and buffers, which are refused
(`hidden_state.py`).
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from fedsim.core.errors import UserError
from fedsim.data.graph import EDGE_KEYS, Graph, with_keys
from fedsim.learn.engine import layout
from fedsim.learn.model import Model
from fedsim.learn.modules.resident import CLASSES, FEATURES, Resident, made
from fedsim.scenario.parts import keywords

NO_LAYERS = "{} is a torch module, and this needs a model of fedsim's own layers"


@dataclass(frozen=True)
class ModuleModel(Model):
    """What `adopted` derives a class from for each module class or function; its fields are their keywords.

    `settle` builds the module, once a run, before anything else is asked.
    """

    hidden: int = field(default=0, init=False, repr=False, metadata={"option": False})
    layers: int = field(default=0, init=False, repr=False, metadata={"option": False})
    dropout: float = field(default=0.0, init=False, repr=False, metadata={"option": False})
    # of buffers, such as the statistics of BatchNorm: averaged as parameters are, each client's own, or not allowed
    buffers: Literal["average", "local", "refuse"] = field(default="average", kw_only=True)
    is_module: ClassVar[bool] = True
    reads: ClassVar[Sequence[str]] = EDGE_KEYS
    make: ClassVar[Callable[..., nn.Module]]  # the class or function
    keywords: ClassVar[tuple[str, ...]]  # of these, those that are options

    def settle(self, features: int, outputs: int, seed: int, sample: Graph) -> None:
        """Build the module on the sample's device; lazy ones are materialised by a pass over this graph.

        Raises UserError where the module cannot be built or run, has nothing to train, or keeps hidden state.
        """
        resident = Resident(self.make, self._options, (features, outputs), seed, sample)
        object.__setattr__(self, "_resident", resident)

    def module(self, features: int, outputs: int) -> nn.Module:
        """Return a module with weights that torch draws now.  Raises UserError where it cannot be built."""
        return made(self.make, self._options, (features, outputs))

    @property
    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.keywords}

    @property
    def resident(self) -> Resident:
        """The module of this run."""
        return self.__dict__["_resident"]  # type: ignore[no-any-return]

    def init(self, features: int, classes: int, generator: Generator) -> Any:
        """Return the first parameters that this seed gives."""
        return self.resident.drawn(generator.initial_seed())

    def forward(self, params: Any, graph: Graph) -> Tensor:
        """Return the output of parameters with a client axis on a union of as many graphs, one after the other."""
        return self._each(params, graph, None)

    def embed(self, params: Any, graph: Graph) -> Tensor:
        """Return what the module's method `embed` returns."""
        return self._each(params, graph, "embed")

    @classmethod
    def has_embed(cls) -> bool:
        """Return whether the module has a method `embed`; of what a function makes that is seen once it is built."""
        return not inspect.isclass(cls.make) or callable(getattr(cls.make, "embed", None))

    @property
    def embedding_width(self) -> int:
        """H, the width of what `embed` returns; 0 where the algorithm does not ask for it."""
        return self.resident.embedding_width

    def variables(self, params: Any) -> list[Tensor]:
        """Return the tensors that a loss of these parameters depends on: while a job trains them, the module's own."""
        return self.resident.variables(params)

    def state_dict(self, params: Any) -> Mapping[str, Any]:
        """Return the whole state dict of the module: what is frozen, and buffers, which may lie beside parameters."""
        return self.resident.state_dict(params)

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the operations of one forward pass."""
        return self.resident.flops(graph)

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Raise UserError: a module has no layers that are known."""
        raise UserError(NO_LAYERS.format(self.make.__name__))

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Raise UserError: a module has no layers that are known."""
        raise UserError(NO_LAYERS.format(self.make.__name__))

    def layer_flops(self, nodes: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """Return 0: a module's operations are those of its whole pass."""
        return 0.0

    def _each(self, params: Any, graph: Graph, method: str | None) -> Tensor:
        derived = layout.of(graph)
        if not derived.parts:
            return self.resident.run(params, graph, method)
        rows = [0 if derived.shared else k for k in range(len(derived.parts))]
        graphs = [part.graph for part in derived.parts]
        if "seed" in graph:
            seeds = [graph["seed"][row : row + 1] + k for k, row in enumerate(rows)]
            graphs = [with_keys(part, {"seed": seed}) for part, seed in zip(graphs, seeds, strict=True)]
        known = {n: leaf for n, leaf in params.items() if isinstance(leaf, Tensor)}  # of the module, not beside it
        parts = zip(rows, graphs, strict=True)
        return torch.cat([self._each({n: p[k : k + 1] for n, p in known.items()}, part, method) for k, part in parts])


TAKEN = {*dir(ModuleModel), "buffers"} - {"hidden", "layers", "dropout"}  # an option would hide what they stand for


@cache
def adopted(make: Callable[..., nn.Module]) -> type[ModuleModel]:
    """Return the model of a module class, or of a function that returns a module; its options are their keywords.

    Raises UserError where there is a parameter that cannot be an option.
    """
    meaning = make.__doc__ or f"{make.__name__}, a torch module."
    return keywords.adopted(make, "make", ModuleModel, (*FEATURES, *CLASSES), TAKEN, meaning)


def parts_of(namespace: Mapping[str, Any], module: str, name: str) -> dict[str, type[ModuleModel]]:
    """Return the models of a file's module classes, by name: the one that is asked for, or all that are defined there.

    A function is a model where it is asked for.  Raises UserError if there is none of the name that is asked for.
    """
    classes: dict[str, Any] = {
        key: cls
        for key, cls in namespace.items()
        if inspect.isclass(cls) and issubclass(cls, nn.Module) and not key.startswith("_")
    }
    defined = {key: cls for key, cls in classes.items() if cls.__module__ == module}
    if name == module or "." not in name:
        return {key: adopted(cls) for key, cls in defined.items()}
    asked = name.rpartition(".")[2]
    if inspect.isfunction(namespace.get(asked)):
        return {asked: adopted(namespace[asked])}
    if asked not in classes:
        there = f"; there are {', '.join(defined)}" if defined else ""
        other = inspect.isclass(namespace.get(asked))
        raise UserError(f"{asked} is no torch.nn.Module" if other else f"it has no class {asked!r}{there}")
    return {asked: adopted(classes[asked])}
