"""Files that a user gives can never have code run: no call here reads them so, and none does where they hold code."""

import ast
import os
import pickle
from pathlib import Path
from typing import get_args, get_type_hints

import homes
import msgpack
import numpy as np
import pytest
import small_points
import torch

from fedsim.core.errors import UserError
from fedsim.data.files import published
from fedsim.learner.checkpoint import preserve
from fedsim.learner.checkpoint.preserve import DataGraphs
from fedsim.point.results import stamp
from fedsim.point.resume.checkpoint import path_in, saved_in
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

ROOT = Path(__file__).parents[2]
SOURCES = [path for package in ("fedsim", "algorithms", "analysis") for path in sorted((ROOT / package).rglob("*.py"))]
RUNS_CODE = {
    *(f"pickle.{name}" for name in ("load", "loads", "Unpickler")), "marshal.load", "marshal.loads", "shelve.open",
    *(f"yaml.{name}" for name in ("load", "load_all", "full_load", "unsafe_load", "Loader", "UnsafeLoader")),
    "pandas.read_pickle", "joblib.load", "torch.jit.load", "runpy.run_path", "os.system", "os.popen",
    "eval", "exec", "compile", "__import__",
}  # fmt: skip
ONLY_WITH = {"torch.load": ("weights_only", True, False), "numpy.load": ("allow_pickle", False, True)}
SHORT = {"np": "numpy", "pd": "pandas"}


def unsafe(text: str) -> list[str]:
    """The calls, mentions and imports in a source that could run what is in a file."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute | ast.Name) and _dotted(node) in RUNS_CODE:
            found.append(_dotted(node))
        if isinstance(node, ast.ImportFrom):
            found += [n for alias in node.names if (n := f"{node.module}.{alias.name}") in RUNS_CODE | {*ONLY_WITH}]
        if isinstance(node, ast.Call) and (name := _dotted(node.func)) in ONLY_WITH:
            found += [] if _said(node, *ONLY_WITH[name]) else [name]
    return found


def _dotted(node: ast.AST) -> str:
    """`numpy.load` for `np.load`; what does not begin with a name begins with nothing."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return SHORT.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def _said(call: ast.Call, word: str, wanted: bool, required: bool) -> bool:
    given = [k.value for k in call.keywords if k.arg in (word, None)]
    return all(isinstance(v, ast.Constant) and v.value is wanted for v in given) and (bool(given) or required)


def test_no_source_reads_files_in_a_way_that_could_run_them():
    found = {(str(path.relative_to(ROOT)), call) for path in SOURCES for call in unsafe(path.read_text("utf-8"))}
    assert found == {
        ("fedsim/data/files/pickles.py", "pickle.Unpickler"),  # calls what data need, see data/test_pickles.py
        ("fedsim/learner/checkpoint/preserve.py", "pickle.Unpickler"),  # calls nothing by name, see below
    }


@pytest.mark.parametrize(
    "text",
    [
        "pickle.loads(b'')", "read = pickle.load", "from pickle import Unpickler", "np.load(p, allow_pickle=True)",
        "numpy.load(p, allow_pickle=yes)", "np.load(p, **options)", "torch.load(p)",
        "torch.load(p, weights_only=False)",
        "yaml.load(t, Loader=L)", "pd.read_pickle(p)", "eval('1')", "from torch import load",
    ],
)  # fmt: skip
def test_the_walk_sees_it(text):
    assert len(unsafe(text)) == 1


@pytest.mark.parametrize("text", ["np.load(p)", "np.load(p, allow_pickle=False)", "torch.load(p, weights_only=True)"])
def test_the_walk_lets_safe_reading_pass(text):
    assert unsafe(text) == []


class Evil:
    """Reading it as a pickle makes a folder."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """The folder that evil makes, which must not be there at the end."""
    homes.move(monkeypatch, tmp_path / "home")
    yield tmp_path / "made"
    assert not (tmp_path / "made").exists()


def evil(kind: str, path: Path, made: Path) -> None:
    objects = np.array([Evil(made), {}], dtype=object)
    if kind == "torch":
        torch.save(Evil(made), path)
    elif kind == "array" and path.suffix == ".npz":
        names = ("adjs", "attmats", "labels", "src", "dst", "t", "num_nodes", "num_snapshots", "node_features", "edges")
        np.savez(path, **dict.fromkeys([*names, "data", "indices", "adj_data", "train_mask"], objects))
    elif kind == "array":
        with path.open("wb") as file:
            np.save(file, objects, allow_pickle=True)
    else:
        path.write_bytes(pickle.dumps(Evil(made), 2))


def test_what_is_evil_here_would_be_so_to_others(tmp_path):
    for kind, name in (("pickle", "a"), ("array", "b.npz"), ("array", "c.npy"), ("torch", "d.pt")):
        made, path = tmp_path / f"made_by_{kind}_{name}", tmp_path / name
        evil(kind, path, made)
        if kind == "torch":
            torch.load(path, weights_only=False)
        else:
            found = np.load(path, allow_pickle=True)
            assert name != "b.npz" or found["adjs"] is not None
        assert made.is_dir()


def datasets() -> list[Part]:
    """Every data set that is read from files, each of its graphs."""
    found = []
    for name in find.names("dataset"):
        hints = get_type_hints(find.find("dataset", Part(name=name), ""))
        graphs = get_args(hints["graph"]) if "graph" in hints else [None]
        found += [Part(name=name, options={"graph": graph} if graph else {}) for graph in graphs]
    made = {"digits", "digit_images", "synthetic", "drifting", "arriving", "meetings"}
    return [part for part in found if part.name not in made]


@pytest.mark.parametrize("kind", ["pickle", "array", "torch"])
def test_no_data_set_runs_what_is_in_its_files(kind, tmp_path, made, monkeypatch):
    def gather(into, folder, present, urls):
        into.mkdir(parents=True)
        for name in urls:
            evil(kind, into / name, made)

    monkeypatch.setattr(published, "_gather", gather)
    parts = datasets()
    assert len(parts) > 20
    for part in parts:
        if part.name in ("file", "examples", "star_arrays", "tgb"):
            file = tmp_path / ("own.pt" if kind == "torch" else "own.npz")
            if part.name in ("file", "examples"):
                evil(kind, file, made)
            else:
                file.touch()
            part = Part(name=part.name, options={"file": str(file)})
        if part.name == "drawn_events":
            part = Part(name=part.name, options={"scale": 1e-4})
        with pytest.raises(UserError, match=r"cannot be read|could run code"):
            find.build("dataset", part).load(tmp_path / "data", 0)
        assert not made.exists(), part


@pytest.mark.parametrize("held", [b"", b"\x05", b"\x90", b"\x80", b"\x81\x90\x01", b"\xc1", b"\x91" * 3000])
def test_a_checkpoint_that_is_none_is_left_aside(held, tmp_path):
    path = path_in(tmp_path)
    path.parent.mkdir()
    path.write_bytes(held)
    assert_left_aside(tmp_path)


def assert_left_aside(folder):
    notes = {}
    assert saved_in(folder, lambda: stamp.of(small_points.scenario()), notes) is None
    assert notes == {"checkpoint": "was damaged and was discarded"}


@pytest.mark.parametrize("protocol", range(6))
def test_a_checkpoint_that_is_a_pickle_is_left_aside(protocol, tmp_path, made):
    path = path_in(tmp_path)
    path.parent.mkdir()
    for held in (pickle.dumps(Evil(made), protocol), msgpack.packb({"stamp": pickle.dumps(Evil(made), protocol)})):
        path.write_bytes(held)
        assert_left_aside(tmp_path)


@pytest.mark.parametrize("protocol", range(6))
def test_what_is_preserved_names_nothing(protocol, made):
    for held in (pickle.dumps(Evil(made), protocol), pickle.dumps(print, protocol), pickle.dumps(DataGraphs, protocol)):
        with pytest.raises(pickle.UnpicklingError, match="name nothing"):
            preserve.unpack(held, DataGraphs([]))
    with pytest.raises(pickle.UnpicklingError, match="name nothing"):
        preserve.unpack(b"cos\nmkdir\n(V" + str(made).encode() + b"\ntR.", DataGraphs([]))


def calling(*call):
    """The bytes of a call: the name that stands for what is called, and its parts."""
    name, *parts = call
    return b"\x80\x04\x8c" + bytes([len(name)]) + name.encode() + b"Q(" + b"".join(map(argument, parts)) + b"tR."


def argument(value):
    """The bytes that put a plain value on the stack of a pickle."""
    return pickle.dumps(value, 2)[2:-1]


@pytest.mark.parametrize("kind", ["empty", "named"])
@pytest.mark.parametrize(
    ("module", "name"), [("os", "mkdir"), ("subprocess", "Popen"), ("fedsim.sweep.engines.local", "mp.Process"),
                     ("fedsim.core.whole_files", "replace"), ("algorithmsx", "X")],
)  # fmt: skip
def test_a_checkpoint_names_only_dataclasses_and_named_tuples_of_fedsim(kind, module, name):
    with pytest.raises((ValueError, AttributeError), match=r"is not a|has no attribute"):
        preserve.unpack(calling("build", kind, module, name), DataGraphs([]))


def test_a_checkpoint_calls_nothing_but_what_builds_values():
    for name in ("eval", "print", "__class__"):
        with pytest.raises(KeyError):
            preserve.unpack(calling(name, "1"), DataGraphs([]))
        with pytest.raises(KeyError):
            preserve.unpack(calling("build", name, "1"), DataGraphs([]))
    assert preserve.unpack(calling("build", "same", "1"), DataGraphs([])) == "1"
    for value in ("a text", 3, [1]):
        with pytest.raises(pickle.UnpicklingError, match="is not a dataclass"):
            preserve.unpack(calling("fill", value, {"x": 1}), DataGraphs([]))
