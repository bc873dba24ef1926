"""What tests tell crosses to another process, whatever is in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sendable import sendable

ODD = 'def test_odd():\n    assert "\\ud800" == "a\\udfff", "\\udc80"\n'


def test_what_is_utf_8_stays_and_the_rest_is_escaped():
    report = {"text": "é\n\U0001f600", "parts": [("a\ud800", 1, None, True)], "\udfff": 0.5}
    assert sendable(report) == {"text": "é\n\U0001f600", "parts": [("a\\ud800", 1, None, True)], "\\udfff": 0.5}


@pytest.mark.long
def test_a_failure_whose_message_is_no_utf_8_ends_no_run(tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "test_odd.py").write_text(ODD)
    (tmp_path / "conftest.py").write_text(
        "import pytest\nfrom sendable import sendable\n\n\n@pytest.hookimpl(wrapper=True)\n"
        "def pytest_report_to_serializable():\n    return sendable((yield))\n"
    )
    words = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", "test_odd.py"]
    around = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1] / "support")}
    done = subprocess.run(
        words, cwd=tmp_path, env=around, capture_output=True, text=True, errors="replace", check=False
    )
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout
