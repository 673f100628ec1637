"""A proposal is the published recipe: the same settings for its data, others for more or less of it."""

import tomllib

import pytest

from regard.errors import RecipeError
from regard.verbs.proposals.labelled import PIECES, WORDS
from regard.verbs.proposals.language_model import CHARACTER_RECIPE, PIECE_RECIPE
from regard.verbs.proposals.published import PublishedRecipe, RecipeChange, adapted
from regard.verbs.proposals.tagging import TAGGING
from regard.verbs.recipes import recipes_show
from regard.verbs.shared.recipe_text import toml

SECTIONS = "task", "tokenizer", "model", "batches", "training"
PUBLISHED = WORDS, PIECES, TAGGING, CHARACTER_RECIPE, PIECE_RECIPE


def proposed(published: PublishedRecipe, amount: int) -> dict:
    text = adapted(published.text(), 'name = "x"\n\n', "[data.train]\n", published.scaled(amount))
    return tomllib.loads(text)


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda each: each.recipe)
def test_the_data_of_a_published_recipe_get_its_settings(published):
    recipe = tomllib.loads(recipes_show(published.recipe))
    for amount in (published.low, published.high):
        found = proposed(published, amount)
        assert {name: found[name] for name in SECTIONS} == {name: recipe[name] for name in SECTIONS}
        assert {**recipe, **found}.keys() == recipe.keys()
        assert found["data"] == {"train": {}}


def test_one_recipe_of_pieces_is_measured_on_both_corpora_of_reviews():
    recipes = [tomllib.loads(recipes_show(name)) for name in (PIECES.recipe, "sst5")]
    assert all(each[name] == recipes[0][name] for each in recipes for name in SECTIONS)


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda each: each.recipe)
def test_more_text_gives_more_updates_and_no_smaller_setting(published):
    def sizes(amount):
        table = proposed(published, amount)
        training = table["training"]
        assert training["schedule"]["warmup_steps"] < training["max_steps"]
        assert training["validate_every"] <= training["max_steps"]
        return (
            training["max_steps"],
            table["batches"]["batch_tokens"],
            table["tokenizer"].get("vocab_size", 0),
        )

    amounts = [10**power for power in range(2, 12)]
    found = list(map(sizes, amounts))
    for column in zip(*found, strict=True):
        assert list(column) == sorted(column)
    assert found[0][0] < found[-1][0]
    assert found[0][0] >= published.updates[0]
    assert found[-1][0] <= published.updates[1]


def test_a_key_that_the_recipe_does_not_have_is_added_to_its_section():
    text = adapted(
        "[a]\nx = 1  # one\n\n[b]\ny = 2\n", "", "[data]\n", {"a.z": RecipeChange(value="w", comment="new")}
    )
    assert tomllib.loads(text) == {"a": {"x": 1, "z": "w"}, "b": {"y": 2}}
    assert "x = 1  # one\n" in text


def test_any_string_is_written_as_valid_toml():
    for value in ['"', "\\", "\n\t\x7f\x00\x1b", "ü\u2028", True, 3, 0.5, ["a", 1.5]]:
        assert tomllib.loads(f"value = {toml(value)}") == {"value": value}
    with pytest.raises(RecipeError, match="cannot be written in UTF-8"):
        toml("\udcff")
