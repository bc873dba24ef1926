"""Nights: clients are available when phones have been found idle, charging and on Wi-Fi, which is mostly at night."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import simpy
from pydantic import Field

from fedsim.core import seeds
from fedsim.core.units import Seconds
from fedsim.net.effect import Drive, Network, Traits
from fedsim.net.measurements import days
from fedsim.net.presence.grouping import GROUPS, Grouped
from fedsim.net.presence.offline_intervals import MeasuredIntervals


@dataclass(frozen=True)
class Nights(Grouped):
    """Each client is as available as a measured phone, drawn with replacement, on days drawn among that phone's three.

    The tables and what is wrong with them are described in `fedsim/net/measurements/days.py`: 8.4 % of the
    time, 13 % at four in the morning, 5.5 % in the early afternoon, in one stretch a day of two hours on
    average, and a third of the phones never.  A client in a country has that country's time of day, any other
    the time of day of the run.

    With `groups` each client follows its group with the probability `strength`: all that do are online at the
    same times, those of one phone that is drawn for the group, in the group's country or by the clock of the
    run.  Whatever the strength, a client by itself is available as any phone is: what changes is who is
    available together.  Not modelled: phones that are available for longer and have faster links or
    processors as well.
    """

    changes_presence_only: ClassVar[bool] = True

    never: bool = True  # include the 146 of 440 phones that are never available
    # time of day at which the run begins: UTC if clients have a country
    start: Annotated[Seconds, Field(lt=86_400)] = 0.0

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return the process that has clients follow their days; UserError if there are no such groups."""
        self.check_groups(network.traits)
        return self._process(env, network, *rng.integers(2**62, size=2).tolist()) if len(network.nodes) else None

    def absences(self, now: float, traits: Traits, who: int, when: int) -> MeasuredIntervals:
        """Return the clients' absences; `who` is the key of what phones they are, `when` that of their days."""
        streams = self.streams(traits, seeds.uniforms(who, np.arange(len(traits.country)), count=2)[1])
        measured = days.measured()
        phones = np.arange(days.PHONES) if self.never else measured.comers
        drawn = phones[(len(phones) * seeds.uniforms(who, streams, count=1)[0]).astype(np.int64)]
        zones = np.array([days.ahead()[code] if code else 0.0 for code in traits.country.tolist()])
        if self.groups == "labels":
            zones[streams >= GROUPS] = 0.0  # such a group is of no country
        return MeasuredIntervals(now, measured, drawn, streams, self.start + zones, when)

    def _process(self, env: simpy.Environment, network: Network, who: int, when: int) -> Drive:
        # A process, since what clients hold is known only when a run begins
        network.nodes.presence.follow(env, self.absences(env.now, network.traits, who, when))
        yield env.event()  # clients come and go by themselves
