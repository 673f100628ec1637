"""Settings with which no search can run, refused when the search is made."""

from collections.abc import Iterable
from numbers import Integral
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.decoding.rules import GeneratedTokens, Rule
from regard.decoding.special_tokens import refuse_other_id
from regard.errors import ConfigError
from regard.registry import naming_failures


def check_search(search: Any) -> None:
    """Raise a ConfigError for a number of hypotheses, a special token or a rule that a search cannot use."""
    refuse_other_count("n_best", search.n_best)
    for name in ("bos_id", "eos_id"):
        refuse_other_id(name, getattr(search, name))
    rules = search.rules if isinstance(search.rules, Iterable) else (search.rules,)
    for rule in rules:
        refuse_other_rule(rule)
    if rules is not search.rules:
        raise ConfigError("`rules` is a single rule", "give a tuple: rules=(rule,)")


def refuse_other_count(name: str, value: object, hint: str = "") -> None:
    """Raise a ConfigError if this is not a whole number of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}, but must be a whole number", hint)
    if value < 1:
        raise ConfigError(f"{name} is {value}, but must be at least 1", hint)


def refuse_other_rule(rule: object) -> None:
    """Raise a ConfigError if this is no rule: a plain function does not say what it may do to scores."""
    if not isinstance(rule, Rule) or isinstance(rule, type):
        what = getattr(rule, "__name__", type(rule).__name__)
        raise ConfigError(
            f"{what} in `rules` is not a Rule",
            "its class inherits from ForbiddingRule, or has changes_scores, raises and __call__",
        )


def apply_rule(rule: Rule, scores: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
    """Change scores in place by a rule.

    Raises:
        ConfigError: the rule is not of regard, and it fails or returns other scores, which nothing would use.
    """
    if type(rule).__module__.startswith("regard."):
        rule(scores, generated)
        return
    hint = "it gets the log-probabilities [rows, vocab] and the tokens generated so far"
    with naming_failures(f"the rule {type(rule).__name__}", rule, hint, kind=ConfigError):
        returned: object = rule(scores, generated)
    if returned is not None and returned is not scores:
        raise ConfigError(
            f"the rule {type(rule).__name__} returns a {type(returned).__name__}, which would have no effect",
            "change log_probs in place, and return nothing: log_probs[:, ids] = -torch.inf",
        )
