"""A module's file is the one that Python would import now, whatever was asked before."""

import importlib.util
import os
import sys

import pytest

from fedsim.scenario.parts import lookup

LONG_AGO = 1_000_000_000  # seconds; a folder that changed just now is asked anew in any case


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder on the path that holds a module, a package and a folder without an __init__.py, none of them new."""
    for name in ("alone.py", "packed/__init__.py", "packed/inner.py", "without_init/inside.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    age(tmp_path)
    return tmp_path


def age(folder, seconds=LONG_AGO):
    """Have the folder and those in it look as if they had not changed for long, the later ones later."""
    for one in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        os.utime(one, (seconds, seconds))


def test_it_is_where_python_finds_it(folder):
    assert lookup.file_of("alone") == folder / "alone.py"
    assert lookup.file_of("packed") == folder / "packed" / "__init__.py"
    assert lookup.file_of("packed.inner") == folder / "packed" / "inner.py"
    assert lookup.file_of("without_init.inside") == folder / "without_init" / "inside.py"
    assert lookup.folders_of("packed") == [folder / "packed"]
    assert (lookup.file_of("packed.none"), lookup.file_of("none.inner"), lookup.file_of("sys")) == (None, None, None)
    assert not {"alone", "packed", "packed.inner", "without_init"} & sys.modules.keys()
    for name in ("json.decoder", "simpy.core", "fedsim.core.wire", "algorithms.power"):
        assert str(lookup.file_of(name)) == importlib.util.find_spec(name).origin


def test_what_comes_or_goes_is_seen(folder):
    assert lookup.file_of("late") is None
    (folder / "late.py").write_text("")
    age(folder, LONG_AGO + 1)
    assert lookup.file_of("late") == folder / "late.py"
    (folder / "late.py").unlink()
    age(folder, LONG_AGO + 2)
    assert lookup.file_of("late") is None


def test_a_folder_becomes_a_package_and_a_package_a_folder(folder):
    assert lookup.file_of("without_init") is None
    (folder / "without_init" / "__init__.py").write_text("")
    age(folder)  # the folder above has not changed
    assert lookup.file_of("without_init") == folder / "without_init" / "__init__.py"
    assert lookup.file_of("packed") == folder / "packed" / "__init__.py"
    (folder / "packed" / "__init__.py").unlink()
    age(folder)
    assert lookup.file_of("packed") is None
    assert lookup.file_of("packed.inner") == folder / "packed" / "inner.py"


def test_the_path_and_the_working_folder_count(folder, tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("other")
    (other / "alone.py").write_text("")
    age(other)
    assert lookup.file_of("alone") == folder / "alone.py"
    monkeypatch.setattr(sys, "path", [str(other), *sys.path])
    assert lookup.file_of("alone") == other / "alone.py"
    monkeypatch.setattr(sys, "path", ["", str(folder)])
    monkeypatch.chdir(folder)
    assert lookup.file_of("alone") == folder / "alone.py"
    monkeypatch.chdir(other)
    assert lookup.file_of("alone") == other / "alone.py"


def test_the_users_algorithms_are_those_of_the_path_as_it_is_now(tmp_path, monkeypatch):
    assert lookup.file_of("algorithms.own.someones") is None
    for home in (tmp_path / "one", tmp_path / "two"):
        (home / "algorithms").mkdir(parents=True)
        (home / "algorithms" / "someones.py").write_text("")
        age(home)
        with monkeypatch.context() as patched:
            patched.setattr(sys, "path", [str(home), *sys.path])
            assert lookup.file_of("algorithms.own.someones") == home / "algorithms" / "someones.py"
    assert lookup.file_of("algorithms.own.someones") is None


def test_a_finder_that_is_added_is_asked(folder, monkeypatch):
    class Finder:
        @staticmethod
        def find_spec(name, path):
            origin = folder / "alone.py"
            return importlib.util.spec_from_file_location(name, origin) if name == "called" else None

    assert lookup.file_of("called") is None
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert lookup.file_of("called") == folder / "alone.py"
