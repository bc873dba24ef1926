"""What DG-CoLearn's options require of the model and of the data, refused before a run begins."""

from algorithms.dg_colearn.exchange import TWO_LAYERS
from algorithms.dg_colearn.incremental import Terms
from fedsim.core.errors import Problem, ScenarioError


def check(terms: Terms, *, changes: bool) -> None:
    """Raise ScenarioError for a model, or a graph (which `changes` or not), that the options do not go with."""
    for option, given, wrong in (
        ("bptt", "true", _bptt(terms, changes) if terms.bptt else None),
        ("exchange", repr(terms.exchange), _exchange(terms, changes) if terms.exchange != "none" else None),
        ("score_past", "true", _past(terms) if terms.recalls else None),
    ):
        if wrong:
            raise ScenarioError([Problem(f"algorithm.{option}", f"{given} {wrong}")])


def _bptt(terms: Terms, changes: bool) -> str | None:
    if terms.exchange != "none" or terms.hops is not None:
        return "replays whole graphs without an exchange; take exchange: none and retrain: full"
    if not terms.width:
        return "needs a model that keeps states, such as {name: gcrn_baseline}; or leave it out"
    return None if changes else "needs a graph that changes, under the stream 'snapshots'; or leave it out"


def _past(terms: Terms) -> str | None:
    if terms.exchange == "fedgcn":
        return "needs an exchange about one snapshot, and fedgcn's sums outlast it; take another, or leave it out"
    return None


def _exchange(terms: Terms, changes: bool) -> str | None:
    widths = terms.task.model.delta_widths(terms.task.features, terms.task.outputs)
    if not changes:
        return "needs a graph that changes, under the stream 'snapshots'; or say exchange: none"
    if not widths:
        return "needs a model whose sums can be corrected, such as {name: roland}; or say exchange: none"
    if len(widths) != 2 and terms.exchange in TWO_LAYERS:
        return f"is defined for two layers, and the model has {len(widths)}; take layerwise"
    if terms.exchange == "layerwise" and not terms.width:
        return "needs a model that keeps states, such as {name: roland}; take exact"
    return None
