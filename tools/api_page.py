"""Writes docs/api.md: the public names of each package in the table of docs/extending.md, a line about each.

.venv/bin/python tools/api_page.py            writes it
.venv/bin/python tools/api_page.py --check    exits with 1 where it is not what would be written

The line is the first of the docstring; of constants and types it is the comment beside their definition.
"""

import argparse
import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE, PACKAGES = ROOT / "docs/api.md", ROOT / "docs/extending.md"
HEAD = """# The public names

Written by `tools/api_page.py`. These names follow the
[promise for Python calls](../CHANGELOG.md#what-stays-compatible); `help(NAME)` describes each.
[extending.md](extending.md) shows how to use them.
"""


def packages() -> list[str]:
    """The packages of the table, in its order."""
    _, _, section = PACKAGES.read_text("utf-8").partition("## The public library")
    return re.findall(r"^\| `(regard[\w.]*)` \|", section, re.MULTILINE)


def public_names(package: ModuleType) -> list[str]:
    """Its names, in the order of the alphabet."""
    return sorted((name for name in dir(package) if not name.startswith("__")), key=str.lower)


def line_about(package: ModuleType, name: str) -> str:
    """The first line of its own docstring, or the comment beside its definition, if there is one."""
    value = getattr(package, name)
    if inspect.isclass(value):
        text = str(vars(value).get("__doc__") or "")
        return "" if text.startswith(f"{name}(") else _first(text)  # written by `dataclass`
    if inspect.isroutine(value):
        return _first(value.__doc__ or "")
    return _comment(package, name)


def _first(docstring: str) -> str:
    return inspect.cleandoc(docstring).partition("\n")[0]


def _comment(package: ModuleType, name: str) -> str:
    """The comment beside the assignment of a name that the package's stub imports."""
    module = next(module for module, names in _imports(package) if name in names)
    source = inspect.getsource(importlib.import_module(module))
    found = re.search(rf"^{name}\b.*?  # (.*)$", source, re.MULTILINE)
    return found[1] if found else ""


def _imports(package: ModuleType) -> Iterator[tuple[str, list[str]]]:
    stub = Path(str(package.__file__)).with_suffix(".pyi").read_text("utf-8")
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ImportFrom):
            yield str(node.module), [alias.name for alias in node.names]


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name in packages():
        package: Any = importlib.import_module(name)
        rows = [f"| `{each}` | {line_about(package, each)} |" for each in public_names(package)]
        parts.append(
            "\n".join([f"## {name}\n", _first(package.__doc__), "", "| name | |", "| --- | --- |", *rows])
        )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    options, text = parser.parse_args(), page()
    if not options.check:
        PAGE.write_text(text, "utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text("utf-8") == text:
        return 0
    print(f"error: {PAGE} is not what the packages have\nhint: python tools/api_page.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
