"""The torch module of a finished run, with the weights that `measure: {keep: weights}` has kept.

The module is built as the run has built it, by the run's own scenario and the sizes in its row.  Not covered: code that
has changed since the run; a class with other parameters does not take the weights.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.read.stored import POINTS
from fedsim.core.errors import UserError
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, lookup
from fedsim.scenario.text import yaml_file

MOST = 5  # clients named in a message


def module(results: Path, run: str, client: int | None, near: Iterable[Path]) -> Any:
    """Return the module of a run, or of a client of it that has a model of its own, in evaluation mode.

    `near` are the folders of the user's own modules.  Raises UserError for what is missing.
    """
    from fedsim.learner import weights

    folder = results / POINTS / run
    if not (folder / weights.FILE).is_file():
        raise UserError(f"{run} has kept no weights; write measure: {{keep: weights}} in its scenario, and run it anew")
    part = Part.model_validate(yaml_file.read(folder / "scenario.yaml").data["model"])
    with lookup.within_reach(*near):
        model = find.build("model", part)
    if not model.is_module:
        path = f"{folder / weights.FILE}"
        raise UserError(f"{part.name!r} is no torch module; torch.load({path!r}, weights_only=True) has its weights")
    sizes = json.loads((folder / "row.json").read_text(encoding="utf-8"))["weights"]
    built = model.module(sizes["features"], sizes["outputs"])
    built.load_state_dict(_of_client(weights.read(folder / weights.FILE), run, client))
    return built.eval()


def _of_client(kept: dict[Any, Any], run: str, client: int | None) -> dict[str, Any]:
    """Return the state dict of a client, or the one that all share."""
    if not all(isinstance(value, dict) for value in kept.values()):
        return kept
    if client in kept:
        return kept[client]  # type: ignore[no-any-return]
    more = ", …" if len(kept) > MOST else ""
    known = f"{', '.join(map(str, [*kept][:MOST]))}{more}"
    raise UserError(f"each client of {run} has a model of its own: give client= one of {known}")
