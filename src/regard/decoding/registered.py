"""Rules and searches of other packages, which a recipe, generation.json or a call selects by name."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from regard.decoding.base_search import Search
from regard.decoding.phrases import Words
from regard.decoding.registries import RULES, SEARCHES
from regard.decoding.rules import Rule
from regard.decoding.special_tokens import SpecialTokenIds
from regard.errors import ConfigError
from regard.registry import refuse_not_callable

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
    returns nothing. Rules apply in the order of their names, after regard's own. A model with a fast decoding
    step computes the scores of all tokens for them. If worker processes decode, forks of this process have
    the rule too; where there are no forks (not on Linux) it must be one that pickle can copy.

    Raises:
        UserError: the name is empty.
    """
    register = RULES.register(name)

    def add(make: MakeRule) -> MakeRule:
        refuse_not_callable(make, f"the decoding rule {name!r}")
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
        ConfigError: the class is not a subclass of `Search`.
    """
    register = SEARCHES.register(name)

    def add(search: Any) -> Any:
        if not (isinstance(search, type) and issubclass(search, Search)):
            raise ConfigError(
                f"the search {name!r} is not a subclass of Search",
                "inherit from Search or BeamSearch",
            )
        register(search)
        return search

    return add


def registered_rules(
    names: Sequence[str], tokenizer: Words | None, special: SpecialTokenIds
) -> tuple[Rule, ...]:
    """The rules of these names.

    Raises:
        ConfigError: there is no tokeniser, or what is registered does not give a rule.
    """
    if not names:
        return ()
    if tokenizer is None:
        raise ConfigError(f"rules = {[*names]} need a tokeniser", "pass the model's tokeniser")
    found = tuple(RULES[name](tokenizer, special) for name in names)
    for name, rule in zip(names, found, strict=True):
        if not isinstance(rule, Rule):
            raise ConfigError(
                f"the decoding rule {name!r} gives {type(rule).__name__}, which is not a Rule",
                "inherit from ForbiddingRule, or define changes_scores, raises and __call__",
            )
    return found
