"""A model has the name of its recipe, whatever its folder is called."""

import shutil
from dataclasses import replace

from regard.weights.folder import write_folder
from regard.weights.model_folder import load_model
from regard.weights.model_name import model_name


def test_the_name_is_that_of_the_recipe_else_of_the_folder(untrained, tmp_path):
    best = shutil.copytree(untrained, tmp_path / "best")
    folder = load_model(best).folder
    files = {name: folder.read_bytes(name) for name in folder.names}
    for recipe, name in (
        ("name = 't-en-de'", "t-en-de"),
        ("", "model"),
        ("[", "model"),
        ("name = 3", "model"),
    ):
        write_folder(tmp_path / "model", {**files, "recipe.toml": recipe.encode()})
        assert model_name(loaded := load_model(tmp_path / "model")) == name
    assert model_name(replace(loaded, folder=None)) == "model"
    write_folder(tmp_path / "other", {name: each for name, each in files.items() if name != "recipe.toml"})
    assert model_name(load_model(tmp_path / "other")) == "other"
