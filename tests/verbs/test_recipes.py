"""The recipes that come with regard are found by their names, in a checkout and in an installation."""

import pytest

from regard.errors import RecipeError
from regard.verbs.recipes import recipe_folder, recipe_path, recipes, recipes_show


def test_every_recipe_has_a_description_and_is_shown_verbatim():
    found = recipes()
    assert {"dates", "reverse", "multi30k-en-de", "tatoeba-en-de"} <= {recipe.name for recipe in found}
    for recipe in found:
        assert recipe.description
        assert recipes_show(recipe.name) == recipe.path.read_text("utf-8")


def test_a_misspelt_recipe_name_is_answered_with_the_nearest():
    with pytest.raises(RecipeError) as caught:
        recipes_show("revers")
    assert caught.value.hint == "did you mean 'reverse'?"


def test_a_name_is_a_recipe_that_comes_with_regard_unless_such_a_path_exists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert recipe_path("reverse") == recipe_folder() / "reverse.toml"
    (tmp_path / "reverse").mkdir()
    assert str(recipe_path("reverse")) == "reverse"
    assert str(recipe_path("no/reverse")) == "no/reverse"
    assert str(recipe_path("unknown")) == "unknown"
