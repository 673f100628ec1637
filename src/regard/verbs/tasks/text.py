"""What tasks over texts share: a tokeniser, an encoder with a head, what it says of many texts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.masking import WordDropout
from regard.data.noise import SampledTokenizer, derive_seed
from regard.data.tagged import Encode
from regard.data.texts import EncodedText, TextExamples, length_sorted_batches
from regard.data.tokenizer import Tokenizer, TokenizerPair, TokenizerSettings, train_tokenizer
from regard.errors import RecipeError
from regard.models.encoder_only import EncoderOnly, EncoderOnlyConfig
from regard.verbs.data_fingerprints import refuse_unknown
from regard.verbs.tasks.recipe import Recipe
from regard.verbs.tasks.task import TAKEN_FROM, TOKENIZERS, Say, model_config
from regard.weights.folder import verify_folder, write_folder

BATCH_TOKENS = 8192  # padded positions that are looked at together in validation and test


@dataclass(frozen=True, kw_only=True)
class WordDropoutSettings:
    """`word_dropout`: the share of words that training hides, others in each epoch."""

    word_dropout: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.word_dropout < 1:
            raise RecipeError(f"word_dropout = {self.word_dropout} is no share", "0.1 hides a tenth")


def stored_tokenizer(
    texts: Iterable[str], settings: TokenizerSettings, folder: Path, say: Say
) -> tuple[Tokenizer, dict[str, bytes]]:
    """The tokeniser of a run, trained on `texts` unless it is there already; and its file.

    Raises:
        DataError: it is that of another model, and cannot read these texts.
    """
    if (folder / TOKENIZERS).is_dir():
        manifest = verify_folder(folder / TOKENIZERS)
        tokenizer = TokenizerPair.load(folder / TOKENIZERS).source
        if TAKEN_FROM in manifest:
            refuse_unknown(texts, tokenizer, manifest[TAKEN_FROM])
    else:
        tokenizer = train_tokenizer(texts, settings.kind, settings)
        write_folder(folder / TOKENIZERS, {"tokenizer.json": tokenizer.to_bytes()})
        say(f"tokeniser: {settings.kind}, {tokenizer.vocab_size} tokens")
    return tokenizer, {"tokenizer.json": tokenizer.to_bytes()}


def segmentations(tokenizer: Tokenizer, settings: TokenizerSettings, seed: int) -> list[Encode]:
    """How training texts are cut into pieces, one way an epoch in turn: in `copies` ways with BPE-dropout."""
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
    """What `texts` gives of each segmentation, with words hidden."""
    segmented = [partial(texts, encode) for encode in segmentations(tokenizer, settings, seed)]
    noise = WordDropout(share=word_dropout, seed=seed, unk_id=tokenizer.unk_id)
    return TextExamples(segmented, tokenizer.pad_id, noise if word_dropout else None)


def encoder_config(recipe: Recipe, **sizes: Any) -> EncoderOnlyConfig:
    """The encoder that `[model]` asks for, with a head that training makes fresh no longer."""
    kind = recipe.model.get("kind", recipe.model_kind)
    if kind != EncoderOnlyConfig.kind:
        raise RecipeError(f"model.kind = {kind!r} has no head for this task", "leave model.kind out")
    return cast(EncoderOnlyConfig, model_config(recipe, fresh_head=False, **sizes))


def most_tokens(recipe: Recipe, config: EncoderOnlyConfig) -> int:
    """How long a text may be, its marks counted."""
    most = recipe.batches.max_tokens
    if config.positions == "learned":
        most = min(most, config.max_positions)
    if most < 3:
        raise RecipeError(f"{most} tokens a text leave no room beside its two marks", "look at max_tokens")
    return most


def refuse_r_drop(recipe: Recipe) -> None:
    if recipe.training.r_drop:
        raise RecipeError("training.r_drop is for translation", "leave it out")


def logits_of(
    model: EncoderOnly, texts: Sequence[EncodedText], pad_id: int, batch_tokens: int = BATCH_TOKENS
) -> list[Tensor]:
    """What the model says of each text, or of the places of each, in their order."""
    found: list[Tensor | None] = [None] * len(texts)
    with torch.no_grad():
        for numbers, batch in length_sorted_batches(texts, pad_id, batch_tokens):
            logits = model(*batch.to(model.device).inputs).float().cpu()
            counts = [1 if texts[i].places is None else len(texts[i].labels) for i in numbers]
            for number, part in zip(numbers, logits.split(counts), strict=True):
                found[number] = part
    return cast(list[Tensor], found)


def predictions_and_labels(
    model: EncoderOnly, texts: Sequence[EncodedText], pad_id: int
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """The likeliest class of each place of each text, the right one, and the mean loss of a place."""
    logits = logits_of(model, texts, pad_id)
    truth = [torch.from_numpy(text.labels) for text in texts]
    together, labels = torch.cat(logits), torch.cat(truth)
    loss = float(F.cross_entropy(together, labels)) if len(labels) else 0.0
    return [each.argmax(-1).numpy() for each in logits], [each.numpy() for each in truth], loss
