"""Each example runs as it stands, in a process of its own, and prints what it should."""

from pathlib import Path

import pytest

from tests.warm_process import run_python

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTS = {  # among its output
    "attention": ["5 1 4 1 3"],
    "corpus_format": ["1 Good morning. = Guten Morgen.", "2 Thank you. = Danke."],
    "decoding_rule": ["Ich habe gestern meinen Regenschirm im Zug verloren.", "Ich verlor"],
    "feed_forward": ["5 1 4 1 3"],
    "loss": ["5 1 4 1 3"],
    "model": ["5 1 4 1 3"],
    "norm": ["5 1 4 1 3"],
    "optimizer": ["5 1 4 1 3"],
    "own_module": ["abcdefghij"],
    "positions": ["5 1 4 1 3"],
    "pretrained_family": ["registered: seed_oss"],
    "schedule": ["[0.01, 0.0061, 0.0005, 0.0081, 0.0019, 0.0095, 0.0039]", "5 1 4 1 3"],
    "search": ["Wo ist der Bahnhof?", "Ich habe gestern meinen Regenschirm im Zug verloren."],
    "stopping_rule": ["32 tokens: Buffalo Buffalo Buffalo Buffalo Buffalo Buffalo Buffalo Buffalo\n"],
    "task": ["31415>5"],
    "training_loop": ["0 1 2 3 4 5 6 7 -> 7 6 5 4 3 2 1 0"],
}
# parts that are registered and trained as the one of "model" is
NIGHTLY = ("attention", "feed_forward", "loss", "norm", "optimizer", "positions", "schedule")


def test_every_example_is_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly if name in NIGHTLY else ()) for name in PRINTS]
)
def test_the_example_prints_what_it_should(name, tmp_path):
    run = run_python([EXAMPLES / f"{name}.py"], tmp_path, timeout=600)
    assert run.returncode == 0, run.stderr
    for line in PRINTS[name]:
        assert line in run.stdout
