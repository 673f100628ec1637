"""What the source says of each setting of a dataclass: its type, its default, and the text about it.

The text is the help of a control, or the comment beside or above the field, or the sentence of the class's
docstring that names it in backticks. Of a section it is the first paragraph of its class's docstring.
"""

import ast
import dataclasses
import functools
import inspect
import io
import re
import tokenize
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.recipe import type_description
from regard.verbs.shared import recipe_text

DEFAULT = re.compile(r"\s*\[default: [^\]]*\]")  # of an option; a recipe may have another
SENTENCE = re.compile(r"(?<=\.)\s+(?=[A-Z`\"])")


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of a section: its name in TOML, and what is known of it."""

    name: str
    kind: str
    default: str  # as TOML writes it, "not set", or "required"
    meaning: str


def keys_of(cls: type) -> list[Key]:
    """The keys of a section: the fields of its dataclass, tables below it among them."""
    hints = typing.get_type_hints(cls)
    return [
        Key(
            name=field.name,
            kind=type_description(hints[field.name]),
            default=_default(field),
            meaning=meaning(cls, field) or " ".join(map(about, sections_in(hints[field.name]))),
        )
        for field in dataclasses.fields(cls)
        if field.init
    ]


def sections_in(kind: Any) -> list[type]:
    """The dataclasses that a type allows: a section in TOML."""
    kinds = (kind, *typing.get_args(kind))
    return [each for each in kinds if isinstance(each, type) and dataclasses.is_dataclass(each)]


def tables_in(kind: Any) -> list[type]:
    """The dataclasses of which a type allows several: each a table of a list in TOML, `[[name]]`."""
    lists = [each for each in typing.get_args(kind) if typing.get_origin(each) is tuple]
    return [each for one in lists for each in sections_in(one)]


def own_names(cls: type) -> list[str]:
    """The fields that the class itself declares."""
    declared = inspect.get_annotations(cls)
    return [field.name for field in dataclasses.fields(cls) if field.name in declared]


def about(cls: type) -> str:
    """The first paragraph of the docstring."""
    return inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def meaning(cls: type, field: dataclasses.Field[Any]) -> str:
    """What a field means; empty if the source does not say it."""
    declaring = [each for each in cls.__mro__ if field.name in inspect.get_annotations(each)]
    texts = [
        *(_declared_help(each, field.name) for each in declaring),
        *(comments_of(each).get(field.name, "") for each in declaring),
        *(_named_in_docstring(each, field.name) for each in (cls, *declaring)),
    ]
    return next(filter(None, texts), "")


def _declared_help(cls: type, name: str) -> str:
    if not dataclasses.is_dataclass(cls):
        return ""
    [field] = [each for each in dataclasses.fields(cls) if each.name == name]
    return DEFAULT.sub("", field.metadata.get("help", ""))


def _named_in_docstring(cls: type, name: str) -> str:
    sentences = SENTENCE.split(" ".join(inspect.cleandoc(cls.__doc__ or "").split()))
    naming = [each for each in sentences if f"`{name}`" in each]
    defining = [each.removeprefix(f"`{name}`: ") for each in naming if each.startswith(f"`{name}`: ")]
    return " ".join(defining or naming)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return toml(field.default_factory())
    return "required" if field.default is dataclasses.MISSING else toml(field.default)


def toml(value: Any) -> str:
    """A value as TOML writes it; None is a key that is left out."""
    if value is None:
        return "not set"
    return "{}" if value == {} or dataclasses.is_dataclass(value) else recipe_text.toml(value)


@functools.cache
def comments_of(cls: type) -> dict[str, str]:
    """The comments beside the fields that a class declares, or else those on the lines above."""
    try:
        path = inspect.getsourcefile(cls)
    except (TypeError, OSError):
        path = None
    if path is None:  # a registered class of a notebook, whose source is in no file
        return {}
    trailing, whole = _comments(Path(path))
    found = {}
    for node in _declarations(Path(path), cls.__qualname__):
        beside = [
            trailing[line] for line in range(node.lineno, (node.end_lineno or 0) + 1) if line in trailing
        ]
        above: list[str] = []
        line = node.lineno - 1
        while line in whole:
            above.insert(0, whole[line])
            line -= 1
        assert isinstance(node.target, ast.Name)
        found[node.target.id] = " ".join(beside or above)
    return found


def _declarations(path: Path, name: str) -> Iterator[ast.AnnAssign]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield from (each for each in node.body if isinstance(each, ast.AnnAssign))


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def _comments(path: Path) -> tuple[dict[int, str], dict[int, str]]:
    """The comments of a file by line: those beside code, and those on lines of their own."""
    beside: dict[int, str] = {}
    alone: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type == tokenize.COMMENT:
            text = re.sub(r"\s*(noqa|type: ignore|pyright: ignore).*", "", token.string.lstrip("# "))
            (alone if token.line.lstrip().startswith("#") else beside)[token.start[0]] = text
    return beside, alone
