"""Check, before the run, whether the parts of a scenario fit together: algorithm, protocol, network, privacy, sampler.

Differential privacy needs a known number of replies per update, and secure aggregation needs rounds whose replies are
added; both cover the mean of differences and nothing else that an algorithm may send, and leave no other `aggregation`
anything to combine.  Samplers that observe need replies that travel to a server; those that read losses also need
clients that train, and whose uploads are not to be hidden.  A model of pairs (`fedsim.learn.model.PairModel`) has no
embedding of a node by itself and reads events, so that it needs a task that asks about pairs, a stream that hands out
events, and an algorithm that takes any model and asks nothing of it (`Algorithm.any_model`, `needs`).

Last, a rehearsal sets clients, network and protocol up once, and discards them.  It finds problems that no part can
find alone: a table names an unknown client, a topology does not span the clients, an effect needs a link that has no
limit, a sampler never asks a client, or a client's speed is missing.  It draws from the streams of the point's seed, so
it has the clients and links of the run.  It does not find problems that need time to pass: nothing is sent, the clock
stands still, and effects are started but never continue.  It uses neither data nor models, so it needs no torch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import simpy

from fedsim.clock.client_statistics import ClientStatistics
from fedsim.core.arrays import Ints
from fedsim.core.errors import Problem, ScenarioError, UserError, installing
from fedsim.net.effect import HOOKS, ServerStatus, Traits, check_times
from fedsim.net.presence.grouping import Grouped
from fedsim.point.build import fleet
from fedsim.point.build.parts import NOTHING, Parts
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, source
from fedsim.scenario.schema import AVERAGE, Scenario

LEARNS = ("data", "model", "training")  # what a learning algorithm needs
WHO = "take fedavg, fedprox, or another whose clients send a difference and no more, or leave {} out"
SAMPLER, OTHER = "clients.sampler", "take another sampler, such as uniform"
STREAM = "stream: {name: snapshots, patch: 1000, scored: events, every: 10 updates}"
KeyAndMessage = tuple[str, str]


def problems(parts: Parts, whole: bool) -> list[Problem]:
    """Return why algorithm, protocol and topology cannot be combined, and what learning lacks.

    Without `whole` the algorithm is left aside, for its file may import torch.
    """
    scenario, protocol = parts.scenario, parts.protocol
    if scenario.algorithm is None and protocol.asks:
        message = f"is missing, and the protocol {scenario.protocol.name!r} asks clients to work; name an algorithm"
        return [Problem("algorithm", message)]
    if reason := protocol.refuse(find.build("algorithm", NOTHING), parts.topology):
        return [Problem("protocol", f"{scenario.protocol.name!r} {reason}")]
    try:
        _ = parts.codecs
    except ScenarioError as error:
        return [*error.problems]
    wrong = [*_privacy_problems(parts), *_carriage_problems(parts), *_sampler_problems(parts)]
    if not wrong and (whole or not protocol.asks):
        wrong = [*_unlearned(parts)]
    if not wrong and scenario.algorithm is not None and whole and protocol.asks:
        wrong = [*_algorithm_problems(parts), *_unprotected(parts)]
    return [Problem(*problem) for problem in wrong]


def _privacy_problems(parts: Parts) -> Iterator[KeyAndMessage]:
    """Yield the problems with the protocol and the codecs."""
    scenario, protocol = parts.scenario, parts.protocol
    clipped, masked = (scenario.privacy.clip is not None), scenario.privacy.secure_aggregation.on
    name, secure = scenario.protocol.name, "privacy.secure_aggregation"
    count = protocol.folded(fleet.size(scenario))
    if clipped and count is None:
        message = f"{name!r} with these options aggregates a number of replies that is not known in advance, so the "
        message += "noise cannot be calibrated; use sync, deadline, buffered with a rate of 1 at most, or one_shot"
        yield "privacy.clip", message
    if clipped and find_spec("opacus") is None:
        yield "privacy.clip", f"epsilon is computed by Opacus, which is not installed: {installing('privacy')}"
    if masked and not protocol.sums:
        yield secure, f"{name!r} has no cohort whose uploads are added; take sync or deadline"
    elif masked and count == 1:
        yield secure, "a sum over one client hides nothing; ask two or more clients per round"
    if masked and scenario.network.codec.up is not None:
        message = "compressed values cannot be added under masks; leave out the codec or secure_aggregation"
        yield "network.codec.up", message
    if scenario.aggregation != AVERAGE and (key := _hidden_by(scenario)):
        message = f"{scenario.aggregation.name!r} needs each client's difference, and under {key} the server has their "
        yield "aggregation", f"{message}mean alone; leave out aggregation or {key}"


def _hidden_by(scenario: Scenario) -> str:
    """Return the key of the protection that gives the algorithm the mean of uploads only, "" without any."""
    if scenario.privacy.clip is not None:
        return "privacy.clip"
    return "privacy.secure_aggregation" if scenario.privacy.secure_aggregation.on else ""


def _carriage_problems(parts: Parts) -> Iterator[KeyAndMessage]:
    """Yield why connections or transport do not fit the protocol or the topology."""
    network, protocol = parts.scenario.network, parts.protocol
    if network.connection.kind == "exchange" and (protocol.shares_only or not protocol.asks):
        why = f"'exchange' is one connection for a request and its reply, and {parts.scenario.protocol.name!r} has none"
        yield "network.connection.kind", f"{why}: take fresh or kept"
    elif not parts.transport.plain and (reason := parts.transport.refuse(parts.topology, protocol.asks)):
        yield "network.transport", f"{network.transport.name!r} {reason}"


def _sampler_problems(parts: Parts) -> Iterator[KeyAndMessage]:
    """Yield why the protocol or the privacy options do not suit the sampler."""
    scenario, protocol, sampler = parts.scenario, parts.protocol, parts.sampler
    if not sampler.observes:
        return
    name, hidden = scenario.clients.sampler.name, _hidden_by(scenario)
    if protocol.silent or protocol.shares_only or not protocol.asks:
        why = f"chooses by replies that a server has received, and under {scenario.protocol.name!r} it receives none"
        yield SAMPLER, f"{name!r} {why}: {OTHER}"
    elif hidden and sampler.reports:
        yield SAMPLER, f"{name!r} has every client report its loss, which {hidden} does not protect: {OTHER}"


def _unlearned(parts: Parts) -> Iterator[KeyAndMessage]:
    """Yield what needs labels or a model in a run that learns nothing."""
    if parts.scenario.measure.keep and not parts.algorithm.learns:
        yield "measure.keep", "'weights': nothing is learned here, so that there are none; leave it out"
    message = "'labels' needs an algorithm that learns from data with labels; take another, or groups: country"
    for number, effect in enumerate(parts.effects):
        if isinstance(effect, Grouped) and effect.groups == "labels" and not parts.algorithm.learns:
            yield f"network.effects.{number}.groups", message


def _algorithm_problems(parts: Parts) -> Iterator[KeyAndMessage]:
    """Yield which keys the algorithm lacks, and why protocol, aggregation or sampler do not suit it."""
    scenario, algorithm, protocol, sampler = parts.scenario, parts.algorithm, parts.protocol, parts.sampler
    assert scenario.algorithm is not None
    name = f"{scenario.algorithm.name!r}"
    for key in LEARNS if algorithm.learns else ():
        if getattr(scenario, key) is None:
            yield key, f"is missing, and {name} learns: it needs {', '.join(LEARNS)}"
    if reason := protocol.refuse(algorithm, parts.topology):
        yield "protocol", f"{scenario.protocol.name!r} {reason}"
    rule = f"{scenario.aggregation.name!r}"
    if scenario.aggregation != AVERAGE and not algorithm.aggregates:
        yield "aggregation", f"{rule}: {name} does not average differences as fedavg does; leave it out"
    elif scenario.aggregation != AVERAGE and (protocol.shares_only or protocol.silent):
        message = f"{rule} combines a cohort's replies, and {scenario.protocol.name!r} folds one by one; leave it out"
        yield "aggregation", message
    chooses = f"{scenario.clients.sampler.name!r} chooses by"
    if sampler.observes and not algorithm.talks:
        yield SAMPLER, f"{chooses} replies, and with this algorithm nothing travels: {OTHER}"
    elif sampler.reports and not algorithm.learns:
        yield SAMPLER, f"{chooses} losses, and this algorithm trains nothing: {OTHER}"


def _unprotected(parts: Parts) -> Iterator[KeyAndMessage]:
    """Yield a problem if privacy is on and the algorithm uses more of uploads than the mean of their differences."""
    scenario, algorithm, model = parts.scenario, parts.algorithm, parts.scenario.model
    key = _hidden_by(scenario)
    if not key:
        return
    if not algorithm.averages:
        assert scenario.algorithm is not None
        message = f"{scenario.algorithm.name!r}, as it is set, learns more from uploads than the mean of their "
        yield key, f"{message}differences, which would remain unprotected; {WHO.format(key)}"
    elif model is not None and algorithm.evolves and find.build("model", model).turns():
        message = f"{model.name!r} evolves from period to period, which clients report beside their updates "
        yield key, f"{message}and nothing protects; take a model of fixed weights, such as gcn"


def module_problems(parts: Parts) -> list[Problem]:
    """Return why the algorithm cannot train a torch module, or on real targets, where that is asked."""
    scenario, algorithm = parts.scenario, parts.algorithm
    if scenario.algorithm is None or scenario.model is None or not algorithm.learns:
        return []
    model, name = find.find("model", scenario.model, "model"), repr(scenario.algorithm.name)
    if "values" in find.find("task", scenario.task, "task").judges and not algorithm.any_targets:
        takes = "take fedavg, fedprox, fed_opt, fed_dyn, fed_nova, scaffold or local (or say any_targets = True)"
        return [Problem("algorithm", f"{name} needs classes, and {scenario.task.name!r} has none: {takes}")]
    if not model.is_module:
        return []
    module = repr(scenario.model.name)
    if not algorithm.any_model:
        needs = f"{name}, as it is set, needs layers of fedsim's own (it does not say any_model = True)"
        takes = "say so if it does not, or take a model of fedsim's (--list model), or an algorithm such as fedavg"
        return [Problem("algorithm", f"{needs}, and {module} is a torch module: {takes}")]
    if "embed" in algorithm.needs and not model.has_embed():
        remedy = "give it a method embed(x, ...), as forward, that returns what its last layer is given"
        return [Problem("model", f"{name} uses embeddings, and {module} has none: {remedy}")]
    return []


def pair_problems(parts: Parts) -> list[Problem]:
    """Return the first thing that does not fit; nothing where the point learns nothing."""
    scenario, algorithm = parts.scenario, parts.algorithm
    if scenario.algorithm is None or scenario.model is None or scenario.data is None or not algorithm.learns:
        return []
    model, task = scenario.model.name, scenario.task.name
    pairs, asked = find.build("model", scenario.model).pairs, find.build("task", scenario.task).pairs
    events = find.build("stream", scenario.data.stream).events
    if not (pairs or asked or events):
        return []
    others = [name for name in scenario.measure.splits if not find.build("split", Part(name=name)).pairs]
    cases = [
        (asked and not pairs, "model",
         f"{model!r} embeds nodes, and {task!r} needs a model that judges pairs: take dygformer"),
        (pairs and not asked, "task", f"the model {model!r} judges pairs, and {task!r} needs embeddings of nodes: "
         "take task: event_prediction, or another model"),
        (events and not pairs, "data.stream.scored", f"'events' asks whether pairs have an event, which {task!r} does "
         "not answer: take task: event_prediction and model: dygformer, or scored: links"),
        (not events, "data.stream", f"{task!r} needs events and their seconds: take {STREAM}"),
        (not algorithm.any_model or algorithm.needs, "algorithm",
         f"{scenario.algorithm.name!r} does more with a model than train, send "
         f"and average it, and {model!r} judges pairs without embeddings of nodes: take fedavg or local"),
        (scenario.data.keep.fanout, "data.keep.fanout", "thins the edges of snapshots, and a model of pairs reads "
         "events: take data.keep.edges, or leave it out"),
        (others, "measure.splits", f"{''.join(others[:1])!r}: {task!r} is scored on each client's later events; take "
         "test or val"),
    ]  # fmt: skip
    return [Problem(key, message) for wrong, key, message in cases if wrong][:1]


def rehearse(parts: Parts) -> list[Problem]:
    """Return what does not fit the clients and links: protocol, topology, effects, sampler or tables."""
    wrong: list[Problem] = []
    scenario, protocol, rng = parts.scenario, parts.protocol, parts.rng
    with noted_as("clients", wrong):
        _ = parts.columns
    if not wrong:
        with noted_as("protocol", wrong):
            protocol.suits(parts.count)
    if not wrong and protocol.asks and "speed" not in parts.columns:
        message = "is missing; give it, or a column 'gflops' in clients.table"
        wrong.append(Problem("clients.speed", message))
    if not wrong:
        with noted_as("network.topology", wrong):
            traits = Traits(parts.countries, None if scenario.data is None else _not_loaded)
            network = parts.network(simpy.Environment(), lambda row: None, traits)
    if wrong:
        return wrong
    if parts.effects and network.has_server:
        network.server_status = ServerStatus()
    for number, effect in enumerate(parts.effects):
        with noted_as(f"network.effects.{number}", wrong):
            if effect.on_messages and protocol.silent:
                message = f"affects messages, and under {scenario.protocol.name!r} clients neither send nor receive any"
                raise UserError(f"{scenario.network.effects[number].name!r} {message}; leave it out")
            if not any(getattr(effect, flag) for flag in HOOKS.values()):
                file, hooks = find.path_of(type(effect)), ", ".join(HOOKS)
                raise UserError(f"does nothing: override one or more of {hooks} ({file})")
            check_times(effect)
            effect.drive(network.env, network, rng(f"effect/{number}"))
            effect.forge(parts.count, rng(f"effect/{number}/forge"))
    with noted_as("clients.sampler", wrong):
        count = parts.count
        parts.sampler.suits(count, protocol.cohorts(count))
        everybody: Any = SimpleNamespace(  # free, equal, and never asked before
            cohorts=0,
            last_asked=np.zeros(count, dtype=np.int64),
            training_nodes=np.ones(count, dtype=np.int64),
            statistics=ClientStatistics(count) if parts.sampler.observes else _Unobserved(),
            availability=lambda: np.ones(count),
        )
        few = np.arange(min(count, 100))
        for free, most in ((few, len(few) // 2), (np.arange(count), count)):
            chosen = parts.sampler.choose(free, most, everybody, rng("participation"))
            sound = isinstance(chosen, np.ndarray) and len(chosen) <= most and np.isin(chosen, free).all()
            if not sound or (chosen[1:] <= chosen[:-1]).any():
                wanted = f"at most {most} of the {len(free)} clients `free`, as an ascending array"
                raise UserError(f"{type(parts.sampler).__name__}.choose must return {wanted}, not {chosen!r:.80}")
        if not len(chosen):
            raise UserError("no client would ever be asked; give at least one a positive rate")
    return wrong


def _not_loaded() -> Ints:
    raise RuntimeError("what clients hold was asked for before the run has begun; ask in the process of the effect")


@contextmanager
def noted_as(key: str, wrong: list[Problem]) -> Iterator[None]:
    """Add the errors raised within the block, or in a file of the user's, to `wrong`: at their own key or this."""
    try:
        yield
    except ScenarioError as error:
        wrong += error.problems
    except UserError as error:
        wrong.append(Problem(key, str(error)))
    except Exception as error:
        if not (place := source.place_of(error)):
            raise
        wrong.append(Problem(key, f"{source.in_a_line(error)} ({place})"))


class _Unobserved:
    """What stands for the statistics where nothing is observed."""

    def __getattr__(self, name: str) -> None:
        raise AttributeError(f"statistics.{name} needs `observes = True` in the sampler's class")
