"""Functions that forget where tensors are: `device=...`, `.to(... device)` and `.cpu()` taken out of them one by one.

What a test of devices is worth shows in whether it notices.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any


class _Forget(ast.NodeTransformer):
    """Takes the mention of that number out, counted from 0; all of them where it is None."""

    def __init__(self, number: int | None) -> None:
        self.count, self._number = 0, number

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        named = [one for one in node.keywords if one.arg == "device"]
        if named and self._takes():
            node.keywords = [one for one in node.keywords if one.arg != "device"]
        if not isinstance(node.func, ast.Attribute):
            return node
        if node.func.attr == "cpu" and not node.args and self._takes():
            return node.func.value
        if node.func.attr == "to" and node.args and "device" in ast.unparse(node.args[-1]) and self._takes():
            return node.func.value if len(node.args) == 1 else node.args[0]  # x.to(device), tree.to(x, device)
        return node

    def _takes(self) -> bool:
        self.count += 1
        return self._number is None or self._number == self.count - 1


def mentions(function: FunctionType) -> int:
    """Return how often a function says where a tensor is to be."""
    counter = _Forget(-1)
    counter.visit(_parsed(function))
    return counter.count


@contextmanager
def forgotten(function: FunctionType, number: int | None = None) -> Iterator[None]:
    """Have a function forget one mention of a device, or all."""
    function = inspect.unwrap(function)
    changed = ast.fix_missing_locations(_Forget(number).visit(_parsed(function)))
    whole = compile(changed, inspect.getfile(function), "exec")
    before = function.__code__
    code = next(one for one in _codes(whole) if one.co_name == before.co_name)
    assert code.co_freevars == before.co_freevars
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = before


def _parsed(function: FunctionType) -> ast.Module:
    found = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found.body[0].decorator_list = []  # type: ignore[attr-defined]
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)
