"""What must not stand in the code at all, because it lets data become code or files land anywhere."""

import re
import tomllib
from pathlib import Path

import pytest

HOME = Path(__file__).parent.parent
CODE = sorted(file for kind in ("py", "js", "html") for file in (HOME / "src").rglob(f"*.{kind}"))
EXTRAS = ("demo", "plot", "notebook", "sentencepiece")
FORBIDDEN = {
    r"\b(?:import|from)\s+(?:pickle|dill|joblib|marshal|shelve|cloudpickle)\b": "reads code as data",
    r"\btorch\.load\(": "reads pickles",
    r"(?<![.\w])(?:eval|exec)\(": "runs text",
    r"\bcompile\([^)]*['\"]exec": "runs text",
    r"\.extractall\(": "writes where an archive says",
    r"\btrust_remote_code\b": "runs what a model brings",
    r"\byaml\.(?:load|unsafe_load)\(": "makes objects that a file names",
    r"\bshell\s*=\s*True\b": "gives text to a shell",
    r"\bos\.system\(": "gives text to a shell",
    r"\b(?:inner|outer)HTML\b": "makes text markup",
    r"\binsertAdjacentHTML\b": "makes text markup",
    r"\bdocument\.write": "makes text markup",
    r"\bcreateContextualFragment\b": "makes text markup",
    r"\bnew\s+Function\(": "runs text",
    r"https?://(?:cdn|unpkg|ajax|fonts)\.": "fetches from a network",
}
MAY = {  # beside which this must stand
    ("weights/unpickle.py", r"\btorch\.load\("): "weights_only=True",
    # what an export has written itself; and what users of such a folder are to know
    ("exports/huggingface_process.py", r"\btrust_remote_code\b"): "trust_remote_code=OURS",
    ("exports/huggingface_folder.py", r"\btrust_remote_code\b"): 'trust = ", trust_remote_code=True"',
    (
        "verbs/export.py",
        r"\btrust_remote_code\b",
    ): "and transformers loads it with trust_remote_code=True alone",
}


@pytest.mark.parametrize("pattern", FORBIDDEN, ids=lambda pattern: FORBIDDEN[pattern])
def test_nothing_lets_data_become_code(pattern):
    for file in CODE:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            if not re.search(pattern, line):
                continue
            beside = MAY.get((file.relative_to(HOME / "src" / "regard").as_posix(), pattern))
            assert beside, f"{file.relative_to(HOME)}:{number} {FORBIDDEN[pattern]}: {line.strip()}"
            assert beside in line, f"{file.relative_to(HOME)}:{number} lacks {beside}"


def test_what_is_forbidden_would_be_found():
    bad = "import pickle\ntorch.load(x)\neval(text)\nzip.extractall(y)\nelement.innerHTML = text\n"
    assert sum(bool(re.search(pattern, bad)) for pattern in FORBIDDEN) == 5


def test_every_package_is_pinned_to_one_version():
    lines = [line.split("#")[0].strip() for line in (HOME / "constraints.txt").read_text().splitlines()]
    loose = [line for line in lines if line and not re.fullmatch(r"[\w.-]+==[\w.!]+(?:\s*;.*)?", line)]
    assert not loose


def hashed() -> dict[str, tuple[str, int]]:
    """Each package of requirements-hashed.txt: its version, and how many files of it are known."""
    text = (HOME / "requirements-hashed.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = {}
    for line in lines:
        entry = re.fullmatch(
            r"([\w.-]+)==([\w.!]+)(?: ; [^\\]*?)?((?:\s+--hash=sha256:[0-9a-f]{64})+)\s*", line
        )
        assert entry, line[:100]
        name = re.sub(r"[-_.]+", "-", entry[1]).lower()
        found[name] = entry[2], entry[3].count("--hash")
    return found


def test_every_file_of_every_package_that_regard_needs_is_known_by_its_hash():
    """`pip install --require-hashes` refuses a list in which one is missing."""
    table = tomllib.loads((HOME / "pyproject.toml").read_text("utf-8"))["project"]
    extras = table["optional-dependencies"]
    wanted = [*table["dependencies"], *(one for name in EXTRAS for one in extras[name]), "hatchling"]
    found = hashed()
    names = {re.sub(r"[-_.]+", "-", re.split(r"[<>=\[; ]", each)[0]).lower() for each in wanted}
    assert names <= set(found)
    pinned = {}
    for line in (HOME / "constraints.txt").read_text().splitlines():
        name, _, version = line.split("#")[0].strip().partition("==")
        pinned[re.sub(r"[-_.]+", "-", name).lower()] = version
    others = {name: version for name, (version, _) in found.items() if pinned.get(name, version) != version}
    assert not others, "make hashes"
