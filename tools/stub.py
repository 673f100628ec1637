"""Writes src/regard/__init__.pyi: what type checkers and editors see of `regard`, which is loaded lazily.

.venv/bin/python tools/stub.py            writes it
.venv/bin/python tools/stub.py --check    exits with 1 where it is not what would be written

Calls are as their files have them, but those that take the fields of a value as keywords
(`verbs/keyword_fields.py`): the stub spells out each keyword, with its type, its default and a line about it.
"""

import argparse
import ast
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Union

import regard

PACKAGE = Path(regard.__file__).parent
STUB = PACKAGE / "__init__.pyi"
HEAD = '''"""What type checkers and editors see of `regard`. Written by tools/stub.py: change the verbs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

'''


def stub() -> str:
    """The whole file."""
    imports, written = [], []
    for module, names in sorted(exported()):
        for name in names:
            if is_spread(getattr(regard, name)):
                written.append(declaration(name))
                if isinstance(getattr(regard, name), type):
                    imports.append(f"from {module} import {name} as _{name}")
            else:
                imports.append(f"from {module} import {name} as {name}")
    imports.append("from regard.weights.model_folder import LoadedModel")
    listed = "".join(f'    "{name}",\n' for name in sorted(regard.__all__))
    head = HEAD + "\n".join(sorted(imports))
    return f"{head}\n\n__version__: str\n__all__ = [\n{listed}]\n\n" + "\n\n".join(written)


def exported() -> Iterator[tuple[str, list[str]]]:
    """Module and names of each import that `regard/__init__.py` has for type checkers and for all."""
    for node in ast.walk(ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
            yield str(node.module), [alias.name for alias in node.names]


def is_spread(call: Any) -> bool:
    """True if a call's own parameters are others than those that it shows."""
    function = call.__init__ if isinstance(call, type) else call
    own = inspect.signature(inspect.unwrap(function), follow_wrapped=False)
    return [*own.parameters] != [*inspect.signature(function).parameters]


def declaration(name: str) -> str:
    call = getattr(regard, name)
    if not isinstance(call, type):
        return function(name, call, "")
    doc = docstring(inspect.cleandoc(call.__doc__ or ""), "    ")
    return f"class {name}(_{name}):\n{doc}\n{function('__init__', call.__init__, '    ')}"


def function(name: str, call: Callable[..., Any], margin: str) -> str:
    """A function with each parameter on a line of its own."""
    signature, lines, star = inspect.signature(call), [], False
    for each in signature.parameters.values():
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            lines.append("*")
            star = True
        kind = "" if each.annotation is inspect.Parameter.empty else f": {shown(each.annotation)}"
        default = "" if each.default is inspect.Parameter.empty else f" = {literal(each.default)}"
        lines.append(f"{each.name}{kind}{default}")
    parameters = "".join(f"{margin}    {line},\n" for line in lines)
    doc = docstring(inspect.getdoc(call) or "", margin + "    ")
    result = shown(signature.return_annotation)
    return f"{margin}def {name}(\n{parameters}{margin}) -> {result}:\n{doc}"


def docstring(text: str, margin: str) -> str:
    lines = f'"""{text}\n"""'.splitlines()
    return "".join(f"{margin}{line}".rstrip() + "\n" for line in lines)


def literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def shown(kind: Any) -> str:
    """A type as it is written."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return " | ".join(shown(each) for each in inner)
    if origin is Literal:
        return f"Literal[{', '.join(map(literal, inner))}]"
    if origin is tuple and inner[-1] is Ellipsis:  # or a list, or one text (see keyword_fields)
        return f"Sequence[{shown(inner[0])}]"
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(shown, inner))}]"
    return "None" if kind in (None, type(None)) else "Any" if kind is Any else kind.__name__


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    options, text = parser.parse_args(), stub()
    if not options.check:
        STUB.write_text(text, "utf-8")
        return 0
    if STUB.is_file() and STUB.read_text("utf-8") == text:
        return 0
    print(f"error: {STUB} is not what the verbs say\nhint: python tools/stub.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
