"""Where the real graphs are, and a cache of its own for every test session."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of published graphs."""
    given = os.environ.get("FEDSIM_DATA")
    if not given:
        pytest.skip("FEDSIM_DATA is not set: no real graphs to test on")
    return Path(given)


@pytest.fixture(scope="session")
def cached_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home folder for the session, so that tests neither use nor fill the user's cache."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        yield home
