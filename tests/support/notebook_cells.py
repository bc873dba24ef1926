"""Cells as a notebook has them, without IPython: their text is in `linecache` and in the list `In`."""

import linecache
import sys
from types import ModuleType


class Cells:
    """The names that cells have made; a context, so that the module is gone again."""

    def __init__(self, name="cells_of_a_test"):
        self.module = ModuleType(name)
        self.names = vars(self.module)
        self.names["In"] = []

    def __enter__(self):
        sys.modules[self.module.__name__] = self.module
        return self

    def __exit__(self, *_):
        del sys.modules[self.module.__name__]

    def run(self, text):
        """Run a cell and return the names."""
        name = f"/nowhere/{self.module.__name__}_{len(self.names['In'])}.py"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        self.names["In"].append(text)
        exec(compile(text, name, "exec"), self.names)
        return self.names
