"""The keys of recipes as text: each with its default and its meaning, all or those of one table."""

import pytest

from regard.cli import run
from regard.errors import RecipeError
from regard.verbs.recipe_keys import model_sections, recipe_sections, recipes_keys


def test_all_keys_are_printed():
    text = recipes_keys()
    of_tasks = [section for sections in recipe_sections().values() for section in sections]
    for section in [*of_tasks, *model_sections()]:
        for key in section.keys:
            assert f"  {key.name}: {key.kind}" in text


def test_a_table_is_printed_with_those_below_it(capsys):
    assert run(["recipes", "keys", "training"]) == 0
    printed = capsys.readouterr().out
    assert printed == recipes_keys("training") == recipes_keys("[training]")
    assert "[training.schedule]" in printed
    assert "  max_steps: an integer, default 10000" in printed
    assert "[model]" not in printed
    assert "[training]\n" not in recipes_keys("training.schedule")


def test_an_unknown_table_is_answered_with_the_nearest():
    with pytest.raises(RecipeError, match="no recipe has a table 'trainin'") as caught:
        recipes_keys("trainin")
    assert caught.value.hint == "did you mean 'training'?"
