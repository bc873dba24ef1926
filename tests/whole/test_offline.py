import socket
import urllib.request

import offline
import pytest

from fedsim.core.errors import UserError
from fedsim.data.datasets.planetoid import Planetoid
from fedsim.data.files import published

ELSEWHERE = "192.0.2.1"  # kept for documentation: no machine has it (RFC 5737)


@pytest.fixture(autouse=True)
def noted(monkeypatch):
    """Yield what is refused in a test of this file, and forget it, since it is meant; no proxy is asked instead."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)  # the first one keeps the proxies of its time
    assert offline.attempts == []
    yield offline.attempts
    offline.attempts.clear()


def test_connections_to_other_machines_are_refused_and_noted(noted):
    with socket.socket() as one, pytest.raises(offline.Refused, match=r"connect to 192\.0\.2\.1, port 80"):
        one.connect((ELSEWHERE, 80))
    with pytest.raises(offline.Refused, match=r"look up 'example\.org'"):
        socket.create_connection(("example.org", 80))
    with pytest.raises(OSError, match="tests are offline"):
        urllib.request.urlopen("http://example.org/")
    assert len(noted) == 3


def test_this_machine_may_talk_to_itself(noted):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        assert offline.is_here("localhost")
    assert noted == []


def test_a_data_set_that_is_not_there_is_reported_and_the_attempt_is_noted(noted, tmp_path, monkeypatch):
    monkeypatch.setattr(published, "cache", lambda: tmp_path)
    with pytest.raises(UserError, match=r"could not be fetched .*tests are offline"):
        Planetoid("Cora").load(tmp_path, 0)
    assert any("look up" in what for what in noted)
