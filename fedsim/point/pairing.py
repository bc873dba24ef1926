"""Check, before the run, whether algorithm, model, task and stream agree on what is judged: vertices, or pairs.

A model of pairs (`fedsim.learn.pair_model`) has no embedding of a vertex by itself and reads events, so that it needs
a task that asks about pairs, a stream that hands out events, and an algorithm that does nothing with a model but train,
send and average it (`Algorithm.pairs`).
"""

from fedsim.core.errors import Problem
from fedsim.learn.algorithm import declared
from fedsim.point.parts import Parts
from fedsim.scenario import find

STREAM = "stream: {name: snapshots, patch: 1000, scored: events, every: 10 updates}"


def problems(parts: Parts) -> list[Problem]:
    """Return what does not fit; nothing where the point learns nothing."""
    scenario, algorithm = parts.scenario, parts.algorithm
    if scenario.algorithm is None or scenario.model is None or scenario.data is None or not algorithm.learns:
        return []
    task, stream = find.build("task", scenario.task), find.build("stream", scenario.data.stream)
    pairs, own = find.build("model", scenario.model).pairs, scenario.model.name
    if task.pairs and not pairs:
        message = f"{own!r} embeds vertices, and {scenario.task.name!r} needs a model that judges pairs: take dygformer"
        return [Problem("model", message)]
    if pairs and not task.pairs:
        message = f"the model {own!r} judges pairs, and {scenario.task.name!r} needs embeddings of vertices: "
        return [Problem("task", f"{message}take task: event_prediction, or another model")]
    if stream.events and not pairs:
        message = f"'events' asks whether pairs have an event, which {scenario.task.name!r} does not answer: take "
        return [
            Problem("data.stream.scored", f"{message}task: event_prediction and model: dygformer, or scored: links")
        ]
    if not pairs:
        return []
    if not stream.events:
        message = f"{scenario.task.name!r} needs events and their seconds: take {STREAM}"
        return [Problem("data.stream", message)]
    if not declared(algorithm, "pairs"):
        message = f"{scenario.algorithm.name!r} does more with a model than train, send and average it, and {own!r} "
        return [Problem("algorithm", f"{message}judges pairs without embeddings of vertices: take fedavg or local")]
    if scenario.data.keep.fanout:
        message = (
            "thins the edges of snapshots, and a model of pairs reads events: take data.keep.edges, or leave it out"
        )
        return [Problem("data.keep.fanout", message)]
    other = [split for split in scenario.measure.splits if split not in ("test", "val")]
    if other:
        message = f"{other[0]!r}: {scenario.task.name!r} is scored on each client's later events; take test or val"
        return [Problem("measure.splits", message)]
    return []
