"""Libraries are recognised wherever Python finds them, and looking for them neither fails nor takes long."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from fedsim.point.results import source_hashes as imports
from fedsim.scenario.parts import lookup

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(sysconfig.get_path("purelib"))  # where the libraries of these tests are
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
PROBE = """
import json
from fedsim.point.results import source_hashes as imports, stamp
import torch
found = imports.needed([stamp.ROOT, *stamp.LEARNS])
print(json.dumps([torch.__file__, sorted(found.modules), stamp.versions(found.libraries)]))
"""


def user_site(tmp_path):
    """`pip install --user`."""
    site = tmp_path / "lib" / VERSION / "site-packages"
    site.parent.mkdir(parents=True)
    site.symlink_to(HERE)
    return base(), {"PYTHONUSERBASE": str(tmp_path)}


def module_path(tmp_path):
    """A cluster's `module load`, which sets PYTHONPATH."""
    site = tmp_path / "apps" / "torch" / "2.0" / "lib" / VERSION / "site-packages"
    site.parent.mkdir(parents=True)
    site.symlink_to(HERE)
    return base(), {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}


def system_site(tmp_path):
    """A Python with libraries of its own, and `venv --system-site-packages`."""
    system = tmp_path / "system" / "lib" / VERSION
    system.mkdir(parents=True)
    for path in Path(sysconfig.get_path("stdlib")).iterdir():
        if path.name != "site-packages":
            (system / path.name).symlink_to(path)
    for site in (system / "site-packages", system.parent / "python3" / "dist-packages"):  # Debian's has the other name
        site.parent.mkdir(exist_ok=True)
        site.symlink_to(HERE)
    (tmp_path / "system" / "bin").mkdir()
    (tmp_path / "system" / "bin" / VERSION).symlink_to(base())
    return environment(tmp_path, f"home = {tmp_path / 'system' / 'bin'}\ninclude-system-site-packages = true\n"), {}


def path_file(tmp_path):
    """An environment with a .pth file that names another folder."""
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for path in HERE.iterdir():
        if path.suffix != ".pth":
            (libraries / path.name).symlink_to(path)
    python = environment(tmp_path, f"home = {Path(base()).parent}\ninclude-system-site-packages = false\n")
    site = tmp_path / "environment" / "lib" / VERSION / "site-packages"
    site.mkdir(parents=True)
    (site / "libraries.pth").write_text(f"{libraries}\n")
    return python, {}


def base():
    """Return the Python that the environment of these tests was made from."""
    return os.path.realpath(sys._base_executable)


def environment(tmp_path, settings):
    """Make an environment, and return its Python."""
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(base())
    (tmp_path / "environment" / "pyvenv.cfg").write_text(settings)
    return str(python)


@pytest.mark.skipif(os.name == "nt", reason="links")
@pytest.mark.parametrize("way", [user_site, module_path, system_site, path_file])
def test_libraries_of_every_place_are_libraries(way, tmp_path):
    python, variables = way(tmp_path)
    around = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run([python, "-c", PROBE], env=around, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr
    torch, modules, versions = json.loads(done.stdout)
    assert Path(torch).is_relative_to(tmp_path)  # so the libraries are found in that place
    assert {name.partition(".")[0] for name in modules} <= {*lookup.OURS}
    assert {"torch", "numpy", "simpy"} <= versions.keys()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of Python's path with a package of the user's and a library that was installed there."""
    files = {
        "mylab/__init__.py": "import installed\nimport torch",
        "mylab/bare/inner/deep.py": "import mylab.helper",
        "mylab/helper.py": "",
        "loose/first.py": "import loose.second",  # without an __init__.py
        "loose/second.py": "import loose.third",
        "loose/third.py": "",
        "installed/__init__.py": "import installed.inner.more",
        "installed/inner/more.py": "",
        "installed-1.2.dist-info/RECORD": "installed/__init__.py,sha256=a,0\ninstalled/inner/more.py,,\n",
        "installed-1.2.dist-info/METADATA": "Name: installed\nVersion: 1.2\n",
        "torch/__init__.py": "import torch.inner",  # copied there, without a record
        "torch/inner.py": "",
        "algorithms/lab/mine.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith(("mylab", "algorithms.own.lab"))]:
        monkeypatch.delitem(sys.modules, name)  # another test's
    return tmp_path


def test_a_folder_without_an_init_is_found_in_a_package(folder):
    assert lookup.file_of("mylab.bare.inner.deep") == folder / "mylab" / "bare" / "inner" / "deep.py"
    assert lookup.file_of("mylab.bare.none.deep") is None
    assert lookup.file_of("algorithms.own.lab.mine") == folder / "algorithms" / "lab" / "mine.py"
    assert not {"mylab", "mylab.bare", "algorithms.own.lab"} & sys.modules.keys()


def test_what_is_recorded_as_installed_and_what_fedsim_imports_are_libraries(folder):
    found = imports.needed(["fedsim.point.run", "mylab.bare.inner.deep"])
    others = {name for name in found.modules if name.partition(".")[0] not in lookup.OURS}
    assert others == {"mylab", "mylab.helper", "mylab.bare.inner.deep"}
    assert {"installed", "torch"} <= found.libraries
    found = imports.needed(["fedsim.point.run", "loose.first"])
    assert {"loose.first", "loose.second", "loose.third"} <= found.modules.keys()


def test_a_finder_that_fails_finds_nothing(monkeypatch):
    class Broken:
        def find_spec(self, name, path=None, target=None):
            raise KeyError(name)

    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert lookup.file_of("json.decoder") is not None
    assert lookup.file_of("nobodys.module") is None


def test_a_library_whose_files_are_damaged_has_no_version(folder):
    from fedsim.point.results import stamp

    (folder / "damaged-1.0.dist-info").mkdir()
    assert stamp.version_of("damaged") == ""
    assert stamp.versions(["damaged", "installed"]) == {"installed": "1.2"}
