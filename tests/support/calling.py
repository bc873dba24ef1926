"""The command line, called in this process."""

from pathlib import Path

import pytest
from scenario_texts import SMALL

from fedsim import __main__ as command_line

ROOT = Path(__file__).parents[2]
QUICK = SMALL + "grid: {seed: [0, 1]}\n"


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Call the command in an empty folder with scenario.yaml in it; gives exit code, output and messages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments, text=QUICK):
        (tmp_path / "scenario.yaml").write_text(text)
        try:
            code = command_line.main(arguments)
        except SystemExit as exit:
            code = exit.code
        output = capsys.readouterr()
        assert "Traceback" not in output.err
        return code, output.out, output.err

    return call
