"""A file of words with BIO labels becomes a tagger scored by its entities, and is test data itself."""

import tomllib

import pytest

from regard.errors import RecipeError
from regard.verbs.evaluate import evaluate
from regard.verbs.new import new
from regard.verbs.train import train

FEW = ["training.max_steps=4", "training.validate_every=4", "model.d_model=16", "model.d_ff=16"]


def words(path, first="B-ORG"):
    rows = [f"The O\nAcme{i} {first}\nCorp I-ORG\npays O\n. O\n" for i in range(40)]
    path.write_text("\n".join(rows))
    return path


def test_a_tagger_of_entities_is_scored_by_its_entities(tmp_path):
    file = words(tmp_path / "a.bio")
    written = new(file, out=tmp_path / "a.toml")
    assert "XPOS" not in written.summary + written.recipe.read_text()
    assert tomllib.loads(written.recipe.read_text())["training"]["best_metric"] == "entity_f1"
    settings = {"overrides": FEW, "threads": 1, "quiet": True}
    found = train(written.recipe, out=tmp_path / "run", **settings).metrics
    assert {"entity_precision", "entity_recall", "entity_f1"} <= found.keys()
    evaluation = evaluate(model=tmp_path / "run", data=file)
    scores = {each.name: each for each in evaluation.scores}
    assert {each.label: each.count for each in evaluation.entity_types}["ORG"] == 40
    assert evaluation.to_dict()["entity_types"][0].keys() >= {"precision", "recall", "f1"}
    in_recipe = evaluate(model=tmp_path / "run")
    assert "|column:xpos|" in in_recipe.scores[0].signature
    assert "|column:xpos|" in scores["accuracy"].signature
    assert scores["entity F1"].signature.startswith("entities:40|")
    assert scores.keys() == {"accuracy", "macro-F1", "entity precision", "entity recall", "entity F1"}


def test_other_labels_have_no_entities(tmp_path):
    file = words(tmp_path / "a.bio", first="NOUN")
    written = new(file, out=tmp_path / "a.toml")
    assert 'best_metric = "entity_f1"' not in written.recipe.read_text()
    with pytest.raises(RecipeError, match="labels are not those of entities"):
        train(written.recipe, out=tmp_path / "run", overrides=[*FEW, "training.best_metric=entity_f1"])
