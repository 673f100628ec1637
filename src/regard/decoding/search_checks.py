"""Settings with which no search can run, refused when the search is made."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.decoding.rules import GeneratedTokens, LengthLimits, Rule
from regard.decoding.special_tokens import refuse_other_id
from regard.errors import ConfigError
from regard.registry import naming_failures


def check_search(search: Any) -> None:
    """Raise a ConfigError for counts, lengths, special tokens and rules that a search cannot use."""
    refuse_other_count("n_best", search.n_best)
    if not isinstance(search.limits, LengthLimits):
        most = search.limits if isinstance(search.limits, int) else 20
        raise ConfigError(f"limits = {search.limits!r} is not a LengthLimits", f"LengthLimits(most={most})")
    if not callable(search.length_penalty) or isinstance(search.length_penalty, type):
        alpha = search.length_penalty if isinstance(search.length_penalty, float) else 0.6
        raise ConfigError(
            f"length_penalty = {search.length_penalty!r} is not a LengthPenalty",
            f"Power(alpha={alpha}) divides by length^{alpha}; GNMT and others are in regard.decoding",
        )
    for name in ("bos_id", "eos_id"):
        refuse_other_id(name, getattr(search, name))
    for name in ("cut", "early_stopping", "heuristic_stopping"):
        if not isinstance(given := getattr(search, name, False), bool):
            raise ConfigError(f"{name} is {given!r}, but must be True or False")
    several("ends", search, lambda token: refuse_other_id("a token of `ends`", token))
    several("rules", search, refuse_other_rule)


def check_sampling(sampling: Any) -> None:
    """Raise a ConfigError for a seed that is no whole number, and for filters that cannot be called."""
    if not isinstance(sampling.seed, Integral) or isinstance(sampling.seed, bool):
        raise ConfigError(f"seed is {sampling.seed!r}, but must be a whole number")
    several("filters", sampling, refuse_other_filter)


def several(name: str, settings: Any, refuse: Callable[[Any], None]) -> None:
    """Make what is iterable, such as a list, a tuple, after `refuse` has seen each item.

    Raises:
        ConfigError: it is a single item, or `refuse` raises one.
    """
    given = getattr(settings, name)
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    for each in found:
        refuse(each)
    if not isinstance(given, Iterable):
        one = name.removesuffix("s")
        raise ConfigError(f"`{name}` is a single {one}", f"give a tuple: {name}=({one},)")
    object.__setattr__(settings, name, found)


def refuse_other_filter(filter: object) -> None:
    """Raise a ConfigError if this is not a function of logits."""
    if not callable(filter) or isinstance(filter, type):
        what = getattr(filter, "__name__", repr(filter))
        raise ConfigError(
            f"{what} in `filters` is not a filter", "TopK(k=40) and others are in regard.decoding"
        )


def refuse_other_count(name: str, value: object, hint: str = "") -> None:
    """Raise a ConfigError if this is not a whole number of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}, but must be a whole number", hint)
    if value < 1:
        raise ConfigError(f"{name} is {value}, but must be at least 1", hint)


def refuse_other_rule(rule: object) -> None:
    """Raise a ConfigError if this is not a rule: a plain function does not say what it may do to scores."""
    if not isinstance(rule, Rule) or isinstance(rule, type):
        what = getattr(rule, "__name__", type(rule).__name__)
        raise ConfigError(
            f"{what} in `rules` is not a Rule",
            "its class inherits from ForbiddingRule, or has changes_scores, raises and __call__",
        )


def apply_rule(rule: Rule, scores: Float[Tensor, "rows vocab"], generated: GeneratedTokens) -> None:
    """Change scores in place by a rule.

    Raises:
        ConfigError: the rule is not of regard, and it fails, returns other scores, which nothing would use,
            or changes a score although it is one that only forbids.
    """
    if _is_of_regard(rule):
        rule(scores, generated)
        return
    new = generated.length - int(generated.prefix_lengths.min())
    before = None if rule.changes_scores or not _is_checked(new) else scores.clone()
    hint = "it gets the log-probabilities [rows, vocab] and the tokens generated so far"
    with naming_failures(f"the rule {type(rule).__name__}", rule, hint, kind=ConfigError):
        returned: object = rule(scores, generated)
    if returned is not None and returned is not scores:
        raise ConfigError(
            f"the rule {type(rule).__name__} returns a {type(returned).__name__}, which would have no effect",
            "change log_probs in place, and return nothing: log_probs[:, ids] = -torch.inf",
        )
    if before is not None:
        _refuse_changed_scores(rule, before, scores)


def warn_of_empty_texts(
    rules: Sequence[Rule], first: Float[Tensor, "rows vocab"], ends: Sequence[int]
) -> None:
    """Warn once of rules, not of regard, that leave no first token but an end: such a text is empty.

    `first`: the log-probabilities of first tokens after the rules.
    """
    others = first.clone()
    others[:, [*ends]] = -torch.inf
    if len(others) and bool((others == -torch.inf).all(dim=1).any()):
        names = " and ".join(dict.fromkeys(type(rule).__name__ for rule in rules))
        warnings.warn(
            f"the decoding rules of {names} forbid every first token but the end, so that a text is empty:"
            " a rule writes -torch.inf where it forbids, not where it allows",
            stacklevel=2,
        )


def own_rules(rules: Iterable[Rule]) -> list[Rule]:
    """The rules that are not of regard."""
    return [rule for rule in rules if not _is_of_regard(rule)]


def _is_of_regard(rule: Rule) -> bool:
    return type(rule).__module__.startswith("regard.")


def _is_checked(length: int) -> bool:
    """True for 0, 1, 2, 4, 8 and so on new tokens: a check of each step would cost as much as the rule."""
    return length & (length - 1) == 0


def _refuse_changed_scores(
    rule: Rule, before: Float[Tensor, "rows vocab"], after: Float[Tensor, "rows vocab"]
) -> None:
    """Raise a ConfigError if a rule that only forbids changed a score to another than minus infinity."""
    changed = (after != before) & (after != -torch.inf) & ~after.isnan()  # NaN is reported for all rules
    if not bool(changed.any()):
        return
    row, token = (int(each) for each in changed.nonzero()[0])
    raise ConfigError(
        f"the rule {type(rule).__name__} changes the log-probability of token {token} from"
        f" {float(before[row, token]):.4g} to {float(after[row, token]):.4g}, but it may only forbid tokens",
        "write -torch.inf only, or set changes_scores = True, and raises = True if scores can rise",
    )
