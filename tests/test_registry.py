"""What is registered is found by its name beside what regard has; an unknown name is refused with a hint."""

import functools
import importlib
import importlib.metadata
import sys
from importlib.metadata import EntryPoint

import jaxtyping
import pytest
from torch import nn

from regard import registry
from regard.data import register_corpus_format
from regard.decoding import BeamSearch, register_rule, register_search
from regard.decoding.base_search import Search
from regard.errors import ConfigError, Interrupted, RecipeError, UserError
from regard.models import (
    register_attention,
    register_feed_forward,
    register_model,
    register_norm,
    register_positions,
)
from regard.models.config import ModelConfig
from regard.registry import Registry, naming_failures, refuse_other_arguments, refuse_other_options
from regard.training import register_loss
from regard.verbs.tasks.kinds import register_task
from regard.verbs.tasks.recipe import Recipe
from regard.weights.families.bert import BERT
from regard.weights.pretrained import register_family


@pytest.fixture
def colours():
    return Registry("colour", {"red": 1, "green": 2}, how="register_colour")


def test_registered_names_are_listed_with_regards_own(colours):
    assert colours.register("blue")(3) == 3
    assert (colours["blue"], colours["red"]) == (3, 1)
    assert list(colours) == ["red", "green", "blue"]
    assert "blue" in colours
    assert len(colours) == 3


def test_the_last_registration_counts(colours):
    colours.register("blue")(3)
    colours.register("blue")(4)
    assert colours["blue"] == 4


@pytest.mark.parametrize("name", ["red", "", len, None])  # a function: a decorator without its name
def test_taken_and_empty_names_are_refused(colours, name):
    with pytest.raises(UserError, match="colour"):
        colours.register(name)


def test_an_unknown_name_is_no_key_and_the_hint_has_the_nearest_one(colours):
    with pytest.raises(KeyError):
        colours["gren"]
    assert "gren" not in colours
    assert "'green'" in colours.hint("gren")
    assert "register_colour" in colours.hint("gren")


def test_the_hint_of_an_unrelated_name_lists_all(colours):
    colours.register("neg")(3)
    assert colours.hint("onearg").startswith("known: green, neg, red; register_colour")


@pytest.fixture
def extension(tmp_path, monkeypatch, colours):
    """A module that an installed package would name; what it does when it is imported is the test's."""
    points = []

    def install(name, code):
        (tmp_path / f"{name}.py").write_text(code)
        points.append(EntryPoint(name, name, registry.GROUP))

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: [*points])
    monkeypatch.setattr(registry, "_imported", set())
    yield install
    for point in points:
        sys.modules.pop(point.value, None)


def test_an_installed_extension_is_imported_when_a_name_is_unknown_and_only_then(
    extension, colours, monkeypatch
):
    monkeypatch.setitem(sys.modules, "the_colours", type(sys)("the_colours"))
    sys.modules["the_colours"].colours = colours
    extension("an_extension", "from the_colours import colours\ncolours.register('violet')(5)\n")
    assert colours["red"] == 1
    assert "an_extension" not in sys.modules
    assert colours["violet"] == 5


def test_an_extension_that_cannot_be_imported_is_named(extension, colours):
    extension("a_broken_extension", "import no_such_module_anywhere\n")
    with pytest.raises(UserError, match=r"a_broken_extension.*no_such_module_anywhere"):
        colours["violet"]


def test_a_signal_while_an_extension_is_imported_is_no_fault_of_it(extension, colours):
    extension(
        "a_stopped_extension",
        "from regard.errors import Interrupted\n"
        "try:\n"
        "    raise Interrupted(15, 'stopped by SIGTERM')\n"
        "except Exception as error:\n"
        "    raise ImportError('a fault') from error\n",
    )
    with pytest.raises(Interrupted, match="stopped by SIGTERM") as caught:
        colours["violet"]
    assert caught.value.exit_code == 143


def test_what_an_extension_registers_is_known_to_other_processes_and_what_a_script_registers_is_not(
    extension, colours, monkeypatch
):
    monkeypatch.setitem(sys.modules, "the_colours", type(sys)("the_colours"))
    sys.modules["the_colours"].colours = colours
    extension("an_extension", "from the_colours import colours\ncolours.register('violet')(5)\n")
    colours.register("blue")(3)
    importlib.import_module("an_extension")  # by the script itself, before any name was looked up
    known = {name: colours.is_installed(name) for name in ("red", "violet", "blue", "yellow")}
    assert known == {"red": True, "violet": True, "blue": False, "yellow": False}


def test_two_installed_packages_cannot_have_one_name(colours, monkeypatch):
    packages = iter([{"one", "tests"}, {"one"}, {"tests"}, {"two", "tests"}])
    points = [EntryPoint(name, f"{name}.things", registry.GROUP) for name in ("one", "two")]
    monkeypatch.setattr(registry.importlib.metadata, "entry_points", lambda group: points)
    monkeypatch.setattr(registry, "_running_packages", lambda: next(packages))
    colours.register("blue")(3)
    colours.register("blue")(4)
    colours.register("grey")(5)
    with pytest.raises(UserError, match="two installed packages register the colour 'blue': one and two"):
        colours.register("blue")(6)
    assert colours["blue"] == 4


def test_a_script_cannot_register_a_name_of_an_installed_package(extension, colours, monkeypatch):
    monkeypatch.setitem(sys.modules, "the_colours", type(sys)("the_colours"))
    sys.modules["the_colours"].colours = colours
    extension("a_broken_extension", "import no_such_module_anywhere\n")
    code = "from the_colours import colours\n@colours.register('violet')\ndef violet(): ...\n"
    extension("an_extension", code)
    with pytest.raises(UserError, match="package an_extension registers the colour 'violet'") as raised:
        colours.register("violet")(lambda: None)
    assert "another name" in raised.value.hint
    own = colours["violet"]
    colours.register("violet")(own)  # the same definition, as by a file of the package that is run
    colours.register("mauve")(lambda: None)
    with pytest.raises(UserError, match="a_broken_extension"):
        colours["purple"]


def test_an_extension_that_registers_a_wrong_thing_is_named_with_what_to_do(extension, colours):
    code = (
        "from regard.errors import UserError\nraise UserError('the loss is a class', 'register an object')\n"
    )
    extension("a_wrong_extension", code)
    with pytest.raises(UserError, match=r"a_wrong_extension.*the loss is a class") as raised:
        colours["violet"]
    assert raised.value.hint == "register an object"


class TakesOne:
    """A thing that is called with one argument, and made with none."""

    def __call__(self, one): ...


@pytest.mark.parametrize(
    "thing",
    [lambda one, two: None, lambda *all_of_them: None, print, lambda one, two, three=3: None, range],
)
def test_what_can_be_called_with_the_arguments_is_not_refused(thing):
    refuse_other_arguments(thing, "the colour 'blue'", ("one", "two"))


@pytest.mark.parametrize("thing", [lambda: None, lambda one, two, three: None, TakesOne, TakesOne()])
def test_what_cannot_be_called_with_the_arguments_is_refused_with_its_line(thing):
    with pytest.raises(ConfigError, match="the colour 'blue'") as raised:
        refuse_other_arguments(thing, "the colour 'blue'", ("one", "two"), kind=ConfigError)
    assert raised.value.hint == "it is called with one, two"
    assert thing is TakesOne or f"{__file__}:" in raised.value.message


def test_a_wrapper_is_asked_for_its_own_arguments_and_not_for_those_of_what_it_wraps():
    @functools.wraps(TakesOne.__call__)
    def wrapper(one, two): ...

    refuse_other_arguments(wrapper, "the colour 'blue'", ("one", "two"))


def test_an_exception_of_a_registered_thing_is_named_with_its_line():
    def crash():
        raise KeyError("boom")

    with (
        pytest.raises(ConfigError, match=r"the colour 'blue' fails: KeyError: 'boom'.*, crash\)") as raised,
        naming_failures("the colour 'blue'", crash, "mend it", kind=ConfigError),
    ):
        crash()
    assert f"{__file__}:" in raised.value.message
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize(
    "error", [UserError("known"), FileNotFoundError(2, "absent", "x"), RuntimeError("CUDA out of memory")]
)
def test_errors_that_are_understood_elsewhere_keep_their_class(error):
    def crash():
        raise error

    with pytest.raises(type(error)) as raised, naming_failures("the colour 'blue'", crash, "mend it"):
        crash()
    assert raised.value is error


MISTAKES = {
    "the decoding rule 'wrong'": lambda: register_rule("wrong")(TakesOne),
    "the corpus format 'wrong'": lambda: register_corpus_format("wrong")(TakesOne),
    "the loss 'wrong'": lambda: register_loss("wrong")(lambda logits: logits),
    "the task 'wrong': prepare": lambda: register_task(
        "wrong", recipe=Recipe, prepare=lambda source: None, open_test_data=lambda source, loaded, data: None
    ),
    "the positional encoding 'wrong'": lambda: register_positions("wrong", "input")(lambda config: None),
    "the self-attention 'wrong'": lambda: register_attention("wrong")(lambda d_model, num_heads: None),
    "the norm 'wrong'": lambda: register_norm("wrong")(lambda width: None),
    "the activation 'wrong'": lambda: register_feed_forward("wrong")(lambda: None),
    "the model 'wrong'": lambda: register_model(WrongConfig)(WrongModel),
    "the family of pretrained models 'wrong': special_token_ids": lambda: register_family(WrongFamily()),
    "the family of pretrained models TakesOne": lambda: register_family(TakesOne()),
    "the search 'wrong': continued": lambda: register_search("wrong")(WrongSearch),
    "the search 'wrong' does not define __call__": lambda: register_search("wrong")(NoSearch),
}


class WrongConfig(ModelConfig):
    """A config of which `WrongModel` takes no instance."""

    kind = "wrong"


class WrongModel(nn.Module):
    """A model that is made with two arguments."""

    def __init__(self, config, vocab_size): ...


class WrongSearch(BeamSearch):
    """A search with a method that takes less than it is called with."""

    def continued(self, rows, found):
        return found.total > 0


class NoSearch(Search):
    """A search without a step."""


class WrongFamily(BERT):
    """A family with a method that has an argument too many."""

    name = "wrong"

    def special_token_ids(self, config):
        return {}


@pytest.mark.parametrize("what", MISTAKES)
def test_what_could_not_be_called_is_refused_when_it_is_registered(what, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse some first
    with pytest.raises(UserError) as raised:
        MISTAKES[what]()
    assert raised.value.message.startswith(what)
    assert raised.value.hint


def plain(logits, labels, *, gamma=2.0): ...


@functools.wraps(plain)
def wrapped(*given, **options):
    return plain(*given, **options)


@functools.wraps(plain)
def scaled(*given, scale=1.0, **options):
    return plain(*given, **options)


def hidden(*given, **options):
    return plain(*given, **options)


@pytest.mark.parametrize(
    ("thing", "known"),
    [(plain, {"gamma"}), (wrapped, {"gamma"}), (scaled, {"gamma", "scale"}), (hidden, {"gamma"})],
)
def test_a_decorator_hides_no_misspelled_option(thing, known):
    """It failed when training began."""

    def refuse(**options):
        trial = functools.partial(thing, 1, 2, **options)
        given = {"setting": "loss_options", "kind": RecipeError, "trial": trial}
        refuse_other_options(thing, "the loss 'mine'", ("logits", "labels"), options, **given)

    for name in known:
        refuse(**{name: 1.0})
    for wrong in {"gama", "scale"} - known:
        with pytest.raises(RecipeError, match=f"loss_options: the loss 'mine': .*{wrong!r}") as raised:
            refuse(**{wrong: 1.0})
        assert thing is hidden or wrong == "scale" or "did you mean 'gamma'" in raised.value.hint


def test_what_fails_for_another_reason_is_not_judged_by_its_options():
    def needs_more(*given, **options):
        raise TypeError("another number of classes")

    given = {"setting": "loss_options", "kind": RecipeError}
    refuse_other_options(needs_more, "it", (1,), {"a": 1}, **given, trial=lambda: needs_more(1, a=1))
