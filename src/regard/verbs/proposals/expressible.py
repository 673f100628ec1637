"""Changes a proposed recipe so that `regard export` can write its model for other engines.

Each target's own refusals judge the settings: what one refuses is replaced by the first value that it takes,
those first that the refusal names. For transformers it is the published family from which the fewest settings
differ.
"""

import dataclasses
import tomllib
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import ConfigError, UserError, did_you_mean
from regard.exports.argos_package import refuse_other_models
from regard.exports.ctranslate2_settings import refuse_other_settings
from regard.exports.gguf_settings import known as known_to_gguf
from regard.exports.gguf_tokenizer import gguf_tokenizer
from regard.exports.huggingface_settings import generating
from regard.exports.huggingface_settings import known as known_to_huggingface
from regard.exports.onnx_settings import known as known_to_onnx
from regard.exports.refusal import NotExpressible
from regard.exports.sentencepiece_file import sentencepiece_file
from regard.exports.web_tokenizers import contents_of, refuse_unread
from regard.models.build import config_class
from regard.models.config import TransformerConfig
from regard.models.registered import PARTS
from regard.recipe import read
from regard.verbs.proposals.published import RecipeChange, with_changes
from regard.verbs.shared.recipe_text import toml
from regard.weights.pretrained import nearest_families

KINDS = {"translation": "encoder_decoder", "language_model": "decoder_only"}  # task -> kind of model
OF_ENCODERS: Mapping[str, tuple[str, ...]] = dict.fromkeys(  # task -> targets, which have all of its settings
    ("classification", "regression", "tagging", "masked_language_model"), ("onnx", "web")
)
TEXT = "A tokeniser of each kind learns from this text, and the targets say whether they can have it."
MOST_CHANGES, MOST_ROUNDS = 20, 4
# T5's scores have no scale: they need smaller weights at the start, which a recipe cannot set. With the usual
# ones a model of its shape had learnt next to nothing when one with the usual scale had a BLEU of 78.
INITIALISED = "attention_scale"
Table = dict[str, Any]  # a recipe
Judge = Callable[[TransformerConfig, TokenizerPair], None]  # raises NotExpressible, or UserError


def _judge_argos(config: TransformerConfig, tokenizers: TokenizerPair) -> None:
    refuse_other_settings(config)
    refuse_other_models(config, {}, tokenizers)
    sentencepiece_file(tokenizers.source)


def _judge_gguf(config: TransformerConfig, tokenizers: TokenizerPair) -> None:
    known_to_gguf(config)
    gguf_tokenizer(tokenizers.target, begins=False)


def _judge_huggingface(config: TransformerConfig, _: TokenizerPair) -> None:
    """What a published family has need not be in the exported code."""
    fits = any(not changes for _, changes in nearest_families(config))
    generating(config) if fits else known_to_huggingface(config)


def _judge_web(config: TransformerConfig, tokenizers: TokenizerPair) -> None:
    known_to_onnx(config)
    refuse_unread(contents_of(tokenizers))


JUDGES: Mapping[str, Judge] = {
    "ctranslate2": lambda config, _: refuse_other_settings(config) and None,
    "onnx": lambda config, _: known_to_onnx(config) and None,
    "web": _judge_web,
    "argos": _judge_argos,
    "gguf": _judge_gguf,
    "hf": _judge_huggingface,
}


@dataclasses.dataclass(frozen=True)
class Fitted:
    """The text of a recipe for some targets, and what was changed for them, a line each."""

    text: str
    notes: tuple[str, ...]


def refuse_targets(targets: Sequence[str], task: str) -> None:
    """Raise a UserError for a target that does not exist, or that has no models of this task."""
    for target in targets:
        if target not in JUDGES:
            raise UserError(f"there is no target {target!r} of an export", did_you_mean(target, JUDGES))
        if task not in KINDS and target not in (known := OF_ENCODERS.get(task, ())):
            possible = f"for {' and '.join(known)} it can" if known else "leave the target out"
            raise UserError(
                f"for {target}: a model for the task {task} generates nothing, and cannot be exported",
                f"{possible}; regard convert --to hf writes the model, if a family fits",
            )


def fitted_to(text: str, task: str, targets: Sequence[str]) -> Fitted:
    """The recipe with settings that each of these targets of `regard export` can express.

    Raises:
        UserError: a target has no such models, or no value of a setting that it can express.
    """
    refuse_targets(targets, task)
    if task in OF_ENCODERS:
        return Fitted(text, tuple(f"for {target}: {_listed({})}" for target in targets))
    table, changes, notes = tomllib.loads(text), dict[str, Any](), list[str]()
    if "hf" in targets:
        family, changes = _of_a_family(table, task)
        table = _with(table, changes)
        notes.append(
            f"for hf: {_listed(changes)}, as a model of the family {family} has"
            if family
            else "for hf: no published family is near; the model leaves with its code"
        )
    for target in targets:
        own = dict[str, Any]()
        while (refusal := _refusal(table, task, target)) is not None:
            if len(own) == MOST_CHANGES:
                raise refusal
            name, value = _accepted(table, task, target, refusal)
            own[name] = value
            table = _with(table, {name: value})
        changes |= own
        if target != "hf" or own:
            notes.append(f"for {target}: {_listed(own)}")
    if "hf" in targets and _of_a_family(table, task)[1]:
        raise UserError(
            "no settings fit a published family of transformers and the other targets",
            "leave hf out: the export to it then has the model's code",
        )
    described = {
        name: RecipeChange(value=value, comment=f"for {', '.join(targets)}")
        for name, value in changes.items()
    }
    return Fitted(with_changes(text, described), tuple(notes))


def _listed(changes: Mapping[str, Any]) -> str:
    if not changes:
        return "all settings as proposed"
    return ", ".join(
        f"{name} {'left out' if value is None else f'= {value!r}'}" for name, value in changes.items()
    )


def _with(table: Table, changes: Mapping[str, Any]) -> Table:
    """The recipe with other values, by "section.key"; None removes a key."""
    changed = {name: dict(each) if isinstance(each, dict) else each for name, each in table.items()}
    for name, value in changes.items():
        section, key = name.split(".")
        changed[section].pop(key, None)
        if value is not None:
            changed[section][key] = value
    return changed


def _trial(table: Table, task: str) -> tuple[TransformerConfig, TokenizerPair]:
    """The config of a recipe's model, and tokenisers as it trains them, from a short text."""
    settings = read(TokenizerSettings, {**table["tokenizer"], "vocab_size": 100})
    own = train_tokenizer([TEXT], settings.kind, settings)
    if task == "language_model":
        tokenizers = TokenizerPair(own, own)
        sizes = {"vocab_size": own.vocab_size}
    else:
        other = (
            own
            if settings.joint
            else train_tokenizer([TEXT[::-1] + "0123"], settings.target_kind or settings.kind, settings)
        )
        tokenizers = TokenizerPair(own, other)
        sizes = {"src_vocab_size": own.vocab_size, "tgt_vocab_size": other.vocab_size}
    config = config_class(KINDS[task]).from_table(table["model"], **sizes)
    assert isinstance(config, TransformerConfig)
    return config, tokenizers


def _refusal(table: Table, task: str, target: str) -> NotExpressible | None:
    """What a target refuses of a recipe; None if it can express all."""
    try:
        JUDGES[target](*_trial(table, task))
    except NotExpressible as refusal:
        return refusal
    return None


def _accepted(table: Table, task: str, target: str, refusal: NotExpressible) -> tuple[str, Any]:
    """The setting that was refused, as "section.key", and a value that the target takes."""
    settings = {"model": config_class(KINDS[task]), "tokenizer": TokenizerSettings}
    for section, kind in settings.items():
        fields = {field.name: field for field in dataclasses.fields(kind)}
        if (field := fields.get(refusal.setting)) is None:
            continue
        choices = [None, *_choices(typing.get_type_hints(kind)[field.name], field.name)]
        for value in sorted(choices, key=lambda each: _place(each, refusal)):
            try:
                again = _refusal(_with(table, {f"{section}.{field.name}": value}), task, target)
            except ConfigError:
                continue
            if again is None or again.setting != refusal.setting:
                return f"{section}.{field.name}", value
    raise refusal


def _place(value: Any, refusal: NotExpressible) -> int:
    """Where the refusal names a value; others come after those that it names, the usual one first."""
    hint = refusal.hint or ""
    if value is None:
        return len(hint)
    places = [hint.find(spelled) for spelled in {repr(value), toml(value)} if spelled in hint]
    return min(places, default=len(hint))


def _choices(hint: Any, name: str) -> Iterator[Any]:
    """The values of a setting, as far as its type has few."""
    if name in PARTS:
        yield from PARTS[name].own
    elif typing.get_origin(hint) is typing.Literal:
        yield from typing.get_args(hint)
    elif hint is bool:
        yield from (False, True)
    elif typing.get_origin(hint) in (typing.Union, types.UnionType):
        for each in typing.get_args(hint):
            yield from _choices(each, name)


def _of_a_family(table: Table, task: str) -> tuple[str | None, dict[str, Any]]:
    """The published family that is the nearest to a recipe, and what has to change for it."""
    for family, _ in nearest_families(_trial(table, task)[0]):
        changes = _changes_for(family, table, task)
        if changes is None or f"model.{INITIALISED}" in changes:
            continue
        for name in list(changes):  # one may follow from the others
            fewer = {other: value for other, value in changes.items() if other != name}
            changes = fewer if _is_of(family, _with(table, fewer), task) else changes
        return family, changes
    return None, {}


def _changes_for(family: str, table: Table, task: str) -> dict[str, Any] | None:
    """What has to change so that a family has models of a recipe's settings; None if that is not enough."""
    changes = dict[str, Any]()
    for _ in range(MOST_ROUNDS):  # a changed setting may bring others into play
        try:
            nearest = dict(nearest_families(_trial(_with(table, changes), task)[0])).get(family)
        except ConfigError:
            return None
        if not nearest:
            return None if nearest is None else changes
        changes |= {f"model.{name}": value for name, value in nearest.items()}
    return None


def _is_of(family: str, table: Table, task: str) -> bool:
    """True if a family has models of a recipe's settings."""
    try:
        return dict(nearest_families(_trial(table, task)[0])).get(family) == {}
    except ConfigError:
        return False
