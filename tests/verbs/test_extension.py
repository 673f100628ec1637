"""An installed package extends regard: recipes, worker processes and the command line know its names."""

import json
import os

import pytest

from regard.weights.checkpoint import RunFolder
from tests.warm_process import run_python

CODE = """
from dataclasses import dataclass
import torch
import torch.nn.functional as F
from regard.decoding import BeamSearch, ForbiddingRule, register_rule, register_search
from regard.training import register_loss

register_loss("plain")(lambda logits, labels: F.cross_entropy(logits, labels, reduction="none"))

@register_rule("no_a")
class NoLetterA(ForbiddingRule):
    def __init__(self, tokenizer, special):
        texts = [tokenizer.decode([token]) for token in range(tokenizer.vocab_size)]
        self.forbidden = [token for token, text in enumerate(texts) if "a" in text.lower()]

    def __call__(self, log_probs, generated):
        log_probs[:, self.forbidden] = -torch.inf

@register_search("my_beam")
@dataclass(frozen=True, kw_only=True)
class MyBeam(BeamSearch):
    pass
"""
SMALL = [
    *(f"data.{part}.length=5" for part in ("train", "valid", "test")), "data.train.size=500",
    "data.valid.size=20", "data.test.size=20",
    "training.max_steps=4", "decoding.beam_size=3", 'decoding.search="my_beam"', 'decoding.rules=["no_a"]',
]  # fmt: skip
SCRIPT = """
import regard
from my_package import parts

if __name__ == "__main__":
    regard.train("reverse", out="run", overrides={overrides}, workers=2, threads=1)
"""


@pytest.fixture
def python(tmp_path):
    """Runs Python where the package is installed."""
    site = tmp_path / "site"
    (site / "my_package").mkdir(parents=True)
    (site / "my_package" / "parts.py").write_text(CODE)
    info = site / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[regard.extensions]\nparts = my_package.parts\n")
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*arguments):
        return run_python(arguments, tmp_path, {**os.environ, "PYTHONPATH": path})

    return run


def test_the_command_line_knows_the_names(python):
    text = "I lost my umbrella on the train yesterday."
    commands = [
        ["translate", text, "--rule", "no_a", "--search", "my_beam"],
        ["translate", text, "--rule", "no_b"],
    ]
    program = f"import regard.cli, sys\nsys.exit([regard.cli.run(each) for each in {commands}] != [0, 2])"
    done = python("-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "a" not in done.stdout.lower()
    assert "no decoding rule is registered as 'no_b'" in done.stderr
    assert "did you mean 'no_a'?" in done.stderr


def test_workers_train_with_what_a_script_imports_from_an_installed_package(python, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.format(overrides=[*SMALL, "training.loss=plain"]))
    trained = python("script.py")
    assert trained.returncode == 0, trained.stderr
    assert "2 workers of 1 thread" in trained.stderr
    assert RunFolder(tmp_path / "run").latest().step == 4
    generation = json.loads((tmp_path / "run" / "best" / "generation.json").read_text())
    assert (generation["search"], generation["rules"]) == ("my_beam", ["no_a"])


def test_workers_are_refused_for_what_a_script_registers_itself(python, tmp_path):
    names = {"my_beam": "own_beam", "no_a": "own_rule", '"plain"': '"own_loss"'}
    own, overrides = SCRIPT.replace("from my_package import parts", CODE), SMALL
    for installed, name in names.items():
        own, overrides = own.replace(installed, name), [each.replace(installed, name) for each in overrides]
    (tmp_path / "script.py").write_text(own.replace("{overrides}", repr(overrides)))
    refused = python("script.py")
    assert "decoding.rules = 'own_rule' is registered in this process, not in 2 workers" in refused.stderr
    assert not (tmp_path / "run").exists()
