"""What an encoder with a head reads of a text: ids, and positions at which something is predicted."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.masked_text import SPELLINGS, in_context, mask_id, split_at_masks
from regard.data.tagged import encode_word, split_words, word_prefix
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.exports.refusal import NotExpressible
from regard.models.build import base_kind
from regard.models.config import ModelConfig
from regard.models.encoder_only import EncoderOnlyConfig

HEADS = ("classification", "regression", "tokens", "masked_language_model")  # that can be exported
OF_CLASSES = ("classification", "tokens", "masked_language_model")  # whose outputs are logits of classes


@dataclass(frozen=True, kw_only=True)
class ReadText:
    """The ids of a text from <s> to </s>; `places` are the predicted positions, None for the whole text."""

    ids: list[int]
    places: list[int] | None


def refuse_other_heads(engine: str, config: ModelConfig) -> EncoderOnlyConfig:
    """The config, if its head can be exported.

    Raises:
        NotExpressible: it has another head, or one that was never trained.
        UserError: a registered model has these settings, and is not one of regard's encoders.
    """
    assert isinstance(config, EncoderOnlyConfig)
    if base_kind(config) is None:
        raise UserError(
            f"{config.kind} models cannot be exported to {engine}",
            "encoder_only models can, and those that inherit from them",
        )
    if config.head not in HEADS:
        raise NotExpressible(engine, "head", config.head, f"{', '.join(HEADS)} can be exported")
    if config.fresh_head:
        raise NotExpressible(
            engine, "fresh_head", True, "its outputs are random: train it with `regard train`"
        )
    return config


def read_text(head: str, tokenizer: Tokenizer, text: str) -> ReadText:
    """A text as `regard classify`, `regard tag` or `regard fill` reads it."""
    text = text.strip()
    places: list[int] | None = None
    if head == "tokens":
        before, words = word_prefix(tokenizer), split_words(text)
        parts = [encode_word(word, encode=tokenizer.encode_words, prefix=before) for word in words]
        parts = [part or [tokenizer.unk_id] for part in parts]
        places = [1 + sum(map(len, parts[:number])) for number in range(len(parts))]
    elif head == "masked_language_model":
        first, *others = in_context(tokenizer, split_at_masks(tokenizer, text))
        parts, places = [first], []
        for ids in others:
            places.append(1 + sum(map(len, parts)))
            parts += [[mask_id(tokenizer)], ids]
    else:
        parts = tokenizer.encode_words(text)
    ids = [number for part in parts for number in part]
    return ReadText(ids=[tokenizer.bos_id, *ids, tokenizer.eos_id], places=places)


def with_masks(texts: Sequence[str]) -> list[str]:
    """The texts, each with a mask in place of the word in its middle."""
    found = []
    for text in texts:
        words = text.split()
        words[len(words) // 2] = SPELLINGS[0]
        found.append(" ".join(words))
    return found


def refuse_no_texts(texts: Sequence[ReadText]) -> None:
    """Raise a UserError if nothing is compared."""
    if not texts:
        raise UserError(
            "there are no texts to compare the engines by",
            "give a file of texts that fit the model's positions",
        )
