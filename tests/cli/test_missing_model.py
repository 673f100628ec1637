"""Each command that needs a model names a recipe that trains one."""

import pytest
from click.testing import CliRunner

from regard.cli.group import regard
from regard.errors import UserError
from regard.verbs.shared.suggested_recipes import PRETRAINED, SUGGESTED


@pytest.mark.parametrize("verb", ["generate", "classify", "tag", "embed", "fill", "summarize", "transcribe"])
def test_a_command_without_a_model_names_the_recipe(verb):
    output = CliRunner().invoke(regard, [verb, "text"]).exception
    assert isinstance(output, UserError)
    assert f"{verb} needs a model" in output.message
    hint = PRETRAINED[verb] if verb in PRETRAINED else f"`regard train {SUGGESTED[verb].recipe}`"
    assert hint in output.hint


def test_its_help_is_shown_without_a_model():
    output = CliRunner().invoke(regard, ["generate", "--help"])
    assert output.exit_code == 0
    assert "[required]" in output.output
