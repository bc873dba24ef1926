"""With --no-plugins, Ray's workers import nothing from the working folder, which Ray puts on their path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_points import PLAIN
from small_sweeps import table

pytestmark = pytest.mark.long

pytest.importorskip("ray", reason='Ray is not installed: pip install -e ".[ray]"')

ROOT = Path(__file__).parents[2]
COMMAND = "import sys; from fedsim.__main__ import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize(("flags", "runs"), [([], True), (["--no-plugins"], False)])
def test_workers_import_nothing_from_the_working_folder(tmp_path, flags, runs):
    there, ran = tmp_path / "there", tmp_path / "ran"
    (there / "algorithms").mkdir(parents=True)
    trap = f"from pathlib import Path\nPath({str(ran)!r}).mkdir(exist_ok=True)\n"
    (there / "algorithms" / "fedavg.py").write_text((ROOT / "algorithms" / "fedavg.py").read_text("utf-8") + trap)
    (there / "small.yaml").write_text(yaml.safe_dump(PLAIN))
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", COMMAND, "small.yaml", "--engine", "ray", "--jobs", "1", "--no-report",
         "--out", "out", *flags],
        cwd=there, env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert [row["status"] for row in table(there / "out")] == ["done"]
    assert ran.exists() is runs
