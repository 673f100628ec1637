"""Each command that needs a model says which recipe trains one."""

import pytest
from click.testing import CliRunner

from regard.cli.group import regard
from regard.errors import UserError
from regard.verbs.suggested_recipes import PRETRAINED, SUGGESTED


@pytest.mark.parametrize("verb", ["generate", "classify", "tag", "embed", "fill", "summarize", "transcribe"])
def test_a_command_without_a_model_names_the_recipe(verb):
    told = CliRunner().invoke(regard, [verb, "text"]).exception
    assert isinstance(told, UserError)
    assert f"{verb} needs a model" in told.message
    hint = PRETRAINED[verb] if verb in PRETRAINED else f"`regard train {SUGGESTED[verb].recipe}`"
    assert hint in told.hint


def test_its_help_is_shown_without_a_model():
    shown = CliRunner().invoke(regard, ["generate", "--help"])
    assert shown.exit_code == 0
    assert "[required]" in shown.output
