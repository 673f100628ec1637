"""A release has the version of the package, a date, and the notes of that version alone."""

import subprocess
import sys

import pytest

from tools.release_notes import ROOT, NotReady, package_version, release_notes

CHANGES = "# Changes\n\n## What stays compatible\n\nAll.\n\n{}\n\n- New.\n\n## 0.0.9 (2025-01-02)\n\n- Old.\n"


@pytest.fixture
def project(tmp_path):
    """A project of version 0.1.0 whose CHANGELOG.md has this heading."""

    def made(heading):
        (tmp_path / "src/regard").mkdir(parents=True)
        (tmp_path / "src/regard/__init__.py").write_text('__version__ = "0.1.0"\n')
        (tmp_path / "CHANGELOG.md").write_text(CHANGES.format(heading))
        return tmp_path

    return made


def test_the_notes_are_those_of_the_version(project):
    assert release_notes("v0.1.0", project("## 0.1.0 (2026-12-01)")) == "- New.\n"


@pytest.mark.parametrize(
    ("tag", "heading", "named"),
    [
        ("v0.2.0", "## 0.1.0 (2026-12-01)", "is not v0.1.0"),
        ("0.1.0", "## 0.1.0 (2026-12-01)", "is not v0.1.0"),
        ("v0.1.0", "## 0.1.0 (unreleased)", "'unreleased' where the date"),
        ("v0.1.0", "## 0.1.0 (2026-13-01)", "where the date"),
        ("v0.1.0", "## 0.2.0 (2026-12-01)", "is 0.2.0, not 0.1.0"),
    ],
)
def test_what_is_not_ready_is_named(project, tag, heading, named):
    with pytest.raises(NotReady, match=named):
        release_notes(tag, project(heading))


def test_the_program_ends_with_an_error_of_two_lines():
    program = [sys.executable, str(ROOT / "tools/release_notes.py"), "v99.0.0"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: the tag v99.0.0 is not v{package_version()}")
    assert done.stderr.count("\n") == 2
