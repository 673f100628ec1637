"""Hidden words: an encoder learns a language by guessing them (Devlin et al. 2019)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
from jaxtyping import Float

from regard import console
from regard.data.corpus import LinePolicy
from regard.data.documents import Documents, DocumentSettings
from regard.data.examples import Examples
from regard.data.labelled import LabelledSettings, open_labelled, split
from regard.data.masking import Masking, MaskingSettings
from regard.data.texts import EncodedText, TextExamples, apply_noise, encoded_text
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.tokenizer_file import SPECIALS
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import bootstrap_interval
from regard.evaluation.score import Score
from regard.models.encoder_only import EncoderOnly
from regard.training.objective import LabelCrossEntropy, Objective
from regard.verbs.data_fingerprints import refuse_other_data
from regard.verbs.load_encoder import encoder_that
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import TRIAL, HeldOutData, Measured, Say, Task, held_settings
from regard.verbs.tasks.text import (
    Encode,
    encoder_config,
    most_tokens,
    predictions_and_labels,
    refuse_r_drop,
    segmentations,
    stored_tokenizer,
)
from regard.weights.model_folder import LoadedModel

Shares = Float[np.ndarray, " vocab"]  # of each token


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelSettings(MaskingSettings):
    """`[task]`: how much is hidden, tokens or whole words."""

    kind: Literal["masked_language_model"]


@dataclass(frozen=True, kw_only=True)
class MaskedDataSettings:
    """Where the text is: documents, or labelled texts whose labels are left out.

    Without `valid`, a share of the training texts is put by.
    """

    train: DocumentSettings | LabelledSettings
    valid: DocumentSettings | LabelledSettings | None = None
    test: DocumentSettings | LabelledSettings | None = None
    valid_share: float = 0.05
    lines: LinePolicy = field(default_factory=LinePolicy)

    def __post_init__(self) -> None:
        if not 0 < self.valid_share < 1:
            raise RecipeError(f"data.valid_share = {self.valid_share} is no share", "0.05 is a twentieth")


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelRecipe(Recipe):
    """Data, tokeniser, model, training."""

    model_kind: ClassVar[str] = "encoder_only"
    task: MaskedLanguageModelSettings
    data: MaskedDataSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)

    @property
    def measured(self) -> tuple[str, ...]:
        return ("accuracy",)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_r_drop(self)


class MaskedLanguageModel(Task):
    """Texts to train on, to validate on and to test on; what is hidden of the latter is always the same."""

    use = "regard train RECIPE --init ."

    def __init__(
        self,
        recipe: MaskedLanguageModelRecipe,
        parts: Mapping[str, Sequence[str]],
        tokenizer: Tokenizer,
        files: Mapping[str, bytes],
    ) -> None:
        self.recipe: MaskedLanguageModelRecipe = recipe
        self.tokenizer, self.files, self._parts = tokenizer, files, parts
        self.config = encoder_config(recipe, head="masked_language_model", vocab_size=tokenizer.vocab_size)
        self._max_tokens = most_tokens(recipe, self.config)
        self._hidden = _masking(recipe, tokenizer)
        self._train = [
            cache(partial(self._texts, "train", encode))
            for encode in segmentations(tokenizer, recipe.tokenizer, recipe.training.seed)
        ]
        self._valid, self._test = (
            apply_noise(self._hidden, self._texts(part, tokenizer.encode_words)) for part in ("valid", "test")
        )
        if not self._train[0]() or not self._valid:
            raise DataError("no known token is left to hide", "look at the files and at the tokeniser")

    def _texts(self, part: str, encode: Encode) -> list[EncodedText]:
        return _texts(self._parts.get(part, ()), self.tokenizer, encode, self._max_tokens)

    def objective(self) -> Objective:
        return LabelCrossEntropy(smoothing=self.recipe.training.label_smoothing)

    def examples(self) -> Examples:
        return TextExamples(self._train, self.tokenizer.pad_id, self._hidden)

    def validate(self, model: Any) -> dict[str, float]:
        said, truth, loss = predictions_and_labels(model, self._valid, self.tokenizer.pad_id)
        right = sum(int((ours == theirs).sum()) for ours, theirs in zip(said, truth, strict=True))
        return {"loss": loss, "accuracy": 100 * right / sum(map(len, truth))}

    def test(self, model: Any) -> list[Score]:
        """Beside what a guess by frequency alone would give."""
        if not self._test:
            return []
        shares = frequencies(self._train[0](), self.tokenizer)
        return _measured(model, self._test, self.recipe, self.tokenizer.pad_id, shares).scores


def frequencies(texts: Sequence[EncodedText], tokenizer: Tokenizer) -> Shares:
    """The share of each token in some texts, one added to each count; the unknown one is not counted."""
    ids = np.concatenate([text.ids[1:-1] for text in texts])
    counts = np.bincount(ids[ids != tokenizer.unk_id], minlength=tokenizer.vocab_size) + 1
    return counts / counts.sum()


def baseline(shares: Shares, labels: np.ndarray) -> tuple[float, float]:
    """How often the commonest training token is right, and the mean loss by frequencies."""
    return float((labels == shares.argmax()).mean()), float(-np.log(shares[labels]).mean())


def _masking(recipe: MaskedLanguageModelRecipe, tokenizer: Tokenizer) -> Masking:
    return Masking(
        settings=recipe.task,
        seed=recipe.training.seed,
        unk_id=tokenizer.unk_id,
        first_id=len(SPECIALS),
        vocab_size=tokenizer.vocab_size,
    )


def _texts(
    documents: Iterable[str], tokenizer: Tokenizer, encode: Encode, max_tokens: int
) -> list[EncodedText]:
    """Each document in texts of at most `max_tokens`; what is unknown through and through is left out."""
    return [
        encoded_text(pieces, [], tokenizer=tokenizer, line=line, max_tokens=max_tokens)
        for line, document in enumerate(documents, start=1)
        for pieces in _in_parts(encode(document), max_tokens - 2)
        if any(number != tokenizer.unk_id for word in pieces for number in word)
    ]


def _measured(
    model: EncoderOnly,
    texts: Sequence[EncodedText],
    recipe: MaskedLanguageModelRecipe,
    pad_id: int,
    shares: Shares | None,
) -> Measured:
    """How many of the hidden tokens are guessed, and the mean loss of one; what `shares` alone would give."""
    said, truth, loss = predictions_and_labels(model, texts, pad_id)
    right = [int((ours == theirs).sum()) for ours, theirs in zip(said, truth, strict=True)]
    of = [len(each) for each in truth]
    low, high = bootstrap_interval(right, of)
    unit = "word" if recipe.task.whole_words else "token"
    counted = f"hidden:{sum(of)}|texts:{len(of)}|share:{recipe.task.share}|by:{unit}"
    signature = f"{counted}|seed:{recipe.training.seed}|version:regard {version('regard')}"
    alike = {"low": None, "high": None, "signature": signature}
    accuracy = Score(
        name="masked accuracy",
        value=100 * sum(right) / sum(of),
        low=100 * low,
        high=100 * high,
        signature=signature,
    )
    masked_loss = Score(name="masked loss", value=loss, **alike)
    if shares is None:
        return Measured(scores=[accuracy, masked_loss])
    hits, entropy = baseline(shares, np.concatenate(truth))
    unigram = Score(name="unigram accuracy", value=100 * hits, **alike)
    return Measured(
        scores=[accuracy, unigram, masked_loss, Score(name="unigram loss", value=entropy, **alike)]
    )


def hold(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test texts, in which the same is hidden as at the end of training.

    The training texts are read again, for the frequencies that a guess by them alone would go by.
    """
    recipe = cast(MaskedLanguageModelRecipe, source.recipe)
    model = encoder_that("guesses hidden words", ("masked_language_model",), loaded, allow_fresh=False)
    settings, base = held_settings(recipe.data, data, source.base)
    if data is not None and isinstance(settings, DocumentSettings):
        settings = settings.whole()
    name, _, documents = _opened(settings, recipe.data.lines, base)
    tokenizer = loaded.tokenizers.source
    most = most_tokens(recipe, model.config)
    texts = _texts(documents, tokenizer, tokenizer.encode_words, most)
    if not texts:
        raise DataError(f"{name}: no known token is left to hide", "is it a text that the model can read?")
    hidden = apply_noise(_masking(recipe, tokenizer), texts)
    return HeldOutData(
        counted=f"{len(texts):,} texts",
        measure=partial(
            _measured,
            texts=hidden,
            recipe=recipe,
            pad_id=tokenizer.pad_id,
            shares=_training_frequencies(recipe, source.base, tokenizer, most),
        ),
    )


def _training_frequencies(
    recipe: MaskedLanguageModelRecipe, base: Path, tokenizer: Tokenizer, max_tokens: int
) -> Shares | None:
    """Those of the training texts, cut as training did; None where they cannot be read, which is said."""
    try:
        documents = list(_opened(recipe.data.train, recipe.data.lines, base)[2])
    except DataError as error:
        console.note(f"no unigram baseline, as the training texts cannot be read: {error.message}")
        return None
    if recipe.data.valid is None:
        documents, _ = _split_off(documents, recipe)
    encode, *_ = segmentations(tokenizer, recipe.tokenizer, recipe.training.seed)
    texts = _texts(documents, tokenizer, encode, max_tokens)
    return frequencies(texts, tokenizer) if texts else None


def _split_off(texts: Sequence[str], recipe: MaskedLanguageModelRecipe) -> tuple[list[str], list[str]]:
    """The texts to train on, and those to validate on where the recipe names no others."""
    kept, taken = split([0] * len(texts), recipe.data.valid_share, recipe.training.seed)
    return [texts[number] for number in kept], [texts[number] for number in taken]


def _in_parts(words: Sequence[list[int]], most: int) -> Iterator[list[list[int]]]:
    """Words, as many at a time as have `most` pieces together, or one that has more."""
    part: list[list[int]] = []
    held = 0
    for word in words:
        if part and held + len(word) > most:
            yield part
            part, held = [], 0
        part.append(word)
        held += len(word)
    if part:
        yield part


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> MaskedLanguageModel:
    """Read all texts; they stay in memory."""
    recipe = cast(MaskedLanguageModelRecipe, source.recipe)
    data = recipe.data
    given = {"train": data.train, "valid": data.valid, "test": data.test}
    prints: dict[str, tuple[str, str]] = {}
    parts: dict[str, list[str]] = {}
    for part, settings in given.items():
        if settings is not None:
            name, fingerprint, texts = _opened(settings, data.lines, source.base)
            prints[part], parts[part] = (name, fingerprint), list(texts)
    refuse_other_data(prints, folder)
    if "valid" not in parts:
        parts["train"], parts["valid"] = _split_off(parts["train"], recipe)
    for part, title in (("train", "training"), ("valid", "validation"), ("test", "test")):
        if part in parts:
            characters = sum(map(len, parts[part]))
            say(f"{title}: {len(parts[part]):,} texts, {characters:,} characters")
            if not parts[part]:
                raise DataError(f"data.{part} has no text", "look at the files and at data.valid_share")
    tokenizer, files = stored_tokenizer(parts["train"], recipe.tokenizer, folder, say)
    if limit is not None:
        parts = {part: each[: limit if part == "train" else TRIAL] for part, each in parts.items()}
    return MaskedLanguageModel(recipe, parts, tokenizer, files)


def _opened(
    settings: DocumentSettings | LabelledSettings, policy: LinePolicy, base: Path
) -> tuple[str, str, Iterable[str]]:
    """The name of some text, its fingerprint, and the text."""
    if isinstance(settings, DocumentSettings):
        documents = Documents(settings, base)
        return documents.name, documents.fingerprint(), documents
    corpus = open_labelled(settings, policy, base)
    return corpus.name, corpus.fingerprint(), (pair.source for pair in corpus)
