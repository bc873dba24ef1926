"""The processes of a federation: found beside this Python, and what one said that did not come up."""

import os
import sys
from pathlib import Path

import pytest

from fedsim.core.errors import UserError
from fedsim.deploy import federation


def test_flowers_own_commands_are_found_without_an_activated_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    found = federation.environment(tmp_path / "home")
    assert found["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/usr/bin"]
    assert found["FLWR_HOME"] == str(tmp_path / "home")


@pytest.mark.skipif(sys.platform == "win32", reason="the command is a shell script")
def test_a_superlink_that_ends_at_once_is_reported_with_what_it_said(tmp_path, monkeypatch):
    script = tmp_path / "link.py"
    script.write_text("print('one\\ntwo\\nport is taken')\nraise SystemExit(3)\n")
    monkeypatch.setattr(federation, "command", lambda name: str(tmp_path / "run"))
    (tmp_path / "run").write_text(f"#!/bin/sh\nexec {sys.executable} {script}\n")
    (tmp_path / "run").chmod(0o755)
    with (
        pytest.raises(UserError, match="does not come up; the last lines of its log:\none\ntwo\nport is taken"),
        federation.local([], tmp_path, tmp_path),
    ):
        pass
