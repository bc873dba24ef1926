"""Check whether a scenario's metrics and splits can be scored."""

from collections.abc import Mapping, Sequence

from fedsim.core.errors import Problem, ScenarioError
from fedsim.data import common_pairs
from fedsim.data.graph import Graph, Period
from fedsim.learn import crossing
from fedsim.learn.algorithm import Algorithm
from fedsim.learn.metric import Metric
from fedsim.learn.task import Task
from fedsim.learner import all_periods, setaside


def check(
    metrics: Mapping[str, Metric],
    splits: Sequence[str],
    task: Task,
    algorithm: Algorithm,
    apart: Mapping[str, Sequence[Graph]],
    periods: Sequence[Sequence[Period]] = (),
    heuristics: Sequence[str] = (),
) -> None:
    """Raise ScenarioError, with the remedy, unless these metrics and splits can be scored.

    `apart` holds the graphs of splits with separate graphs, `periods` each client's whole stream.
    """
    _suit(task, metrics)
    _has_across(task, algorithm, splits)
    _has_same_pairs(splits, periods, heuristics)
    _has_apart(task, apart, splits)
    _has_all_periods(algorithm, periods, splits)


def _suit(task: Task, metrics: Mapping[str, Metric]) -> None:
    for name, metric in metrics.items():
        if not {*metric.of} & {*task.judges}:
            message = f"{name!r} scores {' and '.join(metric.of)}, which {type(task).__name__} does not predict"
            raise ScenarioError([Problem("measure.metrics", message)])


def _has_across(task: Task, algorithm: Algorithm, splits: Sequence[str]) -> None:
    if crossing.SPLIT in splits and (algorithm.overview is None or "embeddings" not in task.judges):
        message = "'across' scores links between clients: it needs task: link_prediction under the stream 'snapshots'"
        raise ScenarioError([Problem("measure.splits", message)])
    if splits[0] == crossing.SPLIT:
        message = (
            "'across' has no score per client, and the summary reports the first split; put 'test' or 'val' before it"
        )
        raise ScenarioError([Problem("measure.splits", message)])


def _has_same_pairs(splits: Sequence[str], periods: Sequence[Sequence[Period]], heuristics: Sequence[str]) -> None:
    """Check that there are pairs that are the same for every run, and a score of clients before them."""
    same = [split for split in splits if split in common_pairs.SPLITS]
    if same and not any("pairs" in period.graph for own in periods for period in own):
        message = "needs task: link_prediction under the stream 'snapshots' with scored: links"
        raise ScenarioError([Problem("measure.splits", f"{same[0]!r} scores links of a later snapshot: it {message}")])
    if splits[0] in same:
        message = "has no score per client, and the summary reports the first split; put 'test' or 'val' before it"
        raise ScenarioError([Problem("measure.splits", f"{splits[0]!r} {message}")])
    if heuristics and not same:
        message = "scores pairs that are the same for every run; add 'all_pairs' to measure.splits, or leave it out"
        raise ScenarioError([Problem("measure.heuristics", f"{heuristics[0]!r} {message}")])


def _has_apart(task: Task, apart: Mapping[str, Sequence[Graph]], splits: Sequence[str]) -> None:
    """Check that splits with separate graphs have one, and are not the only splits."""
    streams = {setaside.HELD_OUT: "streams 'static' and 'snapshots'", setaside.POOLED: "stream 'static'"}
    asks = {setaside.HELD_OUT: "the vertices that nobody owns", setaside.POOLED: "all clients' test vertices"}
    none = {
        setaside.HELD_OUT: "every labelled vertex has an owner; take a partition that sets some aside: label_skew with "
        "held, buckets",
        setaside.POOLED: "no client has any; give data.split.test a share",
    }
    for split in (split for split in splits if split in setaside.SPLITS):
        message = None
        if split not in apart or type(task).rows is not Task.rows:
            message = f"it needs task: node_classification and the {streams[split]}"
        elif set(splits) <= {*setaside.SPLITS, crossing.SPLIT, all_periods.SPLIT, *common_pairs.SPLITS}:
            message = "it cannot be the only split; add 'test' or 'val'"
        elif not any(bool(graph["test"].any()) for graph in apart[split]):
            message = none[split]
        if message:
            raise ScenarioError([Problem("measure.splits", f"{split!r} scores {asks[split]}: {message}")])


def _has_all_periods(algorithm: Algorithm, periods: Sequence[Sequence[Period]], splits: Sequence[str]) -> None:
    """Check that a score over all periods makes sense here, and is not the first split."""
    if all_periods.SPLIT not in splits:
        return
    message = all_periods.refusal(periods, algorithm)
    if message is None and (splits[0] == all_periods.SPLIT or not {"train", "val", "test"} & {*splits}):
        message = "the summary reports the first split, over the periods met; put 'test' or 'val' before it"
    if message:
        raise ScenarioError(
            [Problem("measure.splits", f"'all_periods' scores the test vertices of all periods: {message}")]
        )
