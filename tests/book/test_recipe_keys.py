"""Every key of every recipe is on the page, with what it means."""

import dataclasses
import typing

import pytest

from regard.models.build import MODELS
from regard.models.config import TransformerConfig
from regard.verbs.recipe_keys import model_sections, recipe_sections
from regard.verbs.shared.settings_source import comments_of, keys_of, meaning, sections_in, toml
from regard.verbs.tasks.kinds import KINDS


@pytest.fixture(scope="module")
def groups():
    return recipe_sections()


@pytest.fixture(scope="module")
def of_models():
    return model_sections()


@pytest.fixture(scope="module")
def sections(groups, of_models):
    return [*(section for group in groups.values() for section in group), *of_models]


def test_a_key_has_a_meaning(sections):
    keys = [(section.name, key) for section in sections for key in section.keys]
    assert len(keys) > 400
    for section, key in keys:
        assert len(key.meaning) > 5, f"{section}: write a comment beside `{key.name}`"
        assert not key.meaning.endswith((",", ";", ":")), f"the comment of {key.name} continues: {section}"


def test_names_of_sections_are_different(sections):
    names = [section.name for section in sections]
    assert len(names) == len(set(names))


def tables(cls, where=""):
    """Each table of a recipe with its keys, found without the page's code."""
    hints = typing.get_type_hints(cls)
    below = {name: sections_in(hint) for name, hint in hints.items()}
    fields = [field.name for field in dataclasses.fields(cls)]
    yield where, {name for name in fields if where or not below[name]}
    for name in fields:
        for each in below[name]:
            yield from tables(each, f"{where}.{name}" if where else name)


@pytest.mark.parametrize("task", KINDS)
def test_the_keys_of_a_recipe_are_all_there(task, groups):
    own = task.replace("_", " ")
    shown = [*groups["Every recipe"], *groups[own.capitalize()]]
    shown += [section for section in groups["Recipes of several tasks"] if own in section.title.split("(")[1]]
    for table, names in tables(KINDS[task].recipe):
        title = f"`[{table}]`" if table else "The first lines"
        found = {key.name for section in shown if title in section.title for key in section.keys}
        assert names <= found, table


@pytest.mark.parametrize("kind", MODELS)
def test_the_keys_of_a_model_are_all_there(kind, of_models):
    config = MODELS[kind][0]
    found = {section.name: {key.name for key in section.keys} for section in of_models}
    shared = found["key-model"] if issubclass(config, TransformerConfig) else set()
    assert {field.name for field in dataclasses.fields(config)} == found[f"key-model-{kind}"] | shared


@dataclasses.dataclass
class Base:
    """A base. `rate`: how fast. `both` and `rate` are used together.

    More text.
    """

    rate: float = 0.5
    size: int = 1  # how large
    # above the field
    long: str = "a"
    both: tuple[int, ...] = (1, 2)
    helped: int | None = dataclasses.field(default=None, metadata={"help": "Helps. [default: the model's]"})


@dataclasses.dataclass
class Derived(Base):
    """A class with another default."""

    size: int = 2
    helped: int | None = 3  # a comment beside a field with a help


def test_a_meaning_is_the_help_or_the_comment_or_the_sentence_that_names_the_key():
    found = {key.name: key for key in keys_of(Derived)}
    assert found["rate"].meaning == "how fast."
    assert (found["size"].meaning, found["size"].default) == ("how large", "2")
    assert found["long"].meaning == "above the field"
    assert found["both"].meaning == "`both` and `rate` are used together."
    assert (found["helped"].meaning, found["helped"].default) == ("Helps.", "3")
    assert comments_of(Derived) == {"size": "", "helped": "a comment beside a field with a help"}


def test_a_key_without_a_text_has_no_meaning():
    @dataclasses.dataclass
    class Bare:
        """Nothing about it."""

        key: int = 0

    assert meaning(Bare, dataclasses.fields(Bare)[0]) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "not set"), (True, "true"), ("a", '"a"'), ((1, "b"), '[1, "b"]'), ({}, "{}"), (0.5, "0.5")],
)
def test_a_default_is_written_as_toml(value, shown):
    assert toml(value) == shown
