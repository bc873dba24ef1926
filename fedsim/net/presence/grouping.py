"""Groups of clients to which an effect happens together: those of a country, or those that hold the same.

What effects may know of clients beside their links are their `Traits`.  The network does not know what the
labels are that it counts; in learning they are classes.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.core.arrays import Floats, Ints
from fedsim.core.errors import UserError
from fedsim.core.units import Fraction, PositiveFraction
from fedsim.net.effect import Effect, Traits

NONE = -1  # the group of clients without one
GROUPS = 2**32  # numbers of groups' streams; those before are clients'


@dataclass(frozen=True, kw_only=True)
class Grouped(Effect):
    """An effect on groups of clients, if `groups` is given.

    With `groups: labels` a client belongs with those whose most common label is the same, the lowest of
    equally common ones.  With `classes` there is one group: the clients of whose training nodes at least the
    share `holding` has one of these labels.  Clients without any label belong to no group, nor do clients
    without a country.
    """

    groups: Literal["labels", "country"] | None = None  # what makes clients a group
    classes: tuple[int, ...] | None = None  # with labels: one group, of clients that hold mostly these
    # least share of a client's training nodes that have one of the classes
    holding: PositiveFraction = 0.5
    strength: Fraction = 1.0  # 0: clients are independent, 1: groups act as one

    def __post_init__(self) -> None:
        """Raise ValueError for options that make no sense together."""
        name = type(self).__name__.lower()
        if self.groups is None and (self.classes is not None or self.strength != 1):
            given = "classes" if self.classes is not None else "strength"
            raise ValueError(f"{name}: option {given!r} is about groups; give 'groups: labels' or 'groups: country'")
        if self.groups == "country" and self.classes is not None:
            raise ValueError(f"{name}: option 'classes' needs 'groups: labels'; leave one of the two out")
        if self.classes is not None and (not self.classes or min(self.classes) < 0):
            raise ValueError(f"{name}: option 'classes' is {[*self.classes]}; list classes, which count from 0")
        if self.holding != 0.5 and self.classes is None:
            raise ValueError(f"{name}: option 'holding' says how much of the 'classes' makes a group; give 'classes'")

    def check_groups(self, traits: Traits) -> None:
        """Raise UserError if what makes groups is not known of these clients."""
        name = type(self).__name__.lower()
        if self.groups == "country" and not (traits.country != "").any():
            raise UserError(
                f"{name}: 'groups: country' needs the clients' countries; give network.profile: {{measured: {{country: "
                "US}}, or a column 'country' in clients.table"
            )
        if self.groups == "labels" and traits.held is None:
            raise UserError(
                f"{name}: 'groups: labels' needs clients that hold labelled data, and this scenario learns nothing; "
                "give 'data' and an algorithm that learns, or take 'groups: country'"
            )

    def members(self, traits: Traits) -> Ints:
        """Return each client's group (K,), NONE without one; its number does not depend on the other clients.

        Raises UserError if there are no such labels.
        """
        if self.groups == "country":
            return np.array([number_of(code) for code in traits.country.tolist()], dtype=np.int64)
        if self.groups is None or traits.held is None:
            return np.full(len(traits.country), NONE)
        counts = traits.held()
        labels, total = counts.shape[1], counts.sum(axis=1)
        name = type(self).__name__.lower()
        if not total.any():
            raise UserError(f"{name}: 'groups: labels' needs labels, and these data have none; take 'groups: country'")
        if self.classes is None:
            return np.where(total > 0, counts.argmax(axis=1), NONE)
        if max(self.classes) >= labels:
            raise UserError(
                f"{name}: there is no class {max(self.classes)} in 'classes'; they go from 0 to {labels - 1}"
            )
        theirs = counts[:, sorted(set(self.classes))].sum(axis=1)
        inside = (total > 0) & (theirs >= self.holding * total)
        if not inside.any():
            share = f"{100 * self.holding:g} % of its training nodes of the classes {[*self.classes]}"
            raise UserError(f"{name}: no client has {share}; take a lower 'holding', or other 'classes'")
        return np.where(inside, 0, NONE)

    def streams(self, traits: Traits, drawn: Floats) -> Ints:
        """Return whose stream each client follows (K,): its group's if its number in [0, 1) says so, else its own."""
        groups = self.members(traits)
        return np.where((groups != NONE) & (drawn < self.strength), GROUPS + groups, np.arange(len(groups)))


def number_of(code: str) -> int:
    """Return the group of a country, NONE for an empty code."""
    return int(code, 36) if code else NONE
