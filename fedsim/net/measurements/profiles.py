"""Profiles: typical access links of several kinds, for scenarios without measurements of their own.

They are rounded figures for orientation, not measurements of a given network, and their spreads are small;
`measured` draws from measurements by country.  Prefer your own if you have any. Medians of rates and delays
follow published figures of many users, as far as there are any:

* wifi: fixed broadband as seen over home Wi-Fi.  Ookla, Speedtest Global Index: median download 94 Mbit/s (mid 2024),
  mean upload 46 Mbit/s (September 2020), median round trip 10 ms (November 2022).
* lte: Opensignal, The State of LTE, February 2018: mean download 16.9 Mbit/s.  Ookla, September 2020, mobile, then
  mostly LTE: mean upload 11 Mbit/s, round trip 40 ms.
* 5g: Ookla, third quarter of 2023: median download 203, upload 19 Mbit/s; mobile round trip 28 ms (November 2022).
* fibre, cable: rates are tiers as sold, symmetric and not.  FCC, Measuring Broadband America, 2011: mean round trips
  of 17 ms (fibre) and 28 ms (cable); taken to be lower by now.
* iot: LTE-M, Cat-M1 in half duplex: at most 300 kbit/s down and 375 kbit/s up (3GPP Release 13).

The spread among links of a kind, their jitter and their loss are orders of magnitude, chosen here.  Rates and
delays of one client are drawn independently.  Not modelled: rates that vary with time (`effects: trace`),
losses in bursts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsim.core.arrays import Floats, Ints
from fedsim.core.units import RATE, SECONDS, Draw, did_you_mean


@dataclass(frozen=True)
class LinkProfile:
    """A kind of access link; the draws are in seconds and bit/s, one value per client."""

    latency: Draw  # one way
    uplink: Draw
    downlink: Draw
    jitter: Draw  # the longest extra delay of a packet
    loss: float  # of a packet, in each direction


def _profile(latency: str, uplink: str, downlink: str, jitter: str, loss: float) -> LinkProfile:
    return LinkProfile(SECONDS.draw(latency), RATE.draw(uplink), RATE.draw(downlink), SECONDS.draw(jitter), loss)


def _lognormal(
    latency: str, spread: float, uplink: str, downlink: str, rate_spread: float, jitter: str, loss: float
) -> LinkProfile:
    up, down = (f"lognormal({median}, {rate_spread})" for median in (uplink, downlink))
    return _profile(f"lognormal({latency}, {spread})", up, down, jitter, loss)


PROFILES: Mapping[str, LinkProfile] = {
    "fibre": _lognormal("5 ms", 0.4, "300 Mbit/s", "300 Mbit/s", 0.5, "1 ms", 0.0001),
    "cable": _lognormal("10 ms", 0.4, "20 Mbit/s", "200 Mbit/s", 0.5, "3 ms", 0.0005),
    "wifi": _lognormal("5 ms", 0.6, "45 Mbit/s", "90 Mbit/s", 0.8, "5 ms", 0.001),
    "lte": _lognormal("20 ms", 0.5, "8 Mbit/s", "17 Mbit/s", 0.8, "15 ms", 0.002),
    "5g": _lognormal("14 ms", 0.4, "19 Mbit/s", "200 Mbit/s", 0.8, "8 ms", 0.001),
    "iot": _profile(
        "lognormal(60 ms, 0.5)", "uniform(100 kbit/s, 375 kbit/s)", "uniform(100 kbit/s, 300 kbit/s)", "50 ms", 0.005
    ),
}
NAMES = tuple(PROFILES)


def named(name: str) -> LinkProfile:
    """Return the profile of that name.  Raises ValueError, listing the names, for any other."""
    if name not in PROFILES:
        raise ValueError(f"{name!r} is not a link profile{did_you_mean(name, NAMES)}")
    return PROFILES[name]


def divided(mix: Mapping[str, float], count: int, rng: np.random.Generator, of: str) -> Ints:
    """Return which entry of `mix` each of `count` clients has, assigned at random in the given shares.

    The numbers are the shares, rounded so that they add up (largest remainders).  Raises ValueError for
    shares (of what `of` says) that are not between 0 and 1 or do not add up to 1.
    """
    for name, share in mix.items():
        if not 0 <= share <= 1:
            raise ValueError(f"the share of {name!r} is {share}; it must lie between 0 and 1")
    if abs(math.fsum(mix.values()) - 1) > 1e-9:
        raise ValueError(f"the shares of {of} add up to {math.fsum(mix.values()):g}; they must add up to 1")
    exact = np.array([share * count for share in mix.values()])
    numbers = np.floor(exact + 1e-9).astype(np.int64)
    numbers[np.argsort(numbers - exact, kind="stable")[: count - int(numbers.sum())]] += 1
    return rng.permutation(np.repeat(np.arange(len(mix)), numbers))


def rows(mix: Mapping[str, float], count: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Return latency and jitter (s), uplink and downlink (bit/s), loss_up and loss_down of `count` clients, each (K,).

    Raises ValueError as `named` and `divided` do.
    """
    of_kinds = [named(name) for name in mix]
    places = divided(mix, count, rng, "link profiles")
    columns = {key: np.zeros(count) for key in ("latency", "uplink", "downlink", "jitter", "loss_up", "loss_down")}
    for place, profile in enumerate(of_kinds):
        clients = np.flatnonzero(places == place)
        for key in ("latency", "uplink", "downlink", "jitter"):
            columns[key][clients] = getattr(profile, key).sample(rng, len(clients))
        columns["loss_up"][clients] = columns["loss_down"][clients] = profile.loss
    return columns
