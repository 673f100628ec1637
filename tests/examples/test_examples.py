"""Each example runs as it stands, and prints what its page says."""

import runpy
from pathlib import Path

import pytest

from regard.data.corpus import FORMATS
from regard.models.build import MODELS
from regard.models.registered import ATTENTIONS, POSITIONS
from regard.training.losses import LOSSES
from regard.verbs.tasks.kinds import KINDS
from regard.weights.pretrained import FAMILIES

EXAMPLES = Path(__file__).parents[2] / "examples"
REGISTRIES = [ATTENTIONS, FAMILIES, FORMATS, KINDS, LOSSES, MODELS, POSITIONS]
PRINTS = {  # the last lines
    "attention": ["5 1 4 1 3"],
    "corpus_format": ["1 Good morning. = Guten Morgen.", "2 Thank you. = Danke."],
    "loss": ["5 1 4 1 3"],
    "own_module": ["abcdefghij"],
    "positions": ["5 1 4 1 3"],
    "pretrained_family": ["registered: mistral"],
    "training_loop": ["0 1 2 3 4 5 6 7 -> 7 6 5 4 3 2 1 0"],
}


@pytest.fixture(autouse=True)
def registered_here_only(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["example"])
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "added", dict(registry.added))


def test_every_example_is_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTS)


@pytest.mark.parametrize("name", PRINTS)
def test_the_example_prints_what_it_should(name, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for line in PRINTS[name]:
        assert line in printed
