"""The blocks of code of pages, and running them as printed, in a folder with the files that pages name."""

import os
import re
import shlex
import subprocess
import sys

from tests import warm_process

SHORT = ["training.max_steps=2", "training.validate_every=2", "training.save_every=2"]
SHELL = re.compile(r"[|<>;&$`*?(\\]")  # what only a shell understands
QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")
PAIRS = 120
LINES = {
    "en": "the {} station is near the {} tree",
    "de": "der {} Bahnhof steht nahe dem {} Baum",
    "fr": "la gare {} est près de l'arbre {}",
}


def write_corpora(folder):
    """Small files under the names that pages call the user's own."""
    for first, name in enumerate(("corpus", "valid", "test")):
        for language, line in LINES.items():
            lines = [line.format(1000 * first + i, i % 7) for i in range(PAIRS)]
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def regard_command():
    """What `regard` stands for."""
    return [sys.executable, "-m", "regard"]


def shortened(text):
    """Commands whose trainings end after two updates, and are tested on few examples."""
    text = text.replace("regard train reverse", "regard train reverse --set data.test.size=50")
    for setting in SHORT:
        text = re.sub(r"(regard train [\w./-]+)", rf"\1 --set {setting}", text)
    return re.sub(r"--minutes \d+", "--minutes 0.1", text)


def run(command, folder):
    """Run a command, which must succeed."""
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def run_shell(text, folder):
    """Run lines of a shell, each of which must succeed, with trainings of two updates."""
    text = shortened(text)
    lines = [shlex.split(line, comments=True) for line in text.splitlines() if line.strip()]
    if not SHELL.search(QUOTED.sub("", text)) and all(words[:1] in ([], ["regard"]) for words in lines):
        for words in filter(None, lines):
            done = warm_process.run_python(["-m", *words], folder)
            assert done.returncode == 0, done.stderr[-2000:]
        return
    command = " ".join(map(shlex.quote, regard_command()))
    run(["sh", "-ec", re.sub(r"\bregard (?=[a-z])", f"{command} ", text)], folder)


def run_python(text, folder):
    """Run a program."""
    done = warm_process.run_python(["-c", text], folder)
    assert done.returncode == 0, done.stderr[-2000:]
