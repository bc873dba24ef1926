"""What must add up: bytes and their fates, the summary's sums, asks and what became of them."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from links import quantity
from tables import CLOSE, WHOLE, Findings, Point


def bytes_moved(point: Point) -> Findings:
    """Each message has one fate that fits what moved of it, and no size is negative."""
    for row in point.rows("transfers"):
        if row.nbytes < 0 or row.wire_bytes < 0:
            yield f"a negative size: {row}"
        if row.fate in WHOLE:
            if row.wire_bytes < row.nbytes:
                yield f"less moved than was sent: {row}"
        elif row.fate not in ("cut", "lost") or (row.fate == "lost") != (row.wire_bytes == 0):
            yield f"a fate that does not fit: {row}"
        if row.src == row.dst:
            yield f"a message to itself: {row}"


def _level(node: int) -> int:
    return 0 if node >= 0 else 2 if node == -1 else 1


def sums(point: Point) -> Findings:
    """The summary's sums are those of the tables."""
    moved, updates = point.rows("transfers"), point.tables["updates"]
    came = [row for row in moved if row.fate == "delivered"]
    rise: Counter[int] = Counter()
    for row in came:
        rise[int(np.sign(_level(row.dst) - _level(row.src)))] += int(row.nbytes)
    told = {"bytes_up": rise[1], "bytes_down": rise[-1]}
    if point.topology == "peers" and moved:
        told = {"bytes_peer": rise[0]}
    told["bytes_wasted"] = sum(int(row.wire_bytes) for row in moved) - sum(rise.values())
    counted = updates[updates["step"] != "restart"]
    told["updates"] = int(_rises(counted).sum())
    told |= {name: int(counted[name].sum()) for name in ("asked", "folded", "lost", "late", "refused") if len(updates)}
    for name, value in told.items():
        if value < 0 or not _same(point.row[name], value):
            yield f"{name} is {point.row[name]} in the summary and {value} in the tables"


def _rises(updates: pd.DataFrame) -> Any:
    return (updates["step"] == "train") & (updates["folded"] > 0)


def _same(one: float, other: float) -> bool:
    return (math.isnan(one) and other == 0) or abs(one - other) <= 1e-9 * max(abs(one), abs(other))


def asks(point: Point) -> Findings:
    """Each ask is folded, lost, late or refused; versions count; what was folded had been delivered."""
    updates = point.tables["updates"]
    parts = updates[["folded", "lost", "late", "refused"]]
    if (parts < 0).any(axis=None) or (updates["asked"] != parts.sum(axis=1)).any():
        yield "asked is not the sum of folded, lost, late and refused"
    counted = updates[updates["step"] != "restart"]
    if counted["version"].tolist() != _rises(counted).cumsum().tolist():
        yield f"the versions are {counted['version'].tolist()[:20]}"
    if (updates["staleness"] < 0).any() or (updates["epsilon"].dropna().diff() < -1e-12).any():
        yield "a negative staleness, or epsilon falls"
    until = point.scenario.get("measure", {}).get("until")
    most = until.get("updates") if isinstance(until, dict) else None
    if most is not None and point.protocol not in ("gossip", "isolated") and _rises(counted).sum() > most:
        yield f"{_rises(counted).sum()} updates, and {most} end the run"
    if point.protocol in ("hierarchical", "gossip", "isolated", "replay"):
        return
    moved, folded = point.tables["transfers"], int(counted["folded"].sum())
    ups = moved[(moved["src"] >= 0) & (moved["dst"] == -1)]
    for step, those in counted.groupby("step"):
        came = int(((ups["kind"] == step) & (ups["fate"] == "delivered")).sum())
        if len(moved) and int(those["folded"].sum()) != came:
            yield f"{int(those['folded'].sum())} replies of the step {step} were folded and {came} delivered"
        requests = int(((moved["src"] == -1) & (moved["kind"] == step)).sum())
        if len(moved) and point.protocol in ("sync", "deadline") and int(those["asked"].sum()) > requests:
            yield f"{int(those['asked'].sum())} asks of the step {step} and {requests} requests"
    if len(moved) and folded > len(ups):
        yield f"{folded} replies were folded and {len(ups)} sent"


def fates(point: Point) -> Findings:
    """No more replies came late, or were refused, than the updates count."""
    if point.protocol in ("hierarchical", "gossip", "isolated", "replay", "one_shot"):
        return
    moved, updates = point.tables["transfers"], point.tables["updates"]
    ups = moved[(moved["src"] >= 0) & (moved["dst"] == -1)]
    for step, those in ups.groupby("kind"):
        late = int((those["fate"] == "late").sum())
        told = int(updates.loc[updates["step"] == step, "late"].sum())
        if step in set(updates["step"]) and late > told:
            yield f"{late} replies of the step {step} came late, and {told} asks were"
    refused = int(updates["refused"].sum())
    if len(ups) and refused > (ups["fate"] == "discarded").sum():
        yield f"{refused} replies were refused, and {(ups['fate'] == 'discarded').sum()} discarded"


def budgets(point: Point) -> Findings:
    """What had moved before the last event was less than each budget of bytes."""
    until = point.scenario.get("measure", {}).get("until")
    limits = {name: most for name, most in until.items() if "bytes" in name} if isinstance(until, dict) else {}
    before = [row for row in point.rows("transfers") if row.arrived < point.row["sim_seconds"] - CLOSE]
    for name, most in limits.items():
        up = sum(int(row.wire_bytes) for row in before if row.src >= 0)
        down = sum(int(row.wire_bytes) for row in before if row.dst >= 0)
        moved = {"bytes_up": up, "bytes_down": down, "bytes": up + down}[name]
        if moved >= quantity(most) + len(before) + 1:
            yield f"{moved} bytes had moved before the end, and {most} ({name}) end the run"
