"""A model of the other direction is named before it is fine-tuned; other languages are no other direction."""

import pytest

from regard.data.corpus import Pair
from regard.verbs.generation.translation_direction import direction_warning
from regard.verbs.new import new
from regard.verbs.shared.model_loading import model_path
from regard.verbs.train import train
from regard.weights.model_folder import load_model

ENGLISH = ["A man is reading a book.", "I don't know where she lives.", "The train leaves at eight o'clock."]
GERMAN = ["Ein Mann liest ein Buch.", "Ich weiß nicht, wo sie wohnt.", "Der Zug fährt um acht Uhr ab."]
FRENCH = ["Un homme lit un livre.", "Je ne sais pas où elle habite.", "Le train part à huit heures."]


def pairs(sources, targets):
    return [
        Pair(source=source, target=target, line=line)
        for line, (source, target) in enumerate(zip(sources, targets, strict=True), start=1)
    ]


@pytest.mark.parametrize(
    ("sources", "targets", "is_other"),
    [(ENGLISH, GERMAN, False), (GERMAN, ENGLISH, True), (ENGLISH, FRENCH, False), (ENGLISH, ENGLISH, False)],
)
def test_only_pairs_of_the_other_direction_are_named(sources, targets, is_other):
    warning = direction_warning(load_model(model_path("en-de")), "en-de", pairs(sources, targets))
    assert (warning is not None) == is_other
    if is_other:
        assert warning.startswith("en-de seems to translate in the other direction")


def test_a_recipe_and_a_training_from_a_model_of_the_other_direction_warn(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("regard.verbs.proposals.training_speed.TIMED_SECONDS", 0.02)
    files = tmp_path / "train.de", tmp_path / "train.en"
    for file, texts in zip(files, (GERMAN, ENGLISH), strict=True):
        file.write_text("".join(f"{texts[i % 3][:-1]}, {i}.\n" for i in range(30)), "utf-8")
    written = new(*files, init="en-de", minutes=0.05, cores=1, out=tmp_path / "r.toml")
    assert "en-de seems to translate in the other direction" in written.warnings[0]
    train(written.recipe, dry_run=True, threads=1)
    assert "seems to translate in the other direction" in capsys.readouterr().err
