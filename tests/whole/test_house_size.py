"""How much there is to read, in numbers that may only fall: lines, folders, names, and the path of a plain round.

Code lines are those of the three packages without blanks, comments and docstrings.  A file or function is on the path
of a round if it is called more often when a scenario has more rounds.
"""

import ast
import collections
import io
import json
import os
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE_LINES, WIDE_LINES = 41_529, 3_651  # wide: over 110 characters
LONG_FILES = {"fedsim/core/units.py"}  # over 300 lines
PLUGINS = {"algorithms", "fedsim/data/datasets"}  # folders with one file for each part
CROWDED: dict[str, int] = {}  # folders with more than 20 modules
TWINS = 0  # public classes and type aliases that share a name
# 44, 238, 113 on a quiet machine; on a busy one the loop looks up more often (progress, checkpoints)
ROUND_FILES, ROUND_FUNCTIONS, RUN_FILES = 49, 250, 115
BLANK = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def modules():
    """The product's modules by their path in the repository, with their text."""
    paths = sorted(path for package in ("fedsim", "algorithms", "analysis") for path in (ROOT / package).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def code_lines(text):
    """How many lines hold code."""
    documented = set()
    for node in ast.walk(ast.parse(text)):
        first = node.body[0] if isinstance(node, DOCUMENTED) and node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            documented.update(range(first.lineno, first.end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in BLANK:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def public_name(node):
    """The name of a class or of a type alias that a statement of a module defines."""
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        typed = isinstance(node.value, ast.Subscript | ast.Name | ast.Attribute | ast.BinOp)
        return name if typed and name[0].isupper() and not name.isupper() else None
    return None


def test_there_is_no_more_code_than_before():
    assert sum(map(code_lines, modules().values())) <= CODE_LINES


def test_lines_do_not_get_longer():
    assert sum(len(line) > 110 for text in modules().values() for line in text.splitlines()) <= WIDE_LINES


def test_files_have_three_hundred_lines_at_most():
    assert {path for path, text in modules().items() if text.count("\n") > 300} <= LONG_FILES


def test_folders_hold_twenty_modules_at_most():
    counts = collections.Counter(str(Path(path).parent) for path in modules() if not path.endswith("__init__.py"))
    assert {folder: count for folder, count in counts.items() if count > 20 and folder not in PLUGINS} == CROWDED


def test_names_that_stand_for_several_things_get_fewer():
    homes = collections.defaultdict(set)
    for path, text in modules().items():
        for node in ast.parse(text).body if path.startswith("fedsim/") else ():
            if (name := public_name(node)) and not name.startswith("_"):
                homes[name].add(path)
    assert len([name for name, paths in homes.items() if len(paths) > 1]) <= TWINS


CALLS = """
import collections, json, sys
root, rounds, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
from fedsim import simulate
calls = collections.Counter()
def profile(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.startswith(root):
        calls[frame.f_code.co_filename[len(root) + 1:] + ":" + frame.f_code.co_name] += 1
def run(rounds):
    grid = {"seed": [0], "algorithm": ["fedavg"], "network__latency": ["100 ms"], "protocol__participation": [1.0]}
    simulate(root + "/scenarios/sparse_clients.yaml", out=out, progress=False, fresh=True, protocol__rounds=rounds,
             **{"grid__" + key: values for key, values in grid.items()})
run(1)  # everything is imported
sys.setprofile(profile)
run(rounds)
sys.setprofile(None)
print("CALLS " + json.dumps(calls))
"""


def calls(folder, rounds):
    """How often a run of one FedAvg point calls each function of ours."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", CALLS, str(ROOT), str(rounds), str(folder)]
    ended = subprocess.run(words, capture_output=True, text=True, env=env, check=True)
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("CALLS ")]
    return {name: count for name, count in json.loads(line[6:]).items() if "site-packages" not in name}


@pytest.mark.long
def test_a_plain_round_walks_through_few_files(tmp_path):
    few, many = (calls(tmp_path / str(rounds), rounds) for rounds in (2, 4))  # within the first period
    each = {name for name in many if many[name] - few.get(name, 0) >= 1}
    assert len({name.rpartition(":")[0] for name in each}) <= ROUND_FILES
    assert len(each) <= ROUND_FUNCTIONS
    assert len({name.rpartition(":")[0] for name in many}) <= RUN_FILES
