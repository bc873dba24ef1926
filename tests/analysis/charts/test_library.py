"""The scripts of the page: whole, none from the working folder, and nothing left of their process."""

import subprocess
import sys

import pytest

from analysis.charts import library


def test_the_scripts_set_what_the_page_calls(tmp_path, monkeypatch):
    (tmp_path / "vl_convert.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    with library.bundled() as wait:
        script = wait()
    assert "window.vegaEmbed=" in script
    assert "</script" not in script


def test_a_process_that_fails_is_not_taken_for_scripts(monkeypatch):
    monkeypatch.setattr(library, "COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    with library.bundled() as wait, pytest.raises(subprocess.CalledProcessError):
        wait()


def test_leaving_early_ends_the_process(monkeypatch):
    processes = []

    class Watched(subprocess.Popen):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            processes.append(self)

    monkeypatch.setattr(library, "BUNDLE", "import time\ntime.sleep(60)")
    monkeypatch.setattr(subprocess, "Popen", Watched)
    with pytest.raises(KeyboardInterrupt), library.bundled():
        raise KeyboardInterrupt
    assert [process.returncode for process in processes] != [None]
