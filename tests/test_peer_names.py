"""Names of other toolkits lead to our keys, and to those that the docs' tables show for them."""

import re
from pathlib import Path
from typing import get_args

import pytest

from regard.errors import did_you_mean
from regard.layers.feedforward import Activation
from regard.peer_names import PEER_NAMES, keys_called
from regard.verbs.recipe_keys import model_sections, recipe_sections

PAGE = Path(__file__).parent.parent / "docs" / "do" / "coming-from-toolkits.md"
ROWS = re.findall(r"^\| (.+?) \| (.+?) \|$", PAGE.read_text("utf-8"), re.MULTILINE)


def known_keys():
    sections = [each for group in recipe_sections().values() for each in group]
    dotted = {f"{table}.{key.name}" for each in sections for table in each.tables for key in each.keys}
    return dotted | {f"model.{key.name}" for each in model_sections() for key in each.keys} | {"model.init"}


def test_each_key_is_one_of_recipes_and_no_key_is_a_name_of_itself():
    assert set(PEER_NAMES) <= known_keys()
    for key, names in PEER_NAMES.items():
        assert key.rpartition(".")[2] not in names.split(), key


WITHOUT_HINT = {  # names of the tables that say more than a key, or are sections of ours
    "optimizer",
}


def test_the_tables_of_the_docs_and_the_hints_agree():
    pairs = set()
    for theirs, ours in ROWS:
        names, keys = (re.findall(r"`(?:--)?([a-z][\w.-]+)(?!\w*:)", cell) for cell in (theirs, ours))
        if len(names) == len(keys):
            pairs |= {(name, key) for name, key in zip(names, keys, strict=True) if key in PEER_NAMES}
    assert len(pairs) > 60
    unknown = {name for name, key in pairs if key not in keys_called(name)}
    assert unknown == WITHOUT_HINT


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("--num-beams", ["--beam-size", "--number"], "did you mean '--beam-size'?"),
        ("LR", ["learning_rate", "lrs"], "did you mean 'learning_rate'?"),
        (
            "layers",
            ["num_encoder_layers", "num_decoder_layers"],
            "'num_decoder_layers' or 'num_encoder_layers'",
        ),
        ("layers", ["layers_of_cake"], "did you mean 'layers_of_cake'?"),
        ("rope", ["rotary", "none", "learned"], "did you mean 'rotary'?"),
        ("swish", get_args(Activation), "did you mean 'silu'?"),
        ("--num-return-sequences", ["--num", "--n-best"], "did you mean '--n-best' or '--num'?"),
        ("--num-return-sequences", ["--num", "--noise"], "did you mean '--num'?"),
    ],
)
def test_a_hint_names_what_others_call_so_if_it_is_known_here(name, known, hint):
    assert hint in did_you_mean(name, known)
