"""Keeps the figures of the pages: writes those of the results into them, and finds those that nothing holds.

    .venv/bin/python tools/figures.py               # writes what results and code say now into the pages
    .venv/bin/python tools/figures.py --loose PAGE  # lists the figures of a page that nothing holds

`docs/figures/` has a TOML file for each page. `[[from]]` names a file of `benchmarks/results` (`results`,
with the beginning of a table's title as `table`), a recipe (`recipe`) or a module
(`code`), and has templates of the page's text, with what is looked up in braces (`figure_values.py`).
`[given]` has figures that are no measurements, each with the reason: a definition, a target, arithmetic.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tools.figure_values import ROOT, LookupFailed, looked_up, module, results_of, settings_of
from tools.measured import loose_figures

FOLDER = ROOT / "docs/figures"
FIELD = re.compile(r"\{([^{}]+)\}")
ANYTHING = r"[^|\n]*?\S"  # an old figure: within a line and a cell
EXECUTED = ("docs/look.md", "docs/generation.md", "docs/reference/errors.md")  # by tests/test_docs_outputs.py
Span = tuple[int, int]


@dataclass(frozen=True)
class Template:
    """Some text of a page, with values in braces."""

    text: str
    root: Any  # where they are looked up

    def pattern(self, *, old: bool = False) -> re.Pattern[str]:
        """What finds the text: with the values of now, or with any. Each value is a group."""
        values = (ANYTHING if old or value is None else spaced(value) for value in self.values())
        literals = [spaced(part) for part in FIELD.split(self.text.strip())[::2]]
        groups = [*(f"({value})" for value in values), ""]
        return re.compile("".join(part for pair in zip(literals, groups, strict=True) for part in pair))

    def values(self) -> list[str | None]:
        """What stands in each pair of braces; None for `{*}`, which is what another template holds."""
        fields = FIELD.findall(self.text)
        return [None if field == "*" else looked_up(self.root, field) for field in fields]

    def filled(self) -> str:
        """The text with the values of now."""
        values = iter(self.values())
        return FIELD.sub(lambda _: next(values) or "{*}", self.text)


@dataclass(frozen=True)
class Page:
    """A page, what its figures come from, and those that are given: text -> reason."""

    path: Path
    templates: list[Template]
    given: dict[str, str]

    def held(self, text: str) -> list[Span]:
        """Where the figures are that something holds.

        Raises:
            LookupFailed: a template or a given text is not in the page, or not once.
        """
        spans: list[Span] = []
        missing: list[str] = []
        for template in self.templates:
            matches = list(template.pattern().finditer(text))
            if len(matches) != 1:
                missing.append(f"{template.filled()!r}, {len(matches)} times")
                continue
            values = enumerate(template.values(), 1)
            spans += [matches[0].span(group) for group, value in values if value is not None]
        for given in self.given:
            found = [match.span() for match in re.finditer(spaced(given), text)]
            spans += found
            missing += [] if found else [f"{given!r}, which is given"]
        if missing:
            raise LookupFailed("not once in the page:\n  " + "\n  ".join(missing))
        return spans

    def renewed(self, text: str) -> str:
        """The page with the values of now."""
        for template in self.templates:
            if len(list(template.pattern().finditer(text))) == 1:
                continue
            matches = list(template.pattern(old=True).finditer(text))
            if len(matches) != 1:
                raise LookupFailed(f"{len(matches)} places for {template.filled()!r}")
            for group, value in reversed(list(enumerate(template.values(), 1))):
                if value is not None:
                    text = text[: matches[0].start(group)] + value + text[matches[0].end(group) :]
        return text


def spaced(text: str) -> str:
    """A pattern for a text whose lines may be wrapped elsewhere."""
    return r"\s+".join(re.escape(word) for word in re.split(r"\s+", text))


def page_of(path: Path) -> Page:
    """What `docs/figures/` has for a page; nothing if it has no file."""
    file = figures_file(path)
    if not file.exists():
        return Page(path, [], {})
    entries = tomllib.loads(file.read_text("utf-8"))
    if unknown := set(entries) - {"from", "given"}:
        raise LookupFailed(f"{file.relative_to(ROOT)} has unknown keys: {', '.join(sorted(unknown))}")
    templates = [
        Template(text, root) for entry in entries.get("from", []) for root, text in sourced(entry, file)
    ]
    return Page(path, templates, entries.get("given", {}))


def sourced(entry: dict[str, Any], file: Path) -> Iterator[tuple[Any, str]]:
    match entry:
        case {"results": name, "texts": texts, **rest} if set(rest) <= {"table"}:
            root = results_of(name, rest.get("table"))
        case {"recipe": name, "texts": texts, **rest} if not rest:
            root = settings_of(name)
        case {"code": name, "texts": texts, **rest} if not rest:
            root = module(name)
        case _:
            raise LookupFailed(f"{file.relative_to(ROOT)}: an entry has no source, or unknown keys: {entry}")
    if idle := [text for text in texts if not FIELD.search(text)]:
        raise LookupFailed(f"{file.relative_to(ROOT)}: nothing is looked up in {idle[0]!r}")
    return ((root, text) for text in texts)


def figures_file(path: Path) -> Path:
    """`docs/do/publish.md` -> `docs/figures/do/publish.toml`; `README.md` -> `docs/figures/README.toml`."""
    inside = path.relative_to(ROOT / "docs" if path.is_relative_to(ROOT / "docs") else ROOT)
    return FOLDER / inside.with_suffix(".toml")


def pages() -> list[Path]:
    """The pages that have a file in `docs/figures/`."""
    paths = [file.relative_to(FOLDER).with_suffix(".md") for file in sorted(FOLDER.rglob("*.toml"))]
    return [place for path in paths for place in (ROOT / "docs" / path, ROOT / path) if place.exists()]


def loose(path: Path) -> list[str]:
    """The figures of a page that nothing holds.

    Raises:
        LookupFailed: the page does not have what its templates say.
    """
    text = path.read_text("utf-8")
    executed = path.relative_to(ROOT).as_posix() in EXECUTED
    return loose_figures(text, page_of(path).held(text), executed=executed)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loose", type=Path, metavar="PAGE", help="list what nothing holds")
    only = parser.parse_args().loose
    if only and not (only.exists() and only.resolve().is_relative_to(ROOT)):
        print(f"error: {only} is no page of this repository\nhint: as docs/serving.md", file=sys.stderr)
        return 2
    for path in [only.resolve()] if only else pages():
        text = path.read_text("utf-8")
        try:
            if only:
                print(*loose(path), sep="\n")
            elif (new := page_of(path).renewed(text)) != text:
                path.write_text(new, "utf-8")
                print(f"written: {path.relative_to(ROOT)}")
        except LookupFailed as error:
            print(f"error: {path.relative_to(ROOT)}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
