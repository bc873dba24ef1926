"""Directives that write the reference from the code: keys of a scenario, parts with their papers, columns of tables.

Nothing is written twice: keys come from the JSON schema, parts from what `--list` shows, columns from the classes of
the rows.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from analysis.read.load import flat
from fedsim.core import record
from fedsim.scenario.parts import find, options
from fedsim.scenario.schema import Scenario
from fedsim.sweep import listing, runner

OUTSIDE = {"](../CONTRIBUTING.md": "](contributing.md", "](../benchmarks/README.md": "](benchmarks.md"}
INCLUDED = {"](benchmarks/README.md": "](docs/benchmarks.md", "](peers.md": "](../docs/peers.md"}
UNITS = {
    **dict.fromkeys(("sent", "arrived", "time", "start", "end"), "s"),
    **dict.fromkeys(("nbytes", "wire_bytes"), "B"),
    "staleness": "versions",
    **dict.fromkeys(("epsilon", "majority", "value"), "none"),
}
TYPES = {"str": "text", "int": "whole number", "float": "number"}
PART = "name of a part, with its options"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in row)} |\n" for row in lines
    )


LEAST = {  # a scenario that leaves out all that it can
    "name": "least", "clients": {"count": 1}, "protocol": "one_shot",
    "network": {"latency": "1 ms", "uplink": "1 Mbit/s", "downlink": "1 Mbit/s"},
}  # fmt: skip


class Generated(SphinxDirective):
    """A directive that stands for the Markdown that `text` returns."""

    optional_arguments = 1
    has_content = False

    def run(self) -> list[nodes.Node]:
        """Return the parsed text."""
        return self.parse_text_to_nodes(self.text(), allow_section_headings=True)

    def text(self) -> str:
        """Return the Markdown."""
        raise NotImplementedError


class ScenarioKeys(Generated):
    """Every key of a scenario, section by section: what it takes, its default and its meaning."""

    def text(self) -> str:
        """Return a table for each section of the schema."""
        schema = Scenario.model_json_schema()
        written = dict(flat(Scenario.model_validate(LEAST).plain()))
        sections: dict[str, list[list[str]]] = {}
        for key, shape, required in keys(schema, schema["$defs"]):
            if isinstance(written.get(key), str) and isinstance(shape.get("default"), int | float | dict):
                shape = {**shape, "default": written[key]}  # with its unit
            section = key.partition(".")[0] if "." in key or "$ref" in str(shape) else "the scenario itself"
            sections.setdefault(section, []).append(
                [f"`{key}`", value(shape, schema["$defs"]), default(shape, required), shape.get("description", "")]
            )
        head = ["key", "value", "default", "meaning"]
        return "".join(f"## {name}\n\n{table(head, rows)}\n" for name, rows in sections.items())


def keys(section: dict[str, Any], known: dict[str, Any], above: str = "") -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield dotted key, schema and whether it is required, of a section and the sections in it."""
    for name, shape in section.get("properties", {}).items():
        yield f"{above}{name}", shape, name in section.get("required", ())
        for inner in within(shape, known):
            yield from keys(inner, known, f"{above}{name}.")


def within(shape: dict[str, Any], known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the sections that a value may be; a part is none, since its options are those of its class."""
    if "$ref" in shape:
        name = shape["$ref"].rpartition("/")[2]
        if name not in ("Part", "OptimiserPart"):
            yield from within(known[name], known)
    elif "properties" in shape:
        yield shape
    for inner in (*shape.get("anyOf", ()), *shape.get("oneOf", ())):
        yield from within(inner, known)


def value(shape: dict[str, Any], known: dict[str, Any]) -> str:
    """Return in words what a key takes, with examples in their units."""
    return " or ".join(dict.fromkeys(word for word in choices(shape, known, outermost=True) if word))


def choices(shape: dict[str, Any], known: dict[str, Any], outermost: bool = False) -> Iterator[str]:
    """Yield what a value may be, each in words."""
    if "examples" in shape:
        such = ", ".join(f"`{example}`" for example in shape["examples"])
        what = "" if outermost else shape.get("description", "").rstrip(".")
        yield f"{what[:1].lower()}{what[1:]}, such as {such}" if what else f"such as {such}"
    elif "$ref" in shape:
        name = shape["$ref"].rpartition("/")[2]
        yield PART if name in ("Part", "OptimiserPart") else value(known[name], known)
    elif "enum" in shape:
        yield ", ".join(f"`{each}`" for each in shape["enum"])
    elif "const" in shape:
        yield f"`{shape['const']}`"
    elif inner := (*shape.get("anyOf", ()), *shape.get("oneOf", ())):
        for each in inner:
            yield from choices(each, known)
    else:
        yield kind(shape, known)


def kind(shape: dict[str, Any], known: dict[str, Any]) -> str:
    """Return a plain type in words, with its bounds."""
    match shape.get("type"):
        case "object":
            inner = shape.get("additionalProperties")
            named = "properties" not in shape
            return f"mapping to {value(inner, known)}" if named and isinstance(inner, dict) and inner else "mapping"
        case "array":
            return f"list of {value(shape['items'], known)}" if shape.get("items") else "list"
        case "integer" | "number" as name:
            words = "whole number" if name == "integer" else "number"
            bounds = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}
            limits = [f"{bounds[bound]} {shape[bound]}" for bound in bounds if bound in shape]
            return " ".join([words, *limits])
        case "string":
            return "text"
        case "boolean":
            return "`true`, `false`"
        case "null":
            return "`null`"
    return "any value"


def default(shape: dict[str, Any], required: bool) -> str:
    """Return a default as a scenario writes it."""
    if required:
        return "required"
    given = shape.get("default")
    if isinstance(given, dict) and given:
        return "see its keys"
    return f"`{options.shown(given)}`" if given != "" else "no text"


class Parts(Generated):
    """All parts of a kind: what each does, its paper, and its options."""

    required_arguments = 1
    optional_arguments = 0

    def text(self) -> str:
        """Return a table of the kind, and one of each part's options."""
        name = self.arguments[0]
        entries = [(part, *listing.entry(name, part), options.of(name, part)[1]) for part in find.names(name)]
        rows = [[f"`{part}`", what, paper] for part, what, paper, _ in entries]
        head = ["name", "what it does", "source"]
        if name == "algorithm":
            head.append("others read of a client")
            for row, (part, *_) in zip(rows, entries, strict=True):
                row.append(str(options.of(name, part)[0].discloses))
        text = f"Scenario key `{find.KINDS[name].key}`.\n\n{table(head, rows)}\n"
        for part, _, _, known in entries:
            if known:
                described = [[f"`{each.name}`", each.type, f"`{each.default}`", meaning(each)] for each in known]
                text += f"### {part}\n\n{table(['option', 'value', 'default', 'meaning'], described)}\n"
        return text


def meaning(option: options.Option) -> str:
    """Return an option's meaning, with the range that `--tune` searches."""
    searched = f"`--tune` searches {option.span}" if option.span else ""
    return "; ".join(filter(None, (option.meaning, searched)))


class Columns(Generated):
    """Every table of a run with its columns."""

    def text(self) -> str:
        """Return a section for each table.  Raises ExtensionError where a number has no unit here."""
        text = ""
        for name, row in record.TABLES.items():
            rows = []
            for field in fields(row):
                kinds = [TYPES[each] for each in str(getattr(field.type, "__name__", field.type)).split(" | ")[:1]]
                if "number" in kinds and field.name not in UNITS:
                    raise ExtensionError(f"{name}.{field.name} has no unit in docs/_extensions/reference.py")
                empty = " or empty" if "None" in str(field.type) else ""
                rows.append([f"`{field.name}`", f"{kinds[0]}{empty}", UNITS.get(field.name, "")])
            told = inspect.getdoc(row) or ""
            text += f"## {name}.parquet\n\n{told}\n\n{table(['column', 'value', 'unit'], rows)}\n"
        return text


class SummaryColumns(Generated):
    """Check that a page describes every column of summary.csv, and no other."""

    optional_arguments = 0
    has_content = True

    def text(self) -> str:
        """Return the content, a table whose first cells are the columns."""
        rows = [line for line in self.content if line.startswith("| `")]
        named = [name for line in rows for name in line.split("|")[1].replace("`", "").replace(",", " ").split()]
        if wrong := set(named) ^ set(runner.RESULTS):
            raise ExtensionError(f"columns of summary.csv described in one place only: {', '.join(sorted(wrong))}")
        return "\n".join(self.content)


def moved(app: Sphinx, page: str, source: list[str]) -> None:
    """Lead links to files beside this folder to the pages that include them."""
    for outside, inside in OUTSIDE.items():
        source[0] = source[0].replace(outside, inside)


def moved_in_included(app: Sphinx, path: Any, page: str, source: list[str]) -> None:
    """Do the same within the files that pages include."""
    for outside, inside in INCLUDED.items():
        source[0] = source[0].replace(outside, inside)


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx of the directives."""
    for name, directive in {
        "scenario-keys": ScenarioKeys,
        "parts": Parts,
        "columns": Columns,
        "summary-columns": SummaryColumns,
    }.items():
        app.add_directive(name, directive)
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", moved)
    app.connect("include-read", moved_in_included)
    return {"parallel_read_safe": True}
