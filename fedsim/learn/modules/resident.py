"""Resident: the one module of a run in memory, into which each client's parameters and buffers are copied.

`run` computes with the module's own parameters while a job trains it (`lend`), and otherwise with those that it is
given, as when models are scored: in evaluation mode, with the buffers that lie beside the parameters, or else with
those that the client at work has (`set_buffers`).  Only a forward pass in training mode moves buffers: `embed` leaves
them as they are, so that a loss of logits and embeddings moves them once a step.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.lazy import LazyModuleMixin

from fedsim.core.errors import UserError
from fedsim.core.seeds import integer
from fedsim.data.graph import EDGE_KEYS, Graph, as_dense
from fedsim.learn.engine import layout, tree
from fedsim.learn.modules import hidden_state
from fedsim.learn.modules.flops import PassCosts

FEATURES = ("features", "in_channels", "in_features")
CLASSES = ("classes", "out_channels", "out_features", "num_classes")
Tensors = dict[str, Tensor]


class Resident:
    """A module, the names of what is trained in it, and the values that its buffers begin with."""

    def __init__(
        self,
        make: Callable[..., nn.Module],
        options: Mapping[str, Any],
        sizes: tuple[int, int],
        seed: int,
        sample: Graph,
    ) -> None:
        """Build the module with its options for `sizes`, features and outputs, and try it on the sample.

        `make` is its class, or a function that returns it.

        Raises UserError where it cannot be built or run, has nothing to train, or keeps hidden state.
        """
        self._make, self._options, self._sizes, self._sample = make, options, sizes, sample
        self.name = make.__name__
        self.embedding_width = 0  # until `measure_embedding`
        self.first_seed = integer(seed, "model")
        self.module = self._built(self.first_seed)
        self.trained = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        if not self.trained:
            raise UserError(f"{self.name} has no parameter that requires a gradient: there is nothing to train")
        self.owned: list[Tensor] = [*self.trained.values()]  # what gradients are taken of
        self.values = [p.detach().unsqueeze(0) for p in self.owned]  # the same memory, as optimisers see it
        self._first = self.parameters()
        self.buffers: Tensors = dict(self.module.named_buffers())
        self.first_buffers = {name: buffer.clone() for name, buffer in self.buffers.items()}
        self._places = _places(self.module)
        self._lent: Tensors | None = None
        self._methods: dict[str | None, _Method] = {}
        hidden_state.refuse(self.module, self.name, lambda: self._dry(self.module), sample)
        self.set_buffers(self.first_buffers)
        self._costs = PassCosts(self.module, sample, lambda graph: self._call(self.module, graph))

    def measure_embedding(self) -> None:
        """Note how wide embeddings are.  Raises UserError where `embed` does not return a vector for each row."""
        output = self._dry(self.module, "embed")
        if output.dim() != 2:
            raise UserError(f"{self.name}.embed must return (rows, width), not {tuple(output.shape)}")
        self.embedding_width = output.shape[1]

    def drawn(self, seed: int) -> Tensors:
        """Return the trainable parameters of a module that is built with this seed."""
        if seed == self.first_seed:
            return self._first
        return {name: p.detach() for name, p in self._built(seed).named_parameters() if name in self.trained}

    def lend(self) -> Tensors:
        """Return the trained parameters, each with a client axis of one, for the training of a job."""
        self._lent = lent = {name: p.unsqueeze(0) for name, p in self.trained.items()}
        return lent

    def take_back(self) -> None:
        """End the work on a job."""
        self._lent, self._evaluated = None, self.first_buffers

    def variables(self, params: Tensors) -> list[Tensor]:
        """Return the tensors that a loss of these parameters depends on."""
        return self.owned if params is self._lent else list(tree.leaves(params))

    def parameters(self) -> Tensors:
        """Return a copy of the trained parameters."""
        return {name: p.detach().clone() for name, p in self.trained.items()}

    @torch.no_grad()
    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Copy parameters into the module."""
        for name, parameter in self.trained.items():
            parameter.copy_(values[name])

    @torch.no_grad()
    def set_buffers(self, values: Tensors) -> None:
        """Copy buffers into the module; until `take_back` passes in evaluation mode have these values, too."""
        self._evaluated = values
        for name, buffer in self.buffers.items():
            buffer.copy_(values[name])

    def state_dict(self, values: Mapping[str, Tensor]) -> Mapping[str, Any]:
        """Return the module's whole state dict with these parameters, and these buffers or else the first ones."""
        self.set_parameters(values)
        self.set_buffers({name: values.get(name, first) for name, first in self.first_buffers.items()})
        self.take_back()
        return self.module.state_dict()

    def run(self, params: Tensors, graph: Graph, method: str | None) -> Tensor:
        """Return what the module makes of one client's graph, with parameters that have a client axis of one.

        In training mode, that is with a seed in the graph, torch's default generator begins with that seed.
        """
        if not len(graph["y"]):  # which layers such as BatchNorm refuse
            return graph["x"].new_zeros(0, self._sizes[1] if method is None else self.embedding_width)
        if self.module.training is not ("seed" in graph):
            self.module.train("seed" in graph)
        if "seed" not in graph:
            beside = {name: params[name][0] for name in self.first_buffers if name in params}
            return self._with({**self._given(params), **self._evaluated, **beside}, graph, method)
        if params is self._lent:
            return self._seeded({}, graph, method)
        drawn = torch.default_generator.get_state()  # nobody else's draws depend on it
        try:
            return self._seeded(self._given(params), graph, method)
        finally:
            torch.default_generator.set_state(drawn)

    def _given(self, params: Tensors) -> Tensors:
        return {name: params[name][0] for name in self.trained}

    def _seeded(self, given: Tensors, graph: Graph, method: str | None) -> Tensor:
        seed = int(graph["seed"][0])
        torch.default_generator.manual_seed(seed)
        if graph["y"].is_cuda:
            torch.cuda.manual_seed(seed)
        if method is not None:  # in copies of the buffers, which nobody keeps
            given = given | {name: buffer.clone() for name, buffer in self.buffers.items()}
        return self._with(given, graph, method)

    def _with(self, given: Tensors, graph: Graph, method: str | None) -> Tensor:
        if not given:
            return self._call(self.module, graph, method)  # type: ignore[no-any-return]
        named = {f"module.{place}": tensor for name, tensor in given.items() for place in self._places[name]}
        if method not in self._methods:
            self._methods[method] = _Method(self, method)
        return functional_call(self._methods[method], named, (graph,), tie_weights=False)  # type: ignore[no-any-return]

    def flops(self, graph: Graph) -> float:
        """Return the operations of one forward pass over a graph of this size."""
        return self._costs.of(graph)

    def _built(self, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            module = made(self._make, self._options, self._sizes)
            self.takes = _arguments(type(module), "forward")
            module.to(self._sample["y"].device)
            lazy = [inner for inner in module.modules() if isinstance(inner, LazyModuleMixin)]
            if any(inner.has_uninitialized_params() for inner in lazy):
                self._dry(module)
        return module

    def _dry(self, module: nn.Module, method: str | None = None) -> Tensor:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            module.eval()
            try:
                output = self._call(module, self._sample, method)
            except UserError:
                raise
            except Exception as error:  # any, of torch or of the module
                shape = tuple(self._sample["x"].shape[1:])
                name = f"{self.name}.{method or 'forward'}"
                raise UserError(f"{name} fails on rows of the shape {shape}: {error}") from error
        form: Any = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        rows, width = len(self._sample["y"]), self._sizes[1]
        fits = form[:1] == (rows,) if method else form == (rows, width) or (width == 1 and form == (rows,))
        if not fits:
            wanted = f"({rows}, {width})" if method is None else f"a row for each of its {rows} rows"
            raise UserError(f"{self.name}.{method or 'forward'} must return {wanted}, not {form}")
        return output  # type: ignore[no-any-return]

    def _call(self, module: nn.Module, graph: Graph, method: str | None = None) -> Any:
        takes = self.takes if method is None else _arguments(type(module), method)
        offered = {"edge_index": graph["edges"]}
        for name in EDGE_KEYS:
            if name in graph:
                offered[name] = graph[name]  # type: ignore[literal-required]
            elif name in self._sample and not graph["edges"].shape[1]:  # of nodes taken from a graph
                offered[name] = self._sample[name][:0]  # type: ignore[literal-required]
        if takes.get("batch"):  # one graph a client
            offered["batch"] = torch.zeros_like(graph["y"])
        if lacking := [name for name, required in takes.items() if required and name not in offered]:
            raise UserError(f"{self.name}.{method or 'forward'} needs {lacking[0]!r}, which these data do not have")
        named = {name: offered[name] for name in takes if name in offered}
        function = module if method is None else getattr(module, method)
        return function(dense(graph), **named)


def made(make: Callable[..., nn.Module], options: Mapping[str, Any], sizes: tuple[int, int]) -> nn.Module:
    """Return a module with these options, and with what it takes of the sizes, features and outputs, filled in.

    Raises UserError where its class or function fails, or returns something else.
    """
    known = inspect.signature(make).parameters
    named = zip((FEATURES, CLASSES), sizes, strict=True)
    filled = {name: size for names, size in named for name in names if name in known}
    try:
        module = make(**filled, **options)
    except Exception as error:
        raise UserError(f"{make.__name__} cannot be built: {type(error).__name__}: {error}") from error
    if not isinstance(module, nn.Module):
        raise UserError(f"{make.__name__} must return a torch.nn.Module, not {type(module).__name__}")
    return module


class _Method(nn.Module):
    """A call of the resident's module as a module, for `functional_call`."""

    def __init__(self, resident: Resident, method: str | None) -> None:
        super().__init__()
        self.module = resident.module
        self._resident, self._method = resident, method

    def forward(self, graph: Graph) -> Any:
        """Return what the module makes of the graph."""
        return self._resident._call(self.module, graph, self._method)


def dense(graph: Graph) -> Tensor:
    """Return the graph's features as a dense tensor, made once."""
    x = graph["x"]
    return layout.once(graph, "dense", (x,), lambda: as_dense(x))


def _arguments(cls: type[nn.Module], method: str) -> dict[str, bool]:
    """Return what a method takes beside its first argument, and whether it has to be given."""
    parameters = list(inspect.signature(getattr(cls, method)).parameters.values())[2:]
    usual = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {p.name: p.default is p.empty for p in usual}


def _places(module: nn.Module) -> dict[str, list[str]]:
    """Return under the first name of each parameter and buffer all places that hold it, each module's own once.

    With ties that it finds itself, `functional_call` leaves its tensors in a module that is registered twice.
    """
    places: dict[int, list[str]] = {}
    for path, inner in module.named_modules():
        for name, tensor in (*inner._parameters.items(), *inner._buffers.items()):
            places.setdefault(id(tensor), []).append(f"{path}.{name}" if path else name)
    return {names[0]: names for names in places.values()}
