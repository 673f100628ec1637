"""Masked language modelling: an encoder predicts masked tokens (Devlin et al. 2019)."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
from jaxtyping import Float

from regard import console
from regard.data.corpus import Corpus, LinePolicy
from regard.data.corpus_mixture import Mixture, chosen_mixture, described, names_of
from regard.data.document_mixture import (
    DocumentMixture,
    MixedDocumentSettings,
    document_corpora,
    open_documents,
)
from regard.data.documents import Documents, DocumentSettings
from regard.data.examples import Examples
from regard.data.labelled import LabelledSettings, open_labelled, split
from regard.data.masking import Masking, MaskingSettings
from regard.data.mixed_texts import MixedTexts
from regard.data.texts import EncodedText, TextExamples, apply_noise, encoded_text
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_file import SPECIALS
from regard.data.tokenizer_training import WITHOUT_WORDS
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import bootstrap_interval
from regard.evaluation.score import FineScore, Score, version_fact
from regard.models.encoder_only import EncoderOnly
from regard.training.objective import LabelCrossEntropy, Objective
from regard.verbs.shared.load_encoder import encoder_that
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import HeldOutData, Say, ScoreReport, Task, settings_of_test_data
from regard.verbs.tasks.text import (
    Encode,
    TextRecipe,
    encoder_config,
    load_or_train_tokenizer,
    max_text_tokens,
    predictions_and_labels,
    segmentations,
)
from regard.verbs.tasks.validation_split import PART_NAMES, ValidationSplit, examples_kept, settings_by_part
from regard.verbs.training_run.data_checks import refuse_other_data
from regard.weights.model_folder import LoadedModel

Frequencies = Float[np.ndarray, " vocab"]  # the share of each token in some texts, by its id


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelSettings(MaskingSettings):
    """`[task]`: the share of tokens to mask, and whether whole words are masked."""

    kind: Literal["masked_language_model"]  # the task


@dataclass(frozen=True, kw_only=True)
class MaskedDataSettings(ValidationSplit):
    """`[data]`: documents, or labelled texts without their labels.

    Without `valid`, a share of the training texts is held out, of each of several corpora.
    """

    train: DocumentSettings | LabelledSettings | tuple[MixedDocumentSettings, ...]  # one corpus, or several
    # of several corpora without weights: 1 reads each text once an epoch, 5 those of small ones more often
    mixture_temperature: float | None = None
    valid: DocumentSettings | LabelledSettings | None = None
    test: DocumentSettings | LabelledSettings | None = None
    valid_share: float = 0.05
    lines: LinePolicy = field(default_factory=LinePolicy)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.mixture  # noqa: B018 (refused here if it cannot be)

    @property
    def mixture(self) -> Mixture | None:
        """How several corpora are mixed; None for one."""
        return chosen_mixture(self.train, self.mixture_temperature, unit="text")


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelRecipe(TextRecipe):
    """Recipe of a masked language model: data, tokeniser, model, training."""

    measured: ClassVar[tuple[str, ...]] = ("accuracy",)
    task: MaskedLanguageModelSettings
    data: MaskedDataSettings


class MaskedLanguageModel(Task):
    """Training, validation and test texts. Each validation, and each test, masks the same tokens."""

    use = "regard train RECIPE --init ."

    def __init__(
        self,
        recipe: MaskedLanguageModelRecipe,
        parts: Mapping[str, Sequence[str]],
        tokenizer: Tokenizer,
        files: Mapping[str, bytes],
        documents: Sequence[int] = (),
    ) -> None:
        """`documents`: how many of the training texts are of each corpus, one after the other."""
        self.recipe: MaskedLanguageModelRecipe = recipe
        self.tokenizer, self.files, self._parts = tokenizer, files, parts
        self.config = encoder_config(recipe, head="masked_language_model", vocab_size=tokenizer.vocab_size)
        self._max_tokens = max_text_tokens(recipe, self.config)
        self._masking = _masking(recipe, tokenizer)
        self._train = [
            cache(partial(self._texts, "train", encode))
            for encode in segmentations(tokenizer, recipe.tokenizer, recipe.training.seed)
        ]
        self._valid, self._test = (
            apply_noise(self._masking, self._texts(part, tokenizer.encode_words))
            for part in ("valid", "test")
        )
        if not self._train[0]() or not self._valid:
            raise DataError("there is no known token to mask", "look at the files and at the tokeniser")
        ends = np.cumsum(documents)  # of each corpus, as the numbers of documents
        corpora = np.searchsorted(ends, [text.line for text in self._train[0]()])
        # how many texts each corpus has, into which long documents are cut
        self.sizes: list[int] = np.bincount(corpora, minlength=len(ends)).tolist() if len(ends) else []

    def _texts(self, part: str, encode: Encode) -> list[EncodedText]:
        return _texts(self._parts.get(part, ()), self.tokenizer, encode, self._max_tokens)

    def objective(self) -> Objective:
        return LabelCrossEntropy(smoothing=self.recipe.training.label_smoothing)

    def examples(self) -> Examples:
        given = self._train, self.tokenizer.pad_id, self._masking
        mixture = self.recipe.data.mixture
        return (
            TextExamples(*given) if mixture is None else MixedTexts(*given, sizes=self.sizes, mixture=mixture)
        )

    def validate(self, model: Any) -> dict[str, float]:
        predictions, labels, loss = predictions_and_labels(model, self._valid, self.tokenizer.pad_id)
        return {"loss": loss, "accuracy": 100 * sum(_correct(predictions, labels)) / sum(map(len, labels))}

    def test(self, model: Any) -> list[Score]:
        """The model's accuracy (%) and loss (nats) on masked tokens, and those of the unigram baseline."""
        if not self._test:
            return []
        frequencies = token_frequencies(self._train[0](), self.tokenizer)
        return _evaluate(model, self._test, self.recipe, self.tokenizer.pad_id, frequencies).scores


def _correct(predictions: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> list[int]:
    """The number of correct predictions in each text."""
    return [int((own == true).sum()) for own, true in zip(predictions, labels, strict=True)]


def token_frequencies(texts: Sequence[EncodedText], tokenizer: Tokenizer) -> Frequencies:
    """The share of each token in some texts, with add-one smoothing; occurrences of <unk> do not count."""
    ids = np.concatenate([text.ids[1:-1] for text in texts])
    counts = np.bincount(ids[ids != tokenizer.unk_id], minlength=tokenizer.vocab_size) + 1
    return counts / counts.sum()


def unigram_baseline(frequencies: Frequencies, labels: np.ndarray) -> tuple[float, float]:
    """The accuracy (0 to 1) of always predicting the most frequent training token, and the loss in nats.

    The loss is the mean of -log(share of the true token in the training texts).
    """
    return float((labels == frequencies.argmax()).mean()), float(-np.log(frequencies[labels]).mean())


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
    """Each document, cut into texts of at most `max_tokens`, two special tokens included.

    Texts without a known token are left out: they have none to mask.
    """
    return [
        encoded_text(pieces, [], tokenizer=tokenizer, line=line, max_tokens=max_tokens)
        for line, document in enumerate(documents, start=1)
        for pieces in _cut(encode(document), max_tokens - 2)
        if any(number != tokenizer.unk_id for word in pieces for number in word)
    ]


def _evaluate(
    model: EncoderOnly,
    texts: Sequence[EncodedText],
    recipe: MaskedLanguageModelRecipe,
    pad_id: int,
    frequencies: Frequencies | None,
) -> ScoreReport:
    """The model's accuracy (%) and mean loss (nats) on the masked tokens of `texts`.

    With the `frequencies` of the training texts those of the unigram baseline are there too.
    """
    predictions, labels, loss = predictions_and_labels(model, texts, pad_id)
    correct, totals = _correct(predictions, labels), [len(each) for each in labels]
    low, high = bootstrap_interval(correct, totals)
    unit = "word" if recipe.task.whole_words else "token"
    examples = f"hidden:{sum(totals)}|texts:{len(totals)}|share:{recipe.task.share}|by:{unit}"
    signature = f"{examples}|seed:{recipe.training.seed}|{version_fact()}"
    without_interval = {"low": None, "high": None, "signature": signature}
    accuracy = Score(
        name="masked accuracy",
        value=100 * sum(correct) / sum(totals),
        low=100 * low,
        high=100 * high,
        signature=signature,
    )
    masked_loss = FineScore(name="masked loss", value=loss, **without_interval)
    if frequencies is None:
        return ScoreReport(scores=[accuracy, masked_loss])
    share, entropy = unigram_baseline(frequencies, np.concatenate(labels))
    unigram = Score(name="unigram accuracy", value=100 * share, **without_interval)
    unigram_loss = FineScore(name="unigram loss", value=entropy, **without_interval)
    return ScoreReport(scores=[accuracy, unigram, masked_loss, unigram_loss])


def open_test_data(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test texts, with the same tokens masked as in the test at the end of training.

    `data` is a file that replaces the recipe's test data. The training texts are read too, for the token
    frequencies of the unigram baseline.

    Raises:
        DataError: no text has a known token.
    """
    recipe = cast(MaskedLanguageModelRecipe, source.recipe)
    model = encoder_that("predicts masked tokens", ("masked_language_model",), loaded, allow_fresh=False)
    settings, base = settings_of_test_data(recipe, loaded, data, source.base)
    if data is not None and isinstance(settings, DocumentSettings):
        settings = settings.whole()
    corpus, (documents,) = _open(settings, recipe.data.lines, base)
    tokenizer = loaded.tokenizers.source
    max_tokens = max_text_tokens(recipe, model.config)
    texts = _texts(documents, tokenizer, tokenizer.encode_words, max_tokens)
    if not texts:
        raise DataError(
            f"{corpus.name}: there is no known token to mask", "give a text in the language of the model"
        )
    masked = apply_noise(_masking(recipe, tokenizer), texts)
    return HeldOutData(
        size=f"{len(texts):,} texts",
        evaluate=partial(
            _evaluate,
            texts=masked,
            recipe=recipe,
            pad_id=tokenizer.pad_id,
            frequencies=_training_frequencies(recipe, source.base, tokenizer, max_tokens),
        ),
    )


def _training_frequencies(
    recipe: MaskedLanguageModelRecipe, base: Path, tokenizer: Tokenizer, max_tokens: int
) -> Frequencies | None:
    """The token frequencies of the training texts; None, after a note, if the texts cannot be read."""
    try:
        corpora = [*map(list, _open(recipe.data.train, recipe.data.lines, base)[1])]
    except DataError as error:
        console.note(f"no unigram baseline, as the training texts cannot be read: {error.message}")
        return None
    if recipe.data.valid is None:
        corpora = [_split(texts, recipe)[0] for texts in corpora]
    documents = _all(corpora)
    encode, *_ = segmentations(tokenizer, recipe.tokenizer, recipe.training.seed)
    texts = _texts(documents, tokenizer, encode, max_tokens)
    return token_frequencies(texts, tokenizer) if texts else None


def _split(texts: Sequence[str], recipe: MaskedLanguageModelRecipe) -> tuple[list[str], list[str]]:
    """The training texts, split by `data.valid_share` into those to train on and those to validate on."""
    kept, held_out = split([0] * len(texts), recipe.data.valid_share, recipe.training.seed)
    return [texts[number] for number in kept], [texts[number] for number in held_out]


def _cut(words: Sequence[list[int]], max_pieces: int) -> Iterator[list[list[int]]]:
    """The words in parts of at most `max_pieces` pieces; a longer word is cut into several.

    Text without spaces, such as Chinese, may be one word.
    """
    part: list[list[int]] = []
    length = 0
    pieces = (word[start : start + max_pieces] for word in words for start in range(0, len(word), max_pieces))
    for word in pieces:
        if part and length + len(word) > max_pieces:
            yield part
            part, length = [], 0
        part.append(word)
        length += len(word)
    if part:
        yield part


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> MaskedLanguageModel:
    """Read all texts into memory, and train the tokeniser unless `folder` has one.

    `limit`: the most training texts that are kept, for a dry run.

    Raises:
        RecipeError: whole words are masked, and the tokeniser has none.
        DataError: a file cannot be read, or a part of the data has no text or no known token.
    """
    recipe = cast(MaskedLanguageModelRecipe, source.recipe)
    if recipe.task.whole_words and recipe.tokenizer.kind in WITHOUT_WORDS:
        raise RecipeError(
            f"task.whole_words = true, but for tokenizer.kind = {recipe.tokenizer.kind!r} a text is one word",
            "give task.whole_words = false, or another tokenizer.kind",
        )
    parts, names = _read(recipe, source.base, folder)
    for part, name in PART_NAMES.items():
        if part in parts:
            texts = _all(parts[part])
            say(f"{name}: {len(texts):,} texts, {sum(map(len, texts)):,} characters")
            if not texts:
                raise DataError(f"data.{part} has no text", "look at the files and at data.valid_share")
    trained_on = _all(parts["train"])
    tokenizer, files = load_or_train_tokenizer(trained_on, recipe.tokenizer, folder, source.base, say)
    if limit is not None:
        for part, each in parts.items():
            most = -(-(examples_kept(part, limit) or 0) // len(each))  # an equal share of each corpus
            parts[part] = [texts[:most] for texts in each]
    sizes = [*map(len, parts["train"])]
    task = MaskedLanguageModel(
        recipe, {part: _all(each) for part, each in parts.items()}, tokenizer, files, sizes
    )
    if (mixture := recipe.data.mixture) is not None:
        for name, size in zip(names, task.sizes, strict=True):
            if not size:
                raise DataError(f"{name}: no text is left to train on", "leave this corpus out of data.train")
        for line in described(mixture, names, task.sizes) if limit is None else ():
            say(line)
    return task


def _read(
    recipe: MaskedLanguageModelRecipe, base: Path, folder: Path
) -> tuple[dict[str, list[list[str]]], list[str]]:
    """The texts of each part, by corpus, and the names of the training corpora of a mixture.

    Raises:
        DataError: a file cannot be read. FolderError: one has changed since `folder` was made.
    """
    fingerprints: dict[str, tuple[str, str]] = {}
    parts: dict[str, list[list[str]]] = {}
    names: list[str] = []
    for part, settings in settings_by_part(recipe.data).items():
        corpus, texts = _open(settings, recipe.data.lines, base)
        fingerprints[part], parts[part] = (corpus.name, corpus.fingerprint()), [*map(list, texts)]
        if part == "train" and isinstance(corpus, DocumentMixture):
            names = names_of(corpus.corpora)
    refuse_other_data(fingerprints, folder)
    if "valid" not in parts:
        halves = [_split(texts, recipe) for texts in parts["train"]]
        parts["train"], parts["valid"] = [kept for kept, _ in halves], [held for _, held in halves]
    return parts, names


def _all(texts: Iterable[Iterable[str]]) -> list[str]:
    """The texts of all corpora."""
    return [*itertools.chain.from_iterable(texts)]


def _open(
    settings: DocumentSettings | LabelledSettings | tuple[MixedDocumentSettings, ...],
    policy: LinePolicy,
    base: Path,
) -> tuple[Documents | DocumentMixture | Corpus, Sequence[Iterable[str]]]:
    """A corpus of documents or of labelled texts, or several, and the texts of each."""
    if isinstance(settings, DocumentSettings | tuple):
        documents = open_documents(settings, base)
        return documents, document_corpora(documents)
    corpus = open_labelled(settings, policy, base)
    return corpus, [(pair.source for pair in corpus)]
