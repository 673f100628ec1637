"""Writes src/regard/__init__.pyi: what type checkers and editors see of `regard`, which is loaded lazily.

.venv/bin/python tools/stub.py            writes it
.venv/bin/python tools/stub.py --check    exits with 1 where it is not what would be written

Calls are as their files have them, except those that take the fields of a dataclass as keywords
(`verbs/shared/keyword_fields.py`): the stub spells out each keyword, with its type, its default and a line
about it. Calls that take one text or several are overloaded, so that a str gives one answer and a list gives
a list.
"""

import argparse
import ast
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union

import regard

PACKAGE = Path(regard.__file__).parent
STUB = PACKAGE / "__init__.pyi"
HEAD = '''"""What type checkers and editors see of `regard`. Written by tools/stub.py: change the verbs."""

'''
RETURNED = {"Loaded": "regard.verbs.load"}  # classes that are not exported, but have methods to spell out


@dataclass(frozen=True)
class Answers:
    """The type of an answer to one text: where the number `count` is 1, and where it may be more.

    `text`, `texts`: the types of one text and of several.
    """

    one: str
    many: str = ""
    count: str = ""
    text: Any = str
    texts: Any = Iterable[str]

    def overloads(self, *, file: bool) -> Iterator[tuple[Any, str, str]]:
        """The type of the first parameter (None for a file's own), that of the number, and the result."""
        for text in [None] if file else [self.text, self.texts]:
            several = text is None or text != self.text
            for number, answer in [("Literal[1] = 1", self.one), ("int", self.many)][
                : 2 if self.count else 1
            ]:
                yield text, number if self.count else "", f"list[{answer}]" if several else answer


TEXTS, GUESSES = "list[str]", "list[list[tuple[str, float]]]"
ASKED = str | Sequence[Mapping[str, str]]  # a message of the user, or a conversation
CLASSES = "list[tuple[str, float]]"
OVERLOADED = {
    "classify": Answers("str | float | None", f"{CLASSES} | float", "top"),
    "classify_file": Answers("str | float | None", f"{CLASSES} | float", "top"),
    "classify_images": Answers("str", CLASSES, "top"),
    "classify_nodes": Answers("str", CLASSES, "top"),
    "fill": Answers(GUESSES),
    "generate": Answers("str", TEXTS, "num", ASKED, Iterable[ASKED]),
    "generate_file": Answers("str", TEXTS, "num"),
    "summarize": Answers("str", TEXTS, "n_best"),
    "translate": Answers("str", TEXTS, "n_best"),
}


class Stub:
    """The text of the stub as it grows, and the names that it imports."""

    def __init__(self) -> None:
        self.imports = {("typing", "overload")}
        self.written: list[str] = []

    def text(self) -> str:
        """The whole file."""
        for module, names in [*sorted(exported()), *((module, [name]) for name, module in RETURNED.items())]:
            for name in names:
                call = getattr(importlib.import_module(module), name)
                if spread_methods(call) if isinstance(call, type) else is_spread(call):
                    self.written.append(self.declaration(module, name, call))
                else:
                    self.imports.add((module, f"{name} as {name}"))
        declared = {*RETURNED, *regard.__all__}
        lines = [f"from {module} import {name}" for module, name in self.imports if name not in declared]
        listed = "".join(f'    "{name}",\n' for name in sorted(regard.__all__))
        head = f"{HEAD}{chr(10).join(sorted(lines))}\n\n__version__: str\n__all__ = [\n{listed}]\n\n"
        return head + "\n\n".join(self.written)

    def declaration(self, module: str, name: str, call: Any) -> str:
        if not isinstance(call, type):
            return self.overloaded(name, call)
        self.imports.add((module, f"{name} as _{name}"))
        doc = docstring(inspect.cleandoc(call.__doc__ or ""), "    ")
        methods = [self.function(each, getattr(call, each), "    ") for each in spread_methods(call)]
        return f"class {name}(_{name}):\n{doc}\n" + "\n".join(methods)

    def overloaded(self, name: str, call: Callable[..., Any]) -> str:
        """A function, or one for each type of its result; the first has the docstring.

        A str is an Iterable[str] too, which pyright reports; overloads are tried in order.
        """
        if name not in OVERLOADED:
            return self.function(name, call, "")
        answers, [first, *_] = OVERLOADED[name], inspect.signature(call).parameters
        parts = []
        for text, number, result in answers.overloads(file=first == "input"):
            changes = {answers.count: number} if number else {}
            if text is not None:
                changes[first] = self.shown(text)
            part = self.function(name, call, "", changes=changes, result=result, documented=not parts)
            parts.append(f"@overload\n{part}")
        return "\n".join(parts)

    def function(
        self,
        name: str,
        call: Callable[..., Any],
        margin: str,
        *,
        changes: dict[str, str] | None = None,
        result: str = "",
        documented: bool = True,
    ) -> str:
        """A function with each parameter on a line of its own; `changes`: other types of parameters."""
        signature, lines, star = inspect.signature(call), [], False
        for each in signature.parameters.values():
            if each.kind is inspect.Parameter.KEYWORD_ONLY and not star:
                lines.append("*")
                star = True
            if each.name in (changes or {}):
                lines.append(f"{each.name}: {(changes or {})[each.name]}")
                continue
            kind = "" if each.annotation is inspect.Parameter.empty else f": {self.shown(each.annotation)}"
            default = "" if each.default is inspect.Parameter.empty else f" = {literal(each.default)}"
            lines.append(f"{each.name}{kind}{default}")
        parameters = "".join(f"{margin}    {line},\n" for line in lines)
        doc = docstring(inspect.getdoc(call) or "", margin + "    ") if documented else f"{margin}    ...\n"
        returned = result or self.shown(signature.return_annotation)
        rule = "reportOverlappingOverload" if result else "reportIncompatibleMethodOverride"
        ignored = f"  # pyright: ignore[{rule}]" if result or (margin and name != "__init__") else ""
        return f"{margin}def {name}({ignored}\n{parameters}{margin}) -> {returned}:\n{doc}"

    def shown(self, kind: Any) -> str:
        """A type as it is written; its name is imported."""
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if kind in (None, type(None)):
            return "None"
        if hasattr(kind, "array_type"):  # jaxtyping's
            return self.shown(kind.array_type)
        if isinstance(kind, list):
            return f"[{', '.join(map(self.shown, kind))}]"
        if origin in (Union, types.UnionType):
            return " | ".join(dict.fromkeys(self.shown(each) for each in inner))
        if origin is Literal:
            self.imports.add(("typing", "Literal"))
            return f"Literal[{', '.join(map(literal, inner))}]"
        if origin is tuple and inner[-1] is Ellipsis:  # or a list, or one text (see keyword_fields)
            self.imports.add(("collections.abc", "Sequence"))
            return f"Sequence[{self.shown(inner[0])}]"
        if origin is not None:
            return f"{self.shown(origin)}[{', '.join(map(self.shown, inner))}]"
        if kind.__module__ != "builtins":
            self.imports.add((kind.__module__, kind.__name__))
        return kind.__name__


def exported() -> Iterator[tuple[str, list[str]]]:
    """Module and names of each import that `regard/__init__.py` has for type checkers and for all."""
    for node in ast.walk(ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
            yield str(node.module), [alias.name for alias in node.names]


def is_spread(function: Any) -> bool:
    """True if a function's own parameters are others than those that it shows."""
    own = inspect.signature(inspect.unwrap(function), follow_wrapped=False)
    return [*own.parameters] != [*inspect.signature(function).parameters]


def spread_methods(cls: type) -> list[str]:
    """The methods of a class whose own parameters are others than those that they show."""
    return [name for name, each in vars(cls).items() if inspect.isfunction(each) and is_spread(each)]


def docstring(text: str, margin: str) -> str:
    lines = f'"""{text}\n"""'.splitlines()
    return "".join(f"{margin}{line}".rstrip() + "\n" for line in lines)


def literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    options, text = parser.parse_args(), Stub().text()
    if not options.check:
        STUB.write_text(text, "utf-8")
        return 0
    if STUB.is_file() and STUB.read_text("utf-8") == text:
        return 0
    print(f"error: {STUB} is not what the verbs say\nhint: python tools/stub.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
