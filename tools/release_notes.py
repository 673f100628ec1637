"""Print the notes of a release: the part of CHANGELOG.md about the version of a tag.

    python tools/release_notes.py v0.1.0

The tag must be the version of the package, and the version must be the first of CHANGELOG.md, with its date.
It needs nothing but Python, so that a release stops here before anything is built.
"""

import re
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parent.parent
TAG = re.compile(r"v(\d+\.\d+\.\d+(?:rc\d+)?)")
HEADING = re.compile(r"^## (\d+\.\d+\.\d+\S*) \((.+)\)$", re.MULTILINE)


class NotReady(Exception):
    """What is wrong, and what to do."""


def release_notes(tag: str, root: Path = ROOT) -> str:
    """The notes of this tag.

    Raises:
        NotReady: tag, package and CHANGELOG.md do not name the same version, or it has no date.
    """
    version = package_version(root)
    found = TAG.fullmatch(tag)
    if not found or found[1] != version:
        raise NotReady(
            f"the tag {tag} is not v{version}, the version of the package", f"git tag -s v{version}"
        )
    changes = (root / "CHANGELOG.md").read_text("utf-8")
    headings = list(HEADING.finditer(changes))
    if not headings or headings[0][1] != version:
        first = headings[0][1] if headings else "none"
        raise NotReady(
            f"the first version of CHANGELOG.md is {first}, not {version}",
            f"begin it with: ## {version} ({date.today()})",
        )
    try:
        date.fromisoformat(headings[0][2])
    except ValueError:
        raise NotReady(
            f"CHANGELOG.md says {headings[0][2]!r} where the date of {version} belongs",
            f"write ({date.today()})",
        ) from None
    end = headings[1].start() if len(headings) > 1 else len(changes)
    return changes[headings[0].end() : end].strip() + "\n"


def package_version(root: Path = ROOT) -> str:
    """The version of the package, read without importing it."""
    [version] = re.findall(
        r'^__version__ = "(.+)"$', (root / "src/regard/__init__.py").read_text("utf-8"), re.MULTILINE
    )
    return version


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("error: no tag is given\nhint: python tools/release_notes.py v0.1.0")
    try:
        print(release_notes(sys.argv[1]), end="")
    except NotReady as problem:
        message, hint = problem.args
        sys.exit(f"error: {message}\nhint: {hint}")


if __name__ == "__main__":
    main()
