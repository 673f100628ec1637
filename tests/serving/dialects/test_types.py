"""The types of bodies: fields by their names alone, and of requests no others."""

import msgspec
import pytest

from regard.serving.dialects import deepl_glossaries, openai_types, own_types
from regard.serving.dialects.openai_types import Sampling


def types_of(module):
    found = [each for each in vars(module).values() if isinstance(each, type)]
    return [each for each in found if issubclass(each, msgspec.Struct) and each.__module__ == module.__name__]


OF_GLOSSARIES = types_of(deepl_glossaries)
TYPES = [*types_of(openai_types), *types_of(own_types), *OF_GLOSSARIES]
ALSO_BY_PLACE = {"Strict", "EmbedRequest", "ClassifyRequest", "TagRequest", "FillRequest", "ScoreRequest"}


@pytest.mark.parametrize(
    "kind", [each for each in TYPES if each.__name__ not in ALSO_BY_PLACE], ids=lambda kind: kind.__name__
)
def test_a_body_is_made_by_the_names_of_its_fields_alone(kind):
    with pytest.raises(TypeError, match="positional"):
        kind("a")


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [("presence_penalty", -2, 2), ("frequency_penalty", -2, 2), ("temperature", 0, 2), ("top_p", 0, 1)],
)
def test_a_number_of_openai_s_has_its_range(field, least, most):
    def read(value):
        return getattr(msgspec.convert({"model": "a", field: value}, Sampling), field)

    assert (read(least), read(most)) == (least, most)
    for value in (least - 0.01, most + 0.01):
        with pytest.raises(msgspec.ValidationError, match=field):
            read(value)


@pytest.mark.parametrize(
    "kind",
    [*(each for each in TYPES if each.__name__.endswith("Request")), *OF_GLOSSARIES],
    ids=lambda kind: kind.__name__,
)
def test_a_request_has_no_other_fields(kind):
    with pytest.raises(msgspec.ValidationError, match="unknown field `no_such`"):
        msgspec.json.decode(b'{"no_such": 1}', type=kind)
