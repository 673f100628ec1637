"""Checks of models and module names that a caller gives. The ConfigError names what is wrong.

Names of hooks of TransformerLens are not known here; the hint has the module that computes the same.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import cast

from torch import nn

from regard.errors import ConfigError, did_you_mean
from regard.models.model import Model

NOT_OURS = "a model of regard: the `.model` of what regard.load(FOLDER) returns"
HOOKS = {  # a pattern of names in TransformerLens, and the module here whose output it is
    r"(hook_embed|hook_pos_embed|blocks\.0\.hook_resid_pre)": "input",
    r"blocks\.(\d+)\.hook_resid_pre": "blocks.{before}",
    r"blocks\.(\d+)\.hook_resid_mid": "blocks.{number}.around_self_attention",
    r"blocks\.(\d+)\.hook_resid_post": "blocks.{number}",
    r"blocks\.(\d+)\.hook_attn_out": "blocks.{number}.self_attention",
    r"blocks\.(\d+)\.attn(\..*)?": "blocks.{number}.self_attention",
    r"blocks\.(\d+)\.mlp\.hook_post": "blocks.{number}.feed_forward.dropout",
    r"blocks\.(\d+)\.(hook_mlp_out|mlp(\..*)?)": "blocks.{number}.feed_forward",
    r"ln_final(\..*)?": "norm",
}
HOOKED_PARTS = {
    "pattern": "weights",
    "attn_scores": "scores",
    "q": "query",
    "k": "key",
    "v": "value",
    "z": "head_output",
}


def refuse_other_module(model: object) -> None:
    """Raise a ConfigError if this is not a module of PyTorch, such as what `regard.load` returns."""
    if not isinstance(model, nn.Module):
        has_model = isinstance(getattr(model, "model", None), nn.Module)
        hint = "give its `.model`" if has_model else f"give {NOT_OURS}"
        raise ConfigError(f"a {type(model).__name__} is not a module of PyTorch", hint)


def refuse_other_names(what: str, given: object, example: str) -> tuple[str, ...]:
    """`given` as a tuple of names; a ConfigError if it is a single name or nothing of the kind."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        one = given if isinstance(given, str) else example
        raise ConfigError(f"{what} = {given!r} is not a sequence of names", f"for instance {what}=[{one!r}]")
    return tuple(cast(Iterable[str], given))


def refuse_unnamed_heads(heads: object, example: str) -> None:
    """Raise a ConfigError if heads are not given by the name of their attention."""
    if not isinstance(heads, Mapping):
        raise ConfigError(
            f"heads = {heads!r} does not name their attention", f"for instance heads={{{example!r}: [0, 2]}}"
        )


def attention_hint(model: nn.Module, name: object, attentions: Collection[str]) -> str:
    """What to do about the name of an attention that the model does not have."""
    if not attentions:
        has_none = "this model has none"
        return has_none if isinstance(model, Model) else f"{has_none} of regard's; give {NOT_OURS}"
    return _meant(name, attentions) or did_you_mean(name, attentions)


def module_hint(model: nn.Module, name: object, known: Sequence[str]) -> str:
    """What to do about the name of a module that the model does not have; `known` are its blocks."""
    modules = [each for each, _ in model.named_modules() if each]
    found = _meant(name, modules)
    return found or f"{did_you_mean(name, known or modules)}; model.named_modules() has all"


def part_hint(part: object, known: Sequence[str]) -> str:
    """What to do about the name of a part that attentions do not have."""
    name = str(part).rpartition(".")[2].removeprefix("hook_")
    return did_you_mean(HOOKED_PARTS.get(name, part), known)


def _meant(name: object, known: Collection[str]) -> str | None:
    """A hint for the name of a hook, if the model has the module."""
    for pattern, ours in HOOKS.items():
        if match := re.fullmatch(pattern, str(name)):
            number = next((each for each in match.groups() if each and each.isdecimal()), "0")
            found = ours.format(number=number, before=int(number) - 1)
            return f"did you mean {found!r}?" if found in known else None
    return None
