"""Read and write the YAML of scenarios: plain data with the line of every key.

It is version 1.2's core: `5e-4` is a number, `off` and `no` are texts, dates are texts.  One document a text,
no tags; anchors and merge keys work, within limits on depth and number of values, so that a small file cannot
expand into a huge one.  The keys are not interpreted here.
"""

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import yaml

from fedsim.core.errors import UserError

DEEPEST = 40  # levels of nesting
DIGITS = 300  # of a whole number
VALUES = 100_000  # in a whole file, with anchors expanded
FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
CORE = [
    ("null", re.compile(r"~|null|Null|NULL|"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF")),
    ("int", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"), list("-+0123456789")),
    ("float", FLOAT, list("-+0123456789.")),
    ("merge", re.compile(r"<<"), ["<"]),
]
TAG = "tag:yaml.org,2002:"
Pairs = dict[str, tuple[yaml.Node, yaml.Node]]  # a mapping's keys with their nodes and values


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 -- as PyYAML declares it


class _PlainDumper(yaml.SafeDumper):
    """Quote whatever either version of YAML would not read as text."""

    def ignore_aliases(self, data: Any) -> bool:
        """Expand all aliases."""
        return True


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """The same in C, if there is one."""

    ignore_aliases = _PlainDumper.ignore_aliases


for _name, _pattern, _first in CORE:
    _whole = re.compile(rf"(?:{_pattern.pattern})\Z")
    _Loader.add_implicit_resolver(f"{TAG}{_name}", _whole, _first)
    for _dumper in (_PlainDumper, _Dumper):
        _dumper.add_implicit_resolver(f"{TAG}{_name}", _whole, _first)


def read(text: str, name: str, lines: dict[str, int]) -> Any:
    """Return a text as plain data, and store each dotted key's line in `lines`; `name` is for messages.

    Raises UserError, with the line, for invalid YAML.
    """
    if odd := _Loader.NON_PRINTABLE.search(text):
        line = text[: odd.start()].count("\n") + 1
        raise UserError(f"{name}, line {line}: not YAML text: it holds the character {odd[0]!r}, which no text should")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _Reader(name, lines).value(node, (), ())
    except RecursionError:
        raise UserError(f"{name}: nested too deeply; a scenario has {DEEPEST} levels at most") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}, line {mark.line + 1}" if mark and not name.startswith("--set") else name
        raise UserError(f"{place}: {_syntax(error, text)}") from None
    finally:
        loader.dispose()


def text_of(data: dict[str, Any]) -> str:
    """Return plain data as YAML that reads back unchanged."""
    dump = partial(yaml.dump, data, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    try:
        return str(dump(Dumper=_Dumper))
    except UnicodeEncodeError:  # half of a surrogate pair, which Python's emitter escapes
        return str(dump(Dumper=_PlainDumper))


@dataclass
class _Reader:
    """Turn YAML nodes into plain data, recording each key's line, within the limits of a scenario."""

    name: str
    lines: dict[str, int]
    values: int = 0
    pairs: dict[int, Pairs] = field(default_factory=dict)

    def value(self, node: yaml.Node, path: tuple[str, ...], above: tuple[yaml.Node, ...]) -> Any:
        self.lines.setdefault(".".join(path), node.start_mark.line + 1)
        self.values += 1
        if node in above:
            raise UserError(f"{self.place(node)}: {'.'.join(path)} contains itself")
        if len(path) > DEEPEST:
            raise UserError(f"{self.place(node)}: nested too deeply; a scenario has {DEEPEST} levels at most")
        if self.values > VALUES:
            bound = f"a scenario has {VALUES:,} values at most, anchors written out"
            raise UserError(f"{self.place(node)}: too many values; {bound}")
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{TAG}seq":
            return [self.value(inner, (*path, str(i)), (*above, node)) for i, inner in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{TAG}map":
            return self._mapping(node, path, above)
        return _scalar(node, self.place(node))

    def place(self, node: yaml.Node) -> str:
        return self.name if self.name.startswith("--set") else f"{self.name}, line {node.start_mark.line + 1}"

    def _mapping(self, node: yaml.MappingNode, path: tuple[str, ...], above: tuple[yaml.Node, ...]) -> dict[str, Any]:
        found = {}
        for name, (key, inner) in self._pairs(node, path, above).items():
            here = (*path, name)
            self.lines.setdefault(".".join(here), key.start_mark.line + 1)
            found[name] = self.value(inner, here, (*above, node))
        return found

    def _pairs(self, node: yaml.MappingNode, path: tuple[str, ...], above: tuple[yaml.Node, ...]) -> Pairs:
        # Merged keys come first; the mapping's own keys, and keys merged earlier, take precedence.  Cached for each
        # node, because nested merges would be expanded repeatedly.
        if node in above:
            raise UserError(f"{self.place(node)}: {'.'.join(path)} contains itself")
        if id(node) not in self.pairs:
            self._refuse_bad_keys(node, path)
            own = {key.value: (key, inner) for key, inner in node.value if key.tag != f"{TAG}merge"}
            merged: Pairs = {}
            for key, inner in node.value:
                if key.tag == f"{TAG}merge":
                    for source in inner.value if isinstance(inner, yaml.SequenceNode) else [inner]:
                        if not isinstance(source, yaml.MappingNode):
                            raise UserError(f"{self.place(key)}: '<<' takes a mapping, or a list of mappings")
                        merged = {**self._pairs(source, path, (*above, node)), **merged}
            self.pairs[id(node)] = {name: pair for name, pair in merged.items() if name not in own} | own
        return self.pairs[id(node)]

    def _refuse_bad_keys(self, node: yaml.MappingNode, path: tuple[str, ...]) -> None:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            place = self.place(key)
            if not isinstance(key, yaml.ScalarNode) or key.tag not in (f"{TAG}str", f"{TAG}merge"):
                shown = key.value if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                raise UserError(
                    f"{place}: {shown!r} cannot be a key; keys are words; put it in quotes if it is intended"
                )
            if key.value in seen and key.tag != f"{TAG}merge":
                whole = ".".join((*path, key.value))
                first = seen[key.value]
                raise UserError(f"{place}: {whole}: the key appears twice (first in line {first}); keep one")
            seen[key.value] = key.start_mark.line + 1


def _scalar(node: yaml.Node, place: str) -> Any:
    kind = node.tag.removeprefix(TAG)
    text = str(node.value)
    if kind == "str":
        return text
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind == "int" and re.fullmatch(CORE[2][1], text):
        if len(text) > DIGITS:
            raise UserError(f"{place}: a number of {len(text):,} digits; no key takes one of more than {DIGITS}")
        return int(text, 0 if text[:2] in ("0x", "0o") else 10)
    if kind == "float" and re.fullmatch(FLOAT, text):
        return float(text.replace(".inf", "inf").replace(".nan", "nan")) if text[-1].isalpha() else float(text)
    raise UserError(f"{place}: the tag {node.tag!r} is not used in scenarios; write a plain value")


def _syntax(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    problem = (error.problem or "not YAML").replace("could not find expected ':'", "a key without ':'")
    line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
    if "\\t" in problem or line[: len(line) - len(line.lstrip())].count("\t"):
        return "a tab; YAML indents with spaces"
    if "but found another document" in problem:
        return "a second document begins here; a scenario is one document"
    if "mapping values are not allowed" in problem:
        return f"a ':' where no key can stand, in {line.strip()!r}; put a text that holds ': ' in quotes"
    return f"not YAML: {problem}, in {line.strip()!r}"
