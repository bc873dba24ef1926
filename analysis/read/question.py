"""The question of a scenario and the meaning of its scores, from its text and its resolved form."""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import pandas as pd
import yaml

from analysis.read.load import Runs, lookup
from analysis.report.page import note

NO_TEXT = "yaml-language-server"
SPLITS = {
    "test": "on the clients' test sets", "val": "on the clients' validation sets",
    "train": "on the clients' training sets", "held_out": "on nodes that no client owns",
    "pooled": "on all clients' test sets as one graph", "across": "on links between clients",
    "all_periods": "on the test of all periods, arrived or not",
}  # fmt: skip


def question(runs: Runs, default: str) -> str:
    """Return what the first scenario asks, in its description or its leading comment; or the default."""
    for given in runs.scenarios.values():
        if (described := _described(given)).endswith("?"):
            return described
        asked = [one for one in re.split(r"(?<=[.?!])\s+", _leading_comment(given)) if one.endswith("?")]
        if asked:
            return asked[0]
    return default


def descriptions(runs: Runs) -> list[str]:
    """Return the scenarios' descriptions, each once, except the one used as the question."""
    found = dict.fromkeys(filter(None, (_described(given) for given in runs.scenarios.values())))
    return [words for words in found if words != question(runs, "")]


def setting(points: pd.DataFrame, resolved: Mapping[str, Mapping[str, Any]], metric: str, fixed: bool) -> str:
    """Return what was scored, on whom and with which seeds, in a sentence; for a study of traffic only the seeds.

    `fixed` says whether the score is on the fixed test of all periods (see frontier).
    """
    seeds = sorted(points["seed"].unique(), key=lambda seed: (len(seed), seed))
    drawn = f"{'seed' if len(seeds) == 1 else 'seeds'} {_in_a_row(seeds)}."
    counts = {lookup(dict(resolved[point]), "clients.count") for point in points["run"] if point in resolved}
    number = counts.pop() if len(counts) == 1 else ""
    clients = f"{int(float(number)):,} clients" if number.replace(".", "", 1).isdigit() else "all clients"
    splits = ["all_periods"] if fixed else points["scored_split"].unique()
    where = SPLITS.get(splits[0], f"on {splits[0]}") if len(splits) == 1 else "on the scored splits"
    over = {lookup(dict(resolved[point]), "measure.over") for point in points["run"] if point in resolved}
    return note(
        "setting", scored=bool(points["score"].notna().any()), metric=metric, models=[*points["scored_model"].unique()],
        where=where, clients=clients, own=over == {"clients"}, drawn=drawn,
    )  # fmt: skip


def _leading_comment(given: str) -> str:
    head = takewhile(lambda line: line.startswith("#"), given.splitlines())
    return " ".join(line.lstrip("# ").strip() for line in head if NO_TEXT not in line)


def _described(given: str) -> str:
    try:
        plain = yaml.safe_load(given)
    except yaml.YAMLError:
        return ""
    return str(plain.get("description") or "") if isinstance(plain, dict) else ""


def _in_a_row(seeds: Sequence[str]) -> str:
    """Return "0 to 4" for consecutive seeds, otherwise all of them, or their number if there are many."""
    whole = [int(seed) for seed in seeds if seed.isdigit()]
    if len(whole) == len(seeds) > 2 and whole == list(range(whole[0], whole[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(seeds) if len(seeds) <= 10 else f"{seeds[0]} to {seeds[-1]} ({len(seeds)} of them)"
