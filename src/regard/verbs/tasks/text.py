"""What tasks over texts share: the run's tokeniser, an encoder with a head, its predictions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.masking import WordDropout
from regard.data.noise import SampledTokenizer, derive_seed
from regard.data.tagged import Encode
from regard.data.texts import EncodedText, TextExamples, length_sorted_batches
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_training import (
    WHOLE_WORDS,
    TokenizerSettings,
    refuse_target_settings,
    train_tokenizer,
)
from regard.errors import RecipeError
from regard.models.encoder_only import EncoderOnly, EncoderOnlyConfig
from regard.verbs.tasks.pretrained_tokenizers import pretrained_tokenizers
from regard.verbs.tasks.recipe import Recipe
from regard.verbs.tasks.task import TOKENIZERS_FOLDER, Say, model_config
from regard.verbs.training_run.data_checks import refuse_unknown_words
from regard.weights.folder import write_folder

BATCH_TOKENS = 8192  # padded tokens in a batch of validation and test


@dataclass(frozen=True, kw_only=True)
class WordDropoutSettings:
    """`word_dropout`: the share of words that training masks, chosen again in each epoch."""

    word_dropout: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.word_dropout < 1:
            raise RecipeError(
                f"word_dropout must be 0 or more and below 1, not {self.word_dropout}", "0.1 masks a tenth"
            )


@dataclass(frozen=True, kw_only=True)
class TextRecipe(Recipe):
    """Recipe of a task in which an encoder reads texts."""

    model_kind: ClassVar[str] = "encoder_only"
    task: Any
    data: Any
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_target_settings(self.tokenizer)


def load_or_train_tokenizer(
    texts: Iterable[str], settings: TokenizerSettings, folder: Path, base: Path, say: Say
) -> tuple[Tokenizer, dict[str, bytes]]:
    """The tokeniser in a run's folder, trained on `texts` if there is none yet; and its file.

    Raises:
        DataError: it was copied from a pretrained model and does not know these texts' characters, or it
            has whole words as tokens and most of the texts' are unknown.
    """
    if (folder / TOKENIZERS_FOLDER).is_dir():
        own = folder / TOKENIZERS_FOLDER
        tokenizer = pretrained_tokenizers(own, [texts], settings.extension, base, say).source
    else:
        texts = list(texts) if settings.kind in WHOLE_WORDS else texts  # they are read twice
        tokenizer = train_tokenizer(texts, settings.kind, settings)
        unknown = ""
        if settings.kind in WHOLE_WORDS:
            unknown = f"; {refuse_unknown_words(texts, tokenizer):.1%} of the training text's are unknown"
        write_folder(folder / TOKENIZERS_FOLDER, {"tokenizer.json": tokenizer.to_bytes()})
        say(f"tokeniser: {settings.kind}, {tokenizer.vocab_size} tokens{unknown}")
    return tokenizer, {"tokenizer.json": tokenizer.to_bytes()}


def segmentations(tokenizer: Tokenizer, settings: TokenizerSettings, seed: int) -> list[Encode]:
    """The segmentations of the training texts, used by epochs in turn: `copies` of them with BPE-dropout."""
    if not settings.dropout:
        return [tokenizer.encode_words]
    return [
        SampledTokenizer(tokenizer, settings.dropout, derive_seed(seed, copy)).encode_words
        for copy in range(settings.copies)
    ]


def training_examples(
    texts: Callable[[Encode], list[EncodedText]],
    tokenizer: Tokenizer,
    settings: TokenizerSettings,
    *,
    word_dropout: float,
    seed: int,
) -> TextExamples:
    """The training texts in each segmentation, with word dropout."""
    segmented = [partial(texts, encode) for encode in segmentations(tokenizer, settings, seed)]
    noise = WordDropout(share=word_dropout, seed=seed, unk_id=tokenizer.unk_id)
    return TextExamples(segmented, tokenizer.pad_id, noise if word_dropout else None)


def encoder_config(recipe: Recipe, **sizes: Any) -> EncoderOnlyConfig:
    """The encoder that `[model]` describes; its head counts as trained."""
    return cast(EncoderOnlyConfig, model_config(recipe, fresh_head=False, **sizes))


def max_text_tokens(recipe: Recipe, config: EncoderOnlyConfig) -> int:
    """The most tokens that a text may have, its two special tokens included."""
    limit = recipe.batches.max_tokens
    if config.positions == "learned":
        limit = min(limit, config.max_positions)
    if limit < 3:
        raise RecipeError(
            f"{limit} tokens a text leave no room for words after the two special tokens",
            "raise batches.max_tokens",
        )
    return limit


def logits_of(
    model: EncoderOnly, texts: Sequence[EncodedText], pad_id: int, batch_tokens: int = BATCH_TOKENS
) -> list[Tensor]:
    """The logits of each text, or of each labelled position of a text, in the order of `texts`."""
    found = dict(logits_in_batches(model, texts, pad_id, batch_tokens))
    return [found[number] for number in range(len(texts))]


def logits_in_batches(
    model: EncoderOnly, texts: Sequence[EncodedText], pad_id: int, batch_tokens: int = BATCH_TOKENS
) -> Iterator[tuple[int, Tensor]]:
    """The numbers of texts from 0, sorted by length, and their logits, of which few are kept at a time."""
    for numbers, batch in length_sorted_batches(texts, pad_id, batch_tokens):
        with torch.no_grad():
            batch_logits = model(*batch.to(model.device).inputs).float().cpu()
        counts = [1 if texts[i].places is None else len(texts[i].labels) for i in numbers]
        yield from zip(numbers, batch_logits.split(counts), strict=True)


def predictions_and_labels(
    model: EncoderOnly, texts: Sequence[EncodedText], pad_id: int
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """The predicted classes and the true classes of each text, and the mean loss of a prediction."""
    logits = logits_of(model, texts, pad_id)
    labels = [torch.from_numpy(text.labels) for text in texts]
    all_logits, all_labels = torch.cat(logits), torch.cat(labels)
    loss = float(F.cross_entropy(all_logits, all_labels)) if len(all_labels) else 0.0
    return [each.argmax(-1).numpy() for each in logits], [each.numpy() for each in labels], loss
