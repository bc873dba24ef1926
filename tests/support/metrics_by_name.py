"""Metrics and splits by their names, as a run builds them."""

from fedsim.learn.metric import Judged
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


def built(*names):
    return {name: find.build("metric", Part(name=name)) for name in names}


def splits(*names):
    return {name: find.build("split", Part(name=name)) for name in names}


def of(prediction):
    """The names of the metrics that score predictions of this kind."""
    return [name for name in find.names("metric") if prediction in find.build("metric", Part(name=name)).of]


def values(name, logits, y, owner, owners):
    return built(name)[name].values(Judged(logits, y, owner, owners))
