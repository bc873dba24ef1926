"""README is short, its commands are the ones that CI and newcomers run, and its links lead somewhere."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")
MOST = 700  # words of prose: without code, pictures and the table that the claims fill


def test_it_is_read_in_minutes():
    prose = re.sub(r"```.*?```|<!-- claims.*?end of claims -->|^!\[.*?$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    assert 300 < len(prose.split()) <= MOST


def test_its_two_commands_install_all_that_they_need():
    first, second, _ = re.findall(r"```\w*\n(.*?)\n```", TEXT, re.DOTALL)
    install = "python3 -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt -e"
    assert first == f'{install} ".[learn]" && python -m fedsim scenarios/sparse_clients.yaml'
    assert second == f'{install} ".[dev]" && python -m pytest -n 2'
    assert '"python", "-m", "pytest", "-n", "2"' in (ROOT / "noxfile.py").read_text("utf-8")  # which CI runs


def test_every_link_of_it_is_there():
    links = [link for link in re.findall(r"\]\(([^)#]+)", TEXT) if not link.startswith("http")]
    assert len(links) > 15
    assert not [link for link in links if not (ROOT / link).exists()]
