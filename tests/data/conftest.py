"""A cache of its own for every test session."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import homes
import pytest


@pytest.fixture(scope="session")
def cached_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home folder for the session, so that tests neither use nor fill the user's cache."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        homes.move(patch, home)
        yield home


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home of its own and, in worker processes too, no way to fetch anything; the folder for data."""
    monkeypatch.setattr(urllib.request, "_opener", None)  # the first one keeps the proxies of its time
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # where nothing listens
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    homes.move(monkeypatch, tmp_path / "home")
    (tmp_path / "data").mkdir()
    return tmp_path / "data"
