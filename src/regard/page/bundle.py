"""Bundles ES modules into one classic script: an HTML file on disk cannot import modules.

Each module becomes a function that is called once and returns its exports, after the modules it imports. Only
the plain forms of import and export are supported; any other form is an error.
"""

import graphlib
import re
from collections.abc import Mapping
from posixpath import dirname, join, normpath

IMPORT = re.compile(
    r"^import\s+(?:(?P<default>[\w$]+)\s*,\s*)?(?:\{(?P<names>[^{}]*)\}|(?P<alone>[\w$]+))"
    r"""\s+from\s+"(?P<path>\.{1,2}/[\w./-]+\.js)";[ \t]*(?://[^\n]*)?$""",
    re.MULTILINE,
)
NAMED = re.compile(
    r"^export\s+(?P<kept>(?:async\s+)?(?:function\s*\*?|const|class)\s+(?P<name>[\w$]+))", re.MULTILINE
)
DEFAULT = re.compile(r"^export\s+default\s+(?=[{\w$])(?!function\b|class\b|async\b)", re.MULTILINE)
# Must not remain, not even in a comment or string: telling those apart would take a parser.
UNKNOWN = re.compile(r"^[ \t]*(?:import|export)\b(?!\s*:)|(?<![.\w$])import\s*(?:\(|\.\s*meta)", re.MULTILINE)


class UnknownSyntaxError(ValueError):
    """A module has a form of `import` or `export` that the bundler does not support."""


def bundle(modules: Mapping[str, str], entry: str, *, esm: bool = False) -> str:
    """One script of the module `entry` and all modules that it imports.

    `modules` are sources by name ("views/heads.js"). With `esm` the script is a module with the default
    export of `entry`; otherwise it is a classic script without exports.

    Raises:
        UnknownSyntaxError: a form of import or export is not supported, a module is missing, or modules
            import each other.
    """
    order = _in_order(modules, entry)
    all_exports = {name: _exported(name, modules[name]) for name in order}
    parts = [_wrapped(name, modules[name], all_exports) for name in order]
    last = f"export default {_variable(entry)}.default;\n" if esm else ""
    body = '"use strict";\n' + "\n".join(parts)
    return f"{body}\n{last}" if esm else f"(() => {{\n{body}\n}})();\n"


def _in_order(modules: Mapping[str, str], entry: str) -> list[str]:
    """`entry` and its dependencies, each after its own dependencies."""
    dependencies: dict[str, set[str]] = {}
    queue = [entry]
    while queue:
        name = queue.pop()
        if name in dependencies:
            continue
        if name not in modules:
            users = (
                ", ".join(sorted(user for user, used in dependencies.items() if name in used)) or "the page"
            )
            raise UnknownSyntaxError(f"{name}: no such module; {users} imports it")
        dependencies[name] = {_resolved(name, found["path"]) for found in IMPORT.finditer(modules[name])}
        queue += dependencies[name]
    try:
        return list(graphlib.TopologicalSorter(dependencies).static_order())
    except graphlib.CycleError as error:
        raise UnknownSyntaxError(f"modules import each other: {' -> '.join(error.args[1])}") from None


def _exported(name: str, source: str) -> dict[str, str]:
    """The exports of a module: exported name -> local name."""
    exports = {found["name"]: found["name"] for found in NAMED.finditer(source)}
    defaults = len(DEFAULT.findall(source))
    if defaults > 1:
        raise UnknownSyntaxError(f"{name}: more than one default export")
    return exports | ({"default": "$default"} if defaults else {})


def _wrapped(name: str, source: str, all_exports: Mapping[str, Mapping[str, str]]) -> str:
    """The module as a constant that holds its exports; `all_exports` has those of all modules."""
    code = DEFAULT.sub("const $default = ", NAMED.sub(r"\g<kept>", source))
    code = IMPORT.sub(lambda found: _destructured(name, found, all_exports), code)
    if unknown := UNKNOWN.search(code):
        line = code[: unknown.start()].count("\n")
        raise UnknownSyntaxError(f"{name}, line {line + 1}: not supported: {code.splitlines()[line].strip()}")
    exports = ", ".join(
        key if key == value else f"{key}: {value}" for key, value in all_exports[name].items()
    )
    return (
        f"const {_variable(name)} = (() => {{ // {name}\n{_minified(code)}\nreturn {{ {exports} }};\n}})();"
    )


def _destructured(importer: str, found: re.Match[str], all_exports: Mapping[str, Mapping[str, str]]) -> str:
    """`import a, {b as c} from "./x.js";` as a destructuring of the exports of x.js."""
    default = found["default"] or found["alone"]
    names = [
        re.split(r"\s+as\s+", name.strip()) for name in (found["names"] or "").split(",") if name.strip()
    ]
    imported = [["default", default]] if default else []
    exporter = _resolved(importer, found["path"])
    for name, *_ in [*imported, *names]:
        if name not in all_exports[exporter]:
            raise UnknownSyntaxError(f"{importer}: {exporter} exports no {name}")
    inside = ", ".join(": ".join(name) for name in [*imported, *names])
    return f"const {{ {inside} }} = {_variable(exporter)};"


def _minified(code: str) -> str:
    """The code without indents and without comments on lines of their own.

    Code with a template literal over several lines, which could contain either, is not changed.
    """
    lines = code.splitlines()
    if any(line.count("`") % 2 for line in lines):
        return code
    code = re.sub(
        r"^/\*\*.*?\*/$", "", "\n".join(line.strip() for line in lines), flags=re.DOTALL | re.MULTILINE
    )
    return "\n".join(line for line in code.splitlines() if line and not line.startswith("//"))


def _resolved(importer: str, path: str) -> str:
    return normpath(join(dirname(importer), path))


def _variable(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))
