"""The two tables of the reference study, as its page reads them."""

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Results:
    """`cells` has a row a run (docs/reference/cells.csv), `courses` one a scoring (docs/reference/courses.parquet)."""

    cells: pd.DataFrame
    courses: pd.DataFrame
