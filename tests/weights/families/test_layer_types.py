"""The types of layers: the shortest pattern that repeats, and what no model has."""

import dataclasses

import pytest

from regard.errors import FolderError
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.families.family import ConfigReader
from regard.weights.families.layer_types import (
    FULL,
    SLIDING,
    read_layer_types,
    window_settings,
    written_layer_types,
)

CONFIG = DecoderOnlyConfig(vocab_size=9, d_model=8, num_heads=2, num_layers=5, d_ff=8, positions="rotary")


def reader(**table):
    return ConfigReader(table, "it")


def kinds(word):
    return [{"f": FULL, "s": SLIDING}[letter] for letter in word]


@pytest.mark.parametrize(
    ("word", "pattern"),
    [
        ("fffff", None),
        ("sssss", None),
        ("sfsfs", "sf"),
        ("ssfss", "ssf"),
        ("fsssf", "fsss"),
        ("fffss", "fffss"),
    ],
)
def test_layers_have_the_shortest_pattern_that_repeats(word, pattern):
    found = window_settings(reader(), kinds(word), 7)
    if "s" not in word:
        assert found == {"window": None}
        assert window_settings(reader(), kinds(word), None) == found
    else:
        assert found == {"window": 7, "layer_types": pattern and tuple(kinds(pattern))}
    assert written_layer_types(dataclasses.replace(CONFIG, **found)) == kinds(word)


def test_a_window_that_is_not_given_is_refused():
    with pytest.raises(
        FolderError, match=f"^it: layers have {SLIDING}, but sliding_window is null"
    ) as caught:
        window_settings(reader(), kinds("fs"), None)
    assert caught.value.hint


def test_the_types_are_those_of_the_file_or_else_the_usual_ones():
    usual = kinds("sf")
    assert read_layer_types(reader(), usual) == usual
    assert read_layer_types(reader(layer_types=None), usual) == usual
    assert read_layer_types(reader(layer_types=kinds("fs")), usual) == kinds("fs")
    for wrong, message in (
        (kinds("f"), "layer_types has 1 types for 2 layers"),
        (kinds("fff"), "layer_types has 3 types for 2 layers"),
        ([FULL, "chunked"], "the type 'chunked' of layer_types is not supported"),
        ([3, FULL], "the type 3 of layer_types is not supported"),
    ):
        with pytest.raises(FolderError, match=f"^it: {message}") as caught:
            read_layer_types(reader(layer_types=wrong), usual)
        assert caught.value.hint
