"""What a config.json does not say has the default of transformers, as transformers reads it."""

import json

import pytest

from regard.errors import FolderError
from regard.weights.families.family import canonical
from regard.weights.pretrained import FAMILIES
from tests.weights.families.conversion import converted, without

transformers = pytest.importorskip("transformers")
HEADS = {
    "bart": "BartModel",
    "mbart": "MBartModel",
    "vit": "ViTForImageClassification",
    "deit": "DeiTForImageClassification",
}


def facts(name, table):
    """The config with all settings in one form, and what else is read of the file."""
    found = converted(name, table)
    others = {field: value for field, value in vars(found).items() if field != "config"}
    return {**found.config.to_dict(), **canonical(found.config), **others}


@pytest.mark.parametrize("name", [name for name in FAMILIES if name in transformers.CONFIG_MAPPING])
def test_a_setting_that_is_left_out_changes_nothing(name):
    """But for numbers that regard needs, and ids of tokens, which a tokeniser may have instead."""
    table = json.loads(transformers.CONFIG_MAPPING[name]().to_json_string(use_diff=False))
    table |= {"architectures": [HEADS[name]]} if name in HEADS else {}
    whole = facts(name, table)
    needed: dict[str, str] = {}
    for setting in [each for each in table if not each.endswith("token_id") and each != "architectures"]:
        try:
            found = facts(name, without(table, setting))
        except FolderError as error:
            needed[setting] = error.message
        else:
            assert {key: found[key] for key in found if found[key] != whole[key]} == {}, setting
    assert all("is missing" in message for message in needed.values()), needed
    assert len(needed) <= 8, needed
