"""Rules and searches of other packages, which a recipe, generation.json or a call selects by name."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from regard.decoding.base_search import Search
from regard.decoding.control_fields import SEARCH_CONTROLS
from regard.decoding.phrases import Words
from regard.decoding.registries import CONTROLS_OF_FIELD, RULES, SEARCHES
from regard.decoding.rules import Rule
from regard.decoding.special_tokens import SpecialTokenIds
from regard.errors import ConfigError
from regard.registry import (
    naming_failures,
    refuse_not_callable,
    refuse_other_arguments,
    refuse_other_methods,
)

MakeRule = TypeVar("MakeRule", bound=Callable[[Words, SpecialTokenIds], Rule])
SearchClass = TypeVar("SearchClass", bound=type[Search])


def register_rule(name: str) -> Callable[[MakeRule], MakeRule]:
    """Make a decoding rule known by a name, for `rules` in `[decoding]`, generation.json and calls.

        @register_rule("no_digits")
        class NoDigits(ForbiddingRule):
            def __init__(self, tokenizer, special):
                texts = [tokenizer.decode([token]) for token in range(tokenizer.vocab_size)]
                self.digits = [token for token, text in enumerate(texts) if any(map(str.isdigit, text))]

            def __call__(self, log_probs, generated):
                log_probs[:, self.digits] = -torch.inf

    The decorated class or function is called with the tokeniser of the output and the ids of special tokens;
    it gives a `Rule`, which changes the scores of each row in place, without regard to the other rows, and
    returns nothing. A `ForbiddingRule` may write minus infinity only, which is checked. A text ends where all
    tokens are forbidden, so that it may be empty. Rules apply in the order of their names, after regard's
    own. A model with a fast decoding step computes the scores of all tokens for them. If worker processes
    decode, forks of this process have the rule too; where there are no forks (not on Linux) it must be one
    that pickle can copy.

    Raises:
        UserError: the name is empty.
        ConfigError: what is decorated cannot be called with these two.
    """
    register = RULES.register(name)

    def add(make: MakeRule) -> MakeRule:
        refuse_not_callable(make, what := f"the decoding rule {name!r}")
        refuse_other_arguments(make, what, ("tokenizer", "special"), kind=ConfigError)
        return register(make)

    return add


def register_search(name: str) -> Callable[[SearchClass], SearchClass]:
    """Make a search known by a name, for `search` in `[decoding]`, generation.json and calls.

        @register_search("pruned")
        @dataclass(frozen=True, kw_only=True)
        class PrunedBeamSearch(BeamSearch): ...

    The decorated class is a subclass of `Search`. It gets limits, rules, ends, stop texts and length penalty
    as all searches do. Of the controls of beams and sampling it gets those that it has a field for: one with
    the control's name (`temperature`, `top_k`, ...), or with the name in regard's own searches (`size`,
    `filters`). A control that is set and has no such field is refused. `sample`, minimum Bayes risk and
    proposed tokens are for regard's own searches only.

    Raises:
        UserError: the name is empty.
        ConfigError: the class is not a subclass of `Search`, lacks `__call__`, or has a method that cannot be
            called as the one that it replaces, or a field without a default that is no control's.
    """
    register = SEARCHES.register(name)

    def add(search: Any) -> Any:
        if not (isinstance(search, type) and issubclass(search, Search)):
            raise ConfigError(
                f"the search {name!r} is not a subclass of Search",
                "inherit from Search or BeamSearch",
            )
        if inspect.isabstract(search):
            missing = ", ".join(sorted(search.__abstractmethods__))
            raise ConfigError(
                f"the search {name!r} does not define {missing}", "define it, or inherit BeamSearch"
            )
        refuse_required_fields(name, search, {*SEARCH_CONTROLS, *CONTROLS_OF_FIELD})
        for base in search.__mro__[1:]:
            if issubclass(base, Search):
                refuse_other_methods(search, base, f"the search {name!r}", kind=ConfigError)
        register(search)
        return search

    return add


def refuse_required_fields(name: str, search: type[Search], given: Iterable[str]) -> None:
    """Raise a ConfigError for a field without a default that is not among those `given`."""
    for field in dataclasses.fields(search):
        has_default = (
            field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        )
        if field.init and not has_default and field.name not in given:
            raise ConfigError(
                f"the search {name!r} has the field {field.name!r} without a default, which nothing sets",
                f"give `{field.name}` a default: regard sets the fields of its own controls alone",
            )


def registered_rules(
    names: Sequence[str], tokenizer: Words | None, special: SpecialTokenIds
) -> tuple[Rule, ...]:
    """The rules of these names.

    Raises:
        ConfigError: there is no tokeniser, or what is registered fails or does not give a rule.
    """
    if not names:
        return ()
    if tokenizer is None:
        raise ConfigError(f"rules = {[*names]} need a tokeniser", "pass the model's tokeniser")
    return tuple(_made_rule(name, tokenizer, special) for name in names)


def _made_rule(name: str, tokenizer: Words, special: SpecialTokenIds) -> Rule:
    make, what = RULES[name], f"the decoding rule {name!r}"
    hint = "it is called with the tokeniser of the output and the ids of special tokens"
    with naming_failures(what, make, hint, kind=ConfigError):
        rule: Any = make(tokenizer, special)
    if not isinstance(rule, Rule):
        raise ConfigError(
            f"{what} gives {type(rule).__name__}, which is not a Rule",
            "inherit from ForbiddingRule, or define changes_scores, raises and __call__",
        )
    refuse_other_arguments(rule, what, ("log_probs", "generated"), kind=ConfigError)
    return rule
