"""The public names of a package, each imported from its file when it is first used.

The names are listed once, in the package's `__init__.pyi`, where editors and type checkers read them too.
"""

import ast
import importlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the package whose `__init__.py` is `file` (PEP 562)."""

    @cache
    def modules() -> dict[str, str]:
        """Name -> the module that defines it."""
        stub = ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8"))
        return {
            alias.name: str(node.module)
            for node in stub.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def get(name: str) -> Any:
        if name == "__all__":
            return sorted(modules())
        if name.startswith("__") or name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules()[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(modules())
