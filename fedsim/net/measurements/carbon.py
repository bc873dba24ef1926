"""Carbon: grams of CO2 equivalent of a kilowatt-hour of electricity in 213 countries and regions.

Yearly means over a country's own generation, life cycle included: Ember via Our World in Data, as packaged by
codecarbon (`tables/NOTICES.txt`); of 2023 or 2022, five of other years.  One figure each, without a range.
Very small grids are crude.  Not modelled: hours, regions of a country, imports, losses of the grid.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fedsim.core import table
from fedsim.core.table import Column
from fedsim.core.units import nearest

FILE = Path(__file__).parent / "tables" / "carbon_intensity.csv"
COLUMNS = (Column("country", text=True), Column("grams_per_kwh", low=0.0), Column("year", whole=True))


@cache
def _figures() -> Mapping[str, float]:
    columns = table.read(FILE, COLUMNS)
    return dict(zip(columns["country"].tolist(), columns["grams_per_kwh"].tolist(), strict=True))


def grams(country: str) -> float:
    """Return the grams of CO2 equivalent of a kilowatt-hour.  Raises ValueError for a country that is not listed."""
    figures = _figures()
    if country not in figures:
        near = nearest(country, figures)
        mean = f"did you mean {near!r}?" if near else "codes have two letters (ISO 3166), such as US"
        raise ValueError(f"{country!r} is not in the table of carbon; {mean} Or give it under costs.grams_per_kwh")
    return figures[country]
