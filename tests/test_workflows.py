"""The workflows of the forge, which do not run here: their shape, and that what they call is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".github/workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))


def judged(*files: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True)


def test_they_fit_the_schema_of_workflows():
    pytest.importorskip("check_jsonschema")
    done = judged(*WORKFLOWS)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("right", "wrong"), [("runs-on", "run-on"), ("needs: notes", "need: notes")])
def test_a_misspelt_key_is_found(right, wrong, tmp_path):
    pytest.importorskip("check_jsonschema")
    text = (FOLDER / "release.yml").read_text("utf-8")
    assert right in text
    (tmp_path / "release.yml").write_text(text.replace(right, wrong, 1), "utf-8")
    assert judged(tmp_path / "release.yml").returncode == 1


def steps(workflow: Path):
    for job in yaml.safe_load(workflow.read_text("utf-8"))["jobs"].values():
        yield from job.get("steps", [])


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_files_and_targets_that_they_call_are_there(workflow):
    makefile = (ROOT / "Makefile").read_text("utf-8")
    called = [step["run"] for step in steps(workflow) if "run" in step]
    for line in called:
        for target in re.findall(r"\bmake ([a-z-]+)", line):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
        for file in re.findall(r"(?:tools|\.ci)/[\w.]+", line):
            assert (ROOT / file).is_file(), file
    for job in yaml.safe_load(workflow.read_text("utf-8"))["jobs"].values():
        assert (ROOT / job["uses"]).is_file() if "uses" in job else job["runs-on"]


def test_only_the_job_that_publishes_may_write():
    """A workflow's token reads unless a job says more."""
    for workflow in WORKFLOWS:
        described = yaml.safe_load(workflow.read_text("utf-8"))
        assert described["permissions"] == {"contents": "read"}
        writing = [name for name, job in described["jobs"].items() if "permissions" in job]
        assert writing == (["publish"] if workflow.name == "release.yml" else [])


def test_everything_that_is_published_was_built_and_tested():
    jobs = yaml.safe_load((FOLDER / "release.yml").read_text("utf-8"))["jobs"]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
