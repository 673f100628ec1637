"""What the documentation names is there."""

import importlib
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
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
        "tests/**/*.py",
        "tools/**/*.py",
        "benchmarks/**/*.py",
        "src/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if path.name != "log.md" and IMPORT.search(path.read_text("utf-8"))
)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_name_that_is_imported_is_there(path):
    for module, names in IMPORT.findall(path.read_text("utf-8")):
        for name in filter(None, (each.split(" as ")[0].strip() for each in names.split(","))):
            if not hasattr(importlib.import_module(module), name):
                importlib.import_module(f"{module}.{name}")
