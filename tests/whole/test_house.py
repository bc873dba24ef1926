"""The rules of the house, held against the sources: rooms, floors, circles, torch, names, docstrings."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from fedsim.scenario.parts import find, lookup
from fedsim.scenario.text import yaml_file

ROOT = Path(__file__).resolve().parents[2]

# A room is a folder.  An arrow may only go down, or stay within its room; rooms on one floor do not know each other.
FLOORS = [
    (8, "fedsim.__main__", "the command line"),
    (8, "fedsim.analysis", "that of the reports"),
    (8, "fedsim.calibrate", "a client table fitted to a run"),
    (8, "fedsim.reference", "every method at equal bytes and at equal seconds"),
    (8, "fedsim", "what notebooks import"),
    (8, "fedsim.testing", "what users' own tests import"),
    (8, "fedsim.deploy", "the same on real machines: the wall clock, and messages over Flower"),
    (7, "fedsim.trial", "--try: whether an algorithm keeps its promises"),
    (7, "fedsim.sweep", "many points, and how they are shown"),
    (6, "fedsim.point", "one point: checked, assembled, run, resumed"),
    (5, "fedsim.clock", "when, with whom, how many bytes"),
    (4, "fedsim.learner", "the seam: what those bytes are"),
    (4, "algorithms", "what is computed and sent"),
    (3, "fedsim.learn", "the contract of algorithms; torch: models, tasks, training"),
    (2, "fedsim.data", "graphs, and what is taken of them"),
    (1, "fedsim.net", "messages and links"),
    (1, "fedsim.scenario", "what a scenario says"),
    (0, "fedsim.core", "values"),
    (1, "analysis", "reads the tables"),
]
SEAM = (  # all that the clock knows of learning, without torch; a protocol may refuse an algorithm
    "fedsim.learner.contract",
    "fedsim.learner.ticket",
    "fedsim.learn.algorithm",
    "fedsim.learn.replies",
)
TORCH = (
    "fedsim.deploy",
    "fedsim.learn",
    "fedsim.learner",
    "fedsim.point.build.learning",
    "fedsim.point.build.prepared",
    "fedsim.point.build.training",
    "fedsim.data",
    "fedsim.testing",
    "fedsim.trial",
    "algorithms",
)  # all that may import it
LEARNING = ("fedsim.learner", "fedsim.learn", "fedsim.data")
BOTH_HALVES = (
    "fedsim.deploy",
    "fedsim.point",
    "fedsim.learner",
    "fedsim.trial",
)  # they assemble the halves, and compress values
ALGORITHMS_USE = (
    "fedsim.learn.algorithm",
    "fedsim.learn",
    "fedsim.data.graph",
    "fedsim.core.errors",
    "fedsim.core.seeds",
    "fedsim.core.span",
    "fedsim.core.units",
    "fedsim.core.wire",
)
OUTER_NAMES = {"numpy", "simpy", "msgpack", "pydantic", "fedsim"}  # all that net/ may use beside the standard library
NET_USES = {
    f"fedsim.core.{name}" for name in ("arrays", "errors", "portable", "record", "seeds", "table", "units", "wire")
}
FORBIDDEN_FILES = {"utils", "common", "base", "manager", "handler", "helpers", "misc"}


@cache
def modules() -> dict[str, Path]:
    """Every module of the three packages by its dotted name."""
    found = {}
    for package in ("fedsim", "algorithms", "analysis"):
        for path in (ROOT / package).rglob("*.py"):
            steps = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(steps[:-1] if steps[-1] == "__init__" else steps)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def imports(module: str) -> frozenset[str]:
    """What a module imports, wherever it does so, but for the type checker; names of modules where they are ours."""
    return frozenset(_imports(tree(module)))


def _imports(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, "imports are absolute"
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield inner if inner in modules() else str(child.module)
        else:
            yield from _imports(child)


def ours(module: str) -> list[str]:
    return sorted(name for name in imports(module) if name in modules())


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def room(module: str) -> tuple[int, str]:
    """The floor of a module and its room."""
    found = [
        (floor, name) for floor, name, _ in FLOORS if module == name or (name != "fedsim" and within(module, name))
    ]
    assert found, f"{module} lies in no room: move it into one, or give its folder a floor in tests/whole/test_house.py"
    return found[0]


@pytest.mark.parametrize("module", sorted(modules()))
def test_arrows_go_down(module):
    floor, own = room(module)
    wrong = [name for name in ours(module) if room(name)[1] != own and room(name)[0] >= floor]
    assert not wrong, f"{module} (floor {floor}) imports {wrong}"


def test_a_folder_is_a_room_and_there_are_few_of_them():
    tops = {".".join(module.split(".")[:2]) for module in modules() if within(module, "fedsim")}
    assert tops == {name for _, name, _ in FLOORS if within(name, "fedsim")}
    loose = {path.stem for path in (ROOT / "fedsim").glob("*.py")}
    assert loose <= {"__init__", "__main__", "analysis", "testing"}, (
        "no module lies outside of a room, but what is named from outside"
    )
    assert len([name for name in tops if modules()[name].stem == "__init__"]) - 1 <= 14
    assert len({floor for floor, _, _ in FLOORS}) <= 9


def test_the_clock_knows_the_seam_and_nothing_of_learning():
    for module in modules():
        if within(module, "fedsim.clock"):
            learning = {name for name in ours(module) if any(within(name, half) for half in LEARNING)}
            assert learning <= {*SEAM}, module


def test_there_are_no_circles():
    graph = {module: set(ours(module)) - {module} for module in modules()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_torch_is_imported_by_learning_data_and_algorithms_only():
    users = {module for module in modules() if any(within(name, "torch") for name in imports(module))}
    assert users
    assert not [module for module in users if not any(within(module, allowed) for allowed in TORCH)]
    geometric = [m for m in modules() if any(within(name, "torch_geometric") for name in imports(m))]
    assert not [module for module in geometric if not within(module, "fedsim.data")]


def test_without_learning_torch_is_not_even_loaded():
    light = [m for m in sorted(modules()) if not any(within(m, package) for package in TORCH)]
    light.remove("fedsim.__main__")  # imports point/run.py when it is asked to run something
    light += [m for m in SEAM if m in modules()]
    assert {"fedsim.clock.server", "fedsim.clock.protocols.deadline", "fedsim.core.record"} <= set(light)
    assert {"fedsim.scenario.schema", "fedsim.learn.algorithm"} <= set(light)
    code = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"
    code += "    assert not {'torch', 'torch_geometric'} & set(sys.modules), name\n"
    done = subprocess.run([sys.executable, "-c", code, *light], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_network_could_be_lifted_out():
    for module in modules():
        if within(module, "fedsim.net"):
            foreign = {name.split(".")[0] for name in imports(module)} - set(sys.stdlib_module_names)
            assert foreign <= OUTER_NAMES, module
            inner = [name for name in ours(module) if not within(name, "fedsim.net")]
            assert set(inner) <= NET_USES, module


def test_analysis_imports_nothing_of_fedsim_but_its_values():
    allowed = ("analysis", "fedsim.core")
    wrong = {
        m: other
        for m in modules()
        if within(m, "analysis")
        for other in ours(m)
        if other != "fedsim" and not any(within(other, package) for package in allowed)
    }
    assert not wrong, wrong


def test_both_halves_are_known_to_few():
    for module in modules():
        network = any(within(name, "fedsim.net") for name in ours(module))
        known = [name for name in ours(module) if name not in SEAM]
        learning = any(within(name, half) for half in ("fedsim.learn", "fedsim.data") for name in known)
        assert not (network and learning) or any(within(module, name) for name in BOTH_HALVES), module


def algorithms() -> list[str]:
    return [f"algorithms.{name}" for name in find.names("algorithm")]


@pytest.mark.parametrize("module", algorithms())
def test_an_algorithm_uses_little_of_the_library_and_one_other_at_most(module):
    others = [name for name in ours(module) if within(name, "algorithms") and not within(name, module)]
    assert len(others) <= 1
    for other in others:
        assert not [name for name in ours(other) if within(name, "algorithms")], "one level deep"
    rest = [name for name in ours(module) if not within(name, "algorithms")]
    assert not [name for name in rest if not any(within(name, allowed) for allowed in ALGORITHMS_USE)]


def rooms() -> list[str]:
    """The modules beside an algorithm's class, in its folder."""
    return [module for module in modules() if within(module, "algorithms") and module.count(".") > 1]


@pytest.mark.parametrize("module", rooms())
def test_what_lies_in_an_algorithms_folder_is_its_own(module):
    algorithm = module.rpartition(".")[0]
    assert not [name for name in ours(module) if within(name, "algorithms") and not within(name, algorithm)]
    rest = [name for name in ours(module) if not within(name, "algorithms")]
    assert not [name for name in rest if not any(within(name, allowed) for allowed in (*ALGORITHMS_USE, "fedsim.data"))]
    users = [name for name in modules() if module in ours(name)]
    assert users
    assert not [name for name in users if not within(name, algorithm)]


def test_mathematics_of_one_algorithm_lives_with_it():
    """A module of fedsim/learn that serves algorithms alone serves two."""
    parts = {name for name in modules() if name.startswith(("fedsim.learn.models.", "fedsim.learn.tasks."))}
    reached = _reached(
        parts | {name for name in modules() if within(name, "fedsim") and not within(name, "fedsim.learn")}
    )
    served = {name: _algorithms_over(name) for name in modules() if within(name, "fedsim.learn")}
    alone = {name: users for name, users in served.items() if name not in reached and len(users) == 1}
    assert alone == {}


def _reached(roots: set[str]) -> set[str]:
    wanted, seen = [*roots], set[str]()
    while wanted:
        module = wanted.pop()
        if module not in seen:
            seen.add(module)
            wanted += ours(module)
    return seen


def _algorithms_over(module: str) -> set[str]:
    """The algorithms that a module serves, by itself or through others of fedsim/learn."""
    found, wanted, seen = set[str](), [module], set[str]()
    while wanted:
        name = wanted.pop()
        for user in (user for user in modules() if name in ours(user) and user not in seen):
            seen.add(user)
            if within(user, "algorithms"):
                found.add(".".join(user.split(".")[:2]))
            elif within(user, "fedsim.learn"):
                wanted.append(user)
    return found


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in find.KINDS for name in find.names(kind)])
def test_a_file_in_a_plural_folder_holds_one_class_named_like_it(kind, name):
    module = f"{find.KINDS[kind].package}.{name}"
    contract, name_of = find.KINDS[kind].contract
    parent = getattr(import_module(contract), name_of)
    classes = [value for value in vars(import_module(module)).values() if inspect.isclass(value)]
    parts = [cls.__name__ for cls in classes if cls.__module__ == module and issubclass(cls, parent)]
    (only,) = [part for part in parts if not part.startswith("_")]
    assert only.lower().endswith(name.replace("_", ""))  # EdgeTree of tree: a tree alone is what messages are
    (node,) = [node for node in tree(module).body if isinstance(node, ast.ClassDef) and node.name == only]
    assert ast.get_docstring(node)
    assert any("frozen=True" in ast.unparse(decorator) for decorator in node.decorator_list), "a frozen dataclass"


def test_every_plural_folder_has_its_contract_beside_it():
    for kind in find.KINDS.values():
        path = modules()[kind.contract[0]]
        assert any(isinstance(n, ast.ClassDef) and n.name == kind.contract[1] for n in tree(kind.contract[0]).body), (
            path
        )
    assert all(find.names(kind) for kind in find.KINDS)


SCENARIOS = sorted((ROOT / "scenarios").glob("*.yaml"))


@pytest.mark.long
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_name_in_a_scenario_resolves(path):
    scenario, _ = yaml_file.load(path)
    assert scenario.name == path.stem
    with lookup.within_reach(path.parent):
        parts = [part for point in scenario.points() for part in point.scenario.parts()]
        assert parts
        distinct = {repr(part): part for part in parts}
        assert [problem for kind, key, part in distinct.values() for problem in find.check(kind, part, key)] == []


def test_there_are_scenarios_and_their_first_lines_say_what_they_ask():
    assert SCENARIOS
    for path in SCENARIOS:
        assert re.search(r"^# \S.*", path.read_text(encoding="utf-8"), re.MULTILINE), path
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["description"], path


@pytest.mark.parametrize("module", sorted(modules()))
def test_a_module_says_what_it_is(module):
    text = ast.get_docstring(tree(module))
    assert text
    assert len(text.split()) > 3
    steps = set(module.split("."))
    assert not steps & FORBIDDEN_FILES
    assert not [step for step in steps if re.search(r"(_v\d+|_new|_old|manager|handler|utils?)$", step)]


def test_nothing_is_left_for_later():
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XXX)\b|NotImplementedError")
    left = [module for module, path in modules().items() if marks.search(path.read_text(encoding="utf-8"))]
    assert left == []
