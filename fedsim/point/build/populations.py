"""Populations: the measured access links of a scenario's clients, each in its country.

A client's country is that of the table, then `country`, then a share of `countries`.  Which client lives where, and how
good its link is for its country, are drawn from two streams, so that a changed mix of countries leaves the latter.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from fedsim.core.arrays import Floats, Strings
from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.seeds import Rng
from fedsim.net.measurements import measured, profiles
from fedsim.scenario.deployment import Measured

KEY = "network.profile.measured"
PLACES, LINKS = "network.profile", KEY  # random streams
SHOWN = (0.05, 0.25, 0.5, 0.75, 0.95)


def rows(given: Measured, where: Strings, rng: Rng) -> dict[str, Floats]:
    """Return latency, uplink and downlink of each client, each (K,) in SI units; `where` is its country.

    Raises ScenarioError for what is wrong in the countries or their links.
    """
    try:
        return measured.rows(where, rng(LINKS), given.down_up, given.rates_rtt, given.floor)
    except ValueError as error:
        raise ScenarioError.at(KEY, str(error)) from None


def countries(given: Measured, listed: Strings, rng: Rng) -> Strings:
    """Return the country of each client (K,).

    `listed` is that of the table, "" where it has none.  Raises ScenarioError for a client without a country.
    """
    where = listed.copy()
    if (open_ := np.flatnonzero(where == "")).size:
        if wrong := problems(given, False):
            if given.country is None and given.countries is None:
                message = f"needs a country: the column 'country' of clients.table has none for client {open_[0]}; "
                wrong = [Problem(KEY, f"{message}give it there, or give 'country' or 'countries'")]
            raise ScenarioError(wrong)
        where[open_] = _drawn(given, len(where), rng(PLACES))[open_]
    return where


def problems(given: Measured, listed: bool) -> list[Problem]:
    """Return the problems of the keys; `listed` means that a table may give the countries."""
    named = {f"{KEY}.country": given.country} if given.country is not None else {}
    named |= {f"{KEY}.countries.{code}": code for code in given.countries or {}}
    found = [problem for key, code in named.items() if (problem := _problem(key, partial(measured.links, code)))]
    if given.country is not None and given.countries is not None:
        found.append(Problem(KEY, "has both 'country' and 'countries'; keep one"))
    if not named and not listed:
        message = "needs a country: give 'country: US', 'countries: {US: 0.5, IN: 0.5}', or a column "
        found.append(Problem(KEY, f"{message}'country' in clients.table"))
    if given.countries is not None:
        shares, rng = given.countries, np.random.default_rng(0)
        found += filter(None, [_problem(f"{KEY}.countries", lambda: profiles.divided(shares, 1, rng, "countries"))])
    found += filter(None, [_problem(KEY, lambda: measured.gaussian(given.down_up, given.rates_rtt))])
    if given.floor is not None and not found:
        floor = given.floor
        tries = [_problem(f"{KEY}.floor", partial(measured.check_floor, floor, code)) for code in named.values()]
        found += [*filter(None, tries)][:1]
    return found


def described(columns: dict[str, Floats]) -> str:
    """Return quantiles of a population's links in words, for people."""
    kinds = (("down", "downlink", 1e-6, "Mbit/s"), ("up", "uplink", 1e-6, "Mbit/s"), ("rtt", "latency", 2e3, "ms"))
    texts = []
    for name, key, unit, words in kinds:
        values = np.quantile(columns[key], SHOWN) * unit
        texts.append(f"{name} {' / '.join(f'{value:.3g}' for value in values.tolist())} {words}")
    return f"{', '.join(texts)} ({' / '.join(f'p{100 * share:.0f}' for share in SHOWN)} of the clients drawn)"


def _drawn(given: Measured, count: int, rng: np.random.Generator) -> Strings:
    if given.countries is None:
        return np.full(count, given.country)
    return np.array([*given.countries])[profiles.divided(given.countries, count, rng, "countries")]


def _problem(key: str, trial: Callable[[], object]) -> Problem | None:
    try:
        trial()
    except ValueError as error:
        return Problem(key, str(error))
    return None
