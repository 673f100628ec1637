"""ES modules in one classic script: a file on a disk may not import, and its policy names one hash.

Each module becomes a function that is called once and returns what it exports, those first on which others
lean. Only the plain forms of import and export are known; what else there is, is refused and not guessed at.
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
# None of these may be left, in a comment or a string neither: to tell those apart would take a parser.
UNKNOWN = re.compile(r"^[ \t]*(?:import|export)\b(?!\s*:)|(?<![.\w$])import\s*(?:\(|\.\s*meta)", re.MULTILINE)


class UnknownSyntaxError(ValueError):
    """A module says `import` or `export` in a way that the bundler does not know."""


def bundle(modules: Mapping[str, str], entry: str, *, esm: bool = False) -> str:
    """One script that does what the module `entry` does, with all that it imports.

    `modules` are sources by name ("views/heads.js"). `esm`: the script is a module itself and exports what
    `entry` exports by default; else it is a classic script that exports nothing.

    Raises:
        UnknownSyntaxError: a form of import or export that is not known, a module that is not there, or
            modules that import each other.
    """
    order = _in_order(modules, entry)
    given = {name: _exported(name, modules[name]) for name in order}
    parts = [_wrapped(name, modules[name], given) for name in order]
    last = f"export default {_variable(entry)}.default;\n" if esm else ""
    body = '"use strict";\n' + "\n".join(parts)
    return f"{body}\n{last}" if esm else f"(() => {{\n{body}\n}})();\n"


def _in_order(modules: Mapping[str, str], entry: str) -> list[str]:
    """`entry` and all that it leans on, each after those on which it leans itself."""
    leans: dict[str, set[str]] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in leans:
            continue
        if name not in modules:
            users = ", ".join(sorted(user for user, used in leans.items() if name in used)) or "the page"
            raise UnknownSyntaxError(f"{name}: no such module; {users} imports it")
        leans[name] = {_resolved(name, found["path"]) for found in IMPORT.finditer(modules[name])}
        waiting += leans[name]
    try:
        return list(graphlib.TopologicalSorter(leans).static_order())
    except graphlib.CycleError as error:
        raise UnknownSyntaxError(f"modules import each other: {' -> '.join(error.args[1])}") from None


def _exported(name: str, source: str) -> dict[str, str]:
    """What a module exports: the name outside and the name inside."""
    exports = {found["name"]: found["name"] for found in NAMED.finditer(source)}
    defaults = len(DEFAULT.findall(source))
    if defaults > 1:
        raise UnknownSyntaxError(f"{name}: more than one default export")
    return exports | ({"default": "$default"} if defaults else {})


def _wrapped(name: str, source: str, given: Mapping[str, Mapping[str, str]]) -> str:
    """The module as a constant that holds what it exports; `given` are the exports of all."""
    code = DEFAULT.sub("const $default = ", NAMED.sub(r"\g<kept>", source))
    code = IMPORT.sub(lambda found: _taken(name, found, given), code)
    if left := UNKNOWN.search(code):
        line = code[: left.start()].count("\n")
        raise UnknownSyntaxError(
            f"{name}, line {line + 1}: not known here: {code.splitlines()[line].strip()}"
        )
    exports = ", ".join(key if key == value else f"{key}: {value}" for key, value in given[name].items())
    return f"const {_variable(name)} = (() => {{ // {name}\n{_lean(code)}\nreturn {{ {exports} }};\n}})();"


def _taken(importer: str, found: re.Match[str], given: Mapping[str, Mapping[str, str]]) -> str:
    """`import a, {b as c} from "./x.js";` as a destructuring of what x.js gave."""
    default = found["default"] or found["alone"]
    names = [
        re.split(r"\s+as\s+", name.strip()) for name in (found["names"] or "").split(",") if name.strip()
    ]
    taken = [["default", default]] if default else []
    exporter = _resolved(importer, found["path"])
    for name, *_ in [*taken, *names]:
        if name not in given[exporter]:
            raise UnknownSyntaxError(f"{importer}: {exporter} exports no {name}")
    inside = ", ".join(": ".join(name) for name in [*taken, *names])
    return f"const {{ {inside} }} = {_variable(exporter)};"


def _lean(code: str) -> str:
    """The code without indents and without comments that stand on lines of their own.

    Where a template literal may run over lines, which could hold either, nothing is left out.
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
