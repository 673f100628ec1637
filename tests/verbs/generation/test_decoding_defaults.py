"""A folder's defaults of decoding are bounded; what a user asks for is not."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.decoding.continuation import ContinuationSettings
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError, FolderError, RecipeError
from regard.verbs.generation import decoding_defaults as module
from regard.verbs.generation.decoding_defaults import (
    MOST_LENGTH,
    MOST_ROWS,
    MOST_TOKENS_OF_ALL_ROWS,
    decoding_defaults,
    default_beam,
)
from regard.weights.model_folder import LoadedModel


def folder(**generation: Any) -> Any:
    """A model folder of which only the defaults of decoding are known."""
    made = object.__new__(LoadedModel)
    for name, value in {"generation": generation, "path": Path("m")}.items():
        object.__setattr__(made, name, value)
    return made


@pytest.fixture
def warned(monkeypatch):
    reported = []
    monkeypatch.setattr(module, "console", SimpleNamespace(warn=reported.append))
    return reported


def test_usual_defaults_are_taken_as_they_are(warned):
    given = {"beam_size": 8, "max_length": 2048, "alpha": 1.0}
    assert decoding_defaults(GenerationSettings, folder(**given)) == GenerationSettings(**given)
    assert decoding_defaults(ContinuationSettings, folder()) == ContinuationSettings()
    assert not warned


@pytest.mark.parametrize(
    ("cls", "given"),
    [
        (GenerationSettings, {"beam_size": 1000, "max_length": 10**6, "min_new_tokens": 10**5}),
        (GenerationSettings, {"max_length": 10**6, "min_length": 10**5, "max_length_ratio": 1000.0}),
        (ContinuationSettings, {"max_new_tokens": 10**5, "min_new_tokens": 10**5, "begin": False}),
        (ContinuationSettings, {"max_new_tokens": 10**5, "mbr": "chrf", "mbr_samples": 1000}),
    ],
)
def test_defaults_that_take_hours_are_lowered_with_a_warning(warned, cls, given):
    found = decoding_defaults(cls, folder(**given))
    rows = max(1, *(getattr(found, name, None) or 0 for name in module.names_in(cls, "hypotheses")))
    length = max(getattr(found, name, None) or 0 for name in module.names_in(cls, "tokens"))
    assert rows <= MOST_ROWS
    assert length <= MOST_LENGTH
    assert rows * length <= MOST_TOKENS_OF_ALL_ROWS
    assert all("generation.json asks for" in each for each in warned)
    lowered = [name for name, value in given.items() if getattr(found, name) != value]
    assert [name for name in lowered if not any(name in each for each in warned)] == []
    assert lowered


def test_a_user_may_ask_for_more(warned):
    found = decoding_defaults(ContinuationSettings, folder(max_new_tokens=10**5))
    assert found.changed(ContinuationSettings(max_new_tokens=50_000)).max_new_tokens == 50_000


@pytest.mark.parametrize("number", [10**9, 2**63, 10**30, -(10**30), 10**400], ids=int.bit_length)
@pytest.mark.parametrize("cls", [GenerationSettings, ContinuationSettings])
def test_no_number_of_a_folder_is_an_exception_of_pythons(warned, cls, number):
    """Each setting that is a number takes it, or says in one line that it does not."""
    reported = {}
    for field in dataclasses.fields(cls):
        try:
            decoding_defaults(cls, folder(**{field.name: number}))
        except (ConfigError, RecipeError) as error:
            reported[field.name] = error
    assert len(reported) > 10
    assert [name for name, error in reported.items() if name not in error.message or not error.hint] == []
    assert max(len(error.message) for error in reported.values()) < 200


@pytest.mark.parametrize("size", [0, -1, 10**30, 1.5, "x", None, True])
def test_a_beam_of_a_model_without_a_decoder_is_bounded_too(size):
    with pytest.raises(FolderError, match="beam_size"):
        default_beam(folder(beam_size=size))
    assert default_beam(folder(beam_size=7)).width == 7
    assert default_beam(folder()).width == 1
