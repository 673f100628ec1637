"""Fields of a value are keywords of a call, and the whole value is one, too."""

import inspect
from dataclasses import dataclass

import pytest

from regard.verbs.shared.keyword_fields import keyword_fields


@dataclass(frozen=True, kw_only=True)
class Colour:
    hue: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Size:
    width: int = 1


@keyword_fields
def painted(what: str, *, colour: Colour = Colour(hue=60), times: int = 1, size: Size = Size()):
    return what, colour, times, size


def test_fields_of_several_values_can_be_given_with_other_keywords():
    found = painted("door", width=3, times=2, hue=120)
    assert found == ("door", Colour(hue=120), 2, Size(width=3))
    assert painted("door") == ("door", Colour(hue=60), 1, Size())
    assert painted("door", names=("red",)) == ("door", Colour(hue=60, names=("red",)), 1, Size())


def test_a_whole_value_goes_with_fields_of_another_but_not_with_its_own():
    colour = Colour(hue=7)
    assert painted("door", colour=colour, width=2) == ("door", colour, 1, Size(width=2))
    with pytest.raises(TypeError, match="got both colour and hue"):
        painted("door", colour=colour, hue=7)
    with pytest.raises(TypeError, match="wants a Colour as colour, not 'red'"):
        painted("door", colour="red")


def test_the_signature_names_each_field_where_the_value_stood():
    parameters = inspect.signature(painted).parameters
    assert list(parameters) == ["what", "hue", "names", "times", "width"]
    assert parameters["hue"].default == 60
    with pytest.raises(TypeError, match=r"painted\(\) got .* argument 'heu'; did you mean 'hue'"):
        painted("door", heu=7)


def test_a_text_alone_stands_for_a_tuple_of_one():
    assert painted("door", names="red")[1].names == ("red",)
    assert painted("door", names=["red", "rot"])[1].names == ("red", "rot")
    assert painted("door", names=None)[1].names == ()
