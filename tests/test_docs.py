"""What the documentation names is there."""

import ast
import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for folder in ("", "do", "reference") for page in (ROOT / "docs" / folder).glob("*.md")),
    ROOT / "recipes" / "README.md",
]
NAMED = re.compile(r"`((?:[a-z_0-9-]+/)+[\w.-]+\.(?:py|toml|md))`")


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "log.md"],  # the log names files as they were then
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_file_that_a_page_names_is_there(page):
    """Named from the repository's root, or from the package."""
    names = set(NAMED.findall(page.read_text("utf-8")))
    missing = [
        name
        for name in sorted(names)
        if not any((place / name).is_file() for place in (ROOT, ROOT / "src/regard"))
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text("utf-8"))
    assert not [target for target in targets if not (page.parent / target).exists()]


def test_every_target_of_the_makefile_does_something():
    database = subprocess.run(["make", "-pRrq"], cwd=ROOT, capture_output=True, text=True).stdout
    rules = {rule.partition(":")[0]: rule for rule in database.split("\n\n")}
    for name in re.findall(r"^\.PHONY: (.*)$", database, re.M)[0].split():
        head, _, rest = rules[name].partition("\n")
        assert head.partition(":")[2].strip() or "\n\t" in rest, f"make {name} does nothing"


IMPORT = re.compile(r"\bfrom (regard[\w.]*) import \(?([\w, ]+)")
PROGRAMS = sorted(  # pages, and programs that stand in strings
    path
    for pattern in (
        "*.md",
        "docs/*.md",
        "docs/do/*.md",
        "tests/**/*.py",
        "tools/**/*.py",
        "benchmarks/**/*.py",
        "src/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if path.name != "log.md" and IMPORT.search(path.read_text("utf-8"))
)


def test_every_name_that_is_imported_is_there():
    imported = {
        (module, name): path
        for path in PROGRAMS
        for module, names in IMPORT.findall(path.read_text("utf-8"))
        for name in filter(None, (each.split(" as ")[0].strip() for each in names.split(",")))
    }
    assert len(imported) > 1000
    assert not [f"{path}: {each}" for each, path in imported.items() if not has_name(*each)]


def has_name(module, name):
    """True if a module defines a name, or is a package with this module."""
    if module.startswith("regard.fast.triton"):
        return name in names_of(module)
    if hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None


def names_of(module):
    """What the file of a module defines, or a package holds: Triton, which it imports, is not everywhere."""
    path = ROOT / "src" / module.replace(".", "/")
    if path.is_dir():
        return {each.stem for each in path.glob("*.py")}
    tree = ast.parse(path.with_suffix(".py").read_text("utf-8"))
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    named = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {
        *named,
        *(node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)),
    }


TABLE_WIDTH = 120  # characters of a row, so that a table can be read and edited in a terminal
WRITTEN_BY_PROGRAMS = {  # page -> the program that writes its tables, whatever their width
    "docs/api.md": "tools/api_page.py",
    "docs/recipes-by-size.md": "tools/proposals.py",
    "benchmarks/README.md": "benchmarks/common/report.py",
}
HAND_WRITTEN = [
    path
    for pattern in (
        "*.md",
        "docs/*.md",
        "docs/do/*.md",
        "docs/reference/*.md",
        "recipes/*.md",
        "benchmarks/*.md",
    )
    for path in sorted(ROOT.glob(pattern))
    if path.relative_to(ROOT).as_posix() not in WRITTEN_BY_PROGRAMS
]


def wide_rows(page: str) -> list[str]:
    """The rows of a page's tables that are wider than `TABLE_WIDTH`, each with its line and its width."""
    return [
        f"line {number}: {len(line)} characters"
        for number, line in enumerate(page.splitlines(), 1)
        if re.match(r" {0,3}\|", line) and len(line) > TABLE_WIDTH
    ]


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_row_of_a_hand_written_table_is_wide(page):
    assert not wide_rows(page.read_text("utf-8"))


def test_a_wide_row_is_found_and_other_long_lines_are_not():
    row = f"| {'a' * (TABLE_WIDTH - 4)} |"
    assert wide_rows(f"{row}\n| a |\n") == []
    assert wide_rows(f"| a |\n{row} \n") == ["line 2: 121 characters"]
    assert wide_rows(f"    {row}\n{'a' * 200}\n") == []


@pytest.mark.parametrize(("page", "program"), WRITTEN_BY_PROGRAMS.items())
def test_a_program_writes_each_page_that_may_have_wide_rows(page, program):
    assert (ROOT / page).is_file()
    assert Path(page).name in (ROOT / program).read_text("utf-8")
