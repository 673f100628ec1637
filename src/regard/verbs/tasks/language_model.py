"""Language modelling: running text goes on; what follows each token is learned from what is before it."""

import dataclasses
import itertools
import math
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import torch

from regard.data.documents import Documents, DocumentSettings
from regard.data.examples import Examples
from regard.data.loader import Loader
from regard.data.token_stream import TokenStream, limit_characters, parts, write_stream
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.windows import PackedExamples, WindowExamples, scoring_batches
from regard.decoding.continuation import ContinuationSettings
from regard.errors import RecipeError
from regard.evaluation.score import Score
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.training.collapse import target_entropy
from regard.training.objective import NextToken, Objective
from regard.verbs.box import model_that
from regard.verbs.data_fingerprints import refuse_other_data
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import HeldOutData, Measured, Say, Task, held_settings, model_config
from regard.verbs.tasks.text import refuse_r_drop, stored_tokenizer
from regard.weights.model_folder import LoadedModel
from regard.weights.strict_json import json_bytes

PARTS = ("train", "valid", "test")
TRIAL_CHARACTERS = {"train": 200_000, "valid": 4000, "test": 4000}  # of a dry run


@dataclass(frozen=True, kw_only=True)
class LanguageModelSettings:
    """`[task]`. `block`: tokens that are read together.

    `apart`: the documents in a block do not see each other, and positions begin anew in each; else text runs
    on from one document to the next.
    """

    kind: Literal["language_model"]
    block: int = 256
    apart: bool = False

    def __post_init__(self) -> None:
        if self.block < 2:
            raise RecipeError(f"task.block = {self.block} leaves nothing to look back at", "give 2 or more")


@dataclass(frozen=True, kw_only=True)
class LanguageDataSettings:
    """Where the text is."""

    train: DocumentSettings
    valid: DocumentSettings
    test: DocumentSettings | None = None

    def __post_init__(self) -> None:
        given = [(part, getattr(self, part)) for part in PARTS if getattr(self, part) is not None]
        for (one, first), (other, second) in itertools.combinations(given, 2):
            if first.overlaps(second):
                raise RecipeError(
                    f"data.{one} and data.{other} have text in common",
                    "give each a share of its own: [0.0, 0.9] and [0.9, 1.0]",
                )


@dataclass(frozen=True, kw_only=True)
class LanguageValidationSettings:
    """How text is scored. `context`: so many tokens at least stand before each that is predicted.

    (But for the first of a text.) 0: text is cut into blocks end to end, as nanoGPT does it: the first token
    of each is predicted from one. Without, it is half a block.
    """

    context: int | None = None
    batch_tokens: int = 4096

    def __post_init__(self) -> None:
        if self.context is not None and self.context < 0:
            raise RecipeError(f"validation.context must be 0 or more, not {self.context}", "0 is nanoGPT's")
        if self.batch_tokens < 1:
            raise RecipeError(
                f"validation.batch_tokens must be 1 or more, not {self.batch_tokens}", "4096 is usual"
            )


@dataclass(frozen=True, kw_only=True)
class LanguageModelRecipe(Recipe):
    """Data, tokeniser, model, training, validation, decoding."""

    model_kind: ClassVar[str] = "decoder_only"
    task: LanguageModelSettings
    data: LanguageDataSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    validation: LanguageValidationSettings = field(default_factory=LanguageValidationSettings)
    decoding: ContinuationSettings = field(default_factory=ContinuationSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_r_drop(self)
        if self.tokenizer.dropout:
            raise RecipeError("tokenizer.dropout is for pairs and labelled texts", "leave it out")
        if self.context >= self.task.block:
            raise RecipeError(
                f"validation.context = {self.context} leaves none of a block of {self.task.block} to predict",
                f"give less than task.block, {self.task.block // 2} for instance",
            )

    @property
    def context(self) -> int:
        given = self.validation.context
        return self.task.block // 2 if given is None else given


@dataclass(frozen=True, kw_only=True)
class TextScore:
    """How well a model foretells a text, each of its tokens once."""

    nll: float  # nats, of all tokens together
    tokens: int  # marks counted
    characters: int
    bytes: int

    def metrics(self) -> dict[str, float]:
        """`loss` in nats a token; the bits are of the text as it was before any tokeniser."""
        return {
            "loss": self.nll / self.tokens,
            "perplexity": math.exp(min(self.nll / self.tokens, 700.0)),
            "bits_per_character": self.nll / math.log(2) / self.characters,
            "bits_per_byte": self.nll / math.log(2) / self.bytes,
        }


def score_text(
    model: DecoderOnly, stream: TokenStream, *, block: int, context: int, apart: bool, batch_tokens: int
) -> TextScore:
    """The negative log-likelihood of a whole text, each token predicted exactly once.

    A window of `block` tokens moves over the text by `block` - `context`; only what it has not seen before is
    predicted, so that each token has at least `context` others before it, but for the first window's. A text
    without marks begins with a token that is given and not predicted. The ends of documents are predicted
    like any token, and count as no character.
    """
    objective, nll, tokens = NextToken(), 0.0, 0
    batches = scoring_batches(
        stream, block, context=context, separate_documents=apart, batch_tokens=batch_tokens
    )
    with torch.no_grad():
        for batch in batches:
            loss = objective(model, batch.to(model.device))
            nll += float(loss.nll.double())
            tokens += loss.num_targets
    return TextScore(nll=nll, tokens=tokens, characters=stream.report.characters, bytes=stream.report.bytes)


class LanguageModel(Task):
    """Streams of tokens to train on, to validate on, to test on."""

    use = 'regard generate --model . "..."'

    def __init__(
        self, recipe: LanguageModelRecipe, tokenizer: Tokenizer, files: dict[str, bytes], folder: Path
    ) -> None:
        self.recipe: LanguageModelRecipe = recipe
        self._streams = {part: TokenStream(folder / part) for part in PARTS if (folder / part).is_dir()}
        self.config = _config(recipe, tokenizer)
        decoding = recipe.decoding.with_(begin=self._streams["train"].special_tokens)
        self.files = {**files, "generation.json": json_bytes(decoding.to_dict())}

    def objective(self) -> Objective:
        return NextToken(smoothing=self.recipe.training.label_smoothing)

    def examples(self) -> Examples:
        task, stream = self.recipe.task, self._streams["train"]
        if task.apart:
            return PackedExamples(stream, task.block)
        return WindowExamples(stream, task.block, seed=self.recipe.training.seed)

    def target_entropy(self, loader: Loader) -> float | None:
        return target_entropy(loader.epoch(0))

    def validate(self, model: Any) -> dict[str, float]:
        return _score(model, self._streams["valid"], self.recipe).metrics()

    def test(self, model: Any) -> list[Score]:
        if "test" not in self._streams:
            return []
        return _scores(_score(model, self._streams["test"], self.recipe), self._streams["test"], self.recipe)


def _score(model: DecoderOnly, stream: TokenStream, recipe: LanguageModelRecipe) -> TextScore:
    return score_text(
        model,
        stream,
        block=recipe.task.block,
        context=recipe.context,
        apart=recipe.task.apart,
        batch_tokens=recipe.validation.batch_tokens,
    )


def _scores(measured: TextScore, stream: TokenStream, recipe: LanguageModelRecipe) -> list[Score]:
    signature = (
        f"tokens:{measured.tokens}|characters:{measured.characters}|bytes:{measured.bytes}"
        f"|unknown:{stream.report.unknown}|block:{recipe.task.block}|context:{recipe.context}"
        f"|version:regard {version('regard')}"
    )
    return [
        Score(name=name.replace("_", " "), value=value, low=None, high=None, signature=signature)
        for name, value in measured.metrics().items()
    ]


def hold(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test text. Of other text all is read, whatever share of its files the recipe takes."""
    model_that("goes on with a text", DecoderOnly, loaded)
    recipe = cast(LanguageModelRecipe, source.recipe)
    settings, base = held_settings(recipe.data, data, source.base)
    if data is not None:
        settings = settings.whole()
    documents = Documents(settings, base)
    lengths = [len(text) for text in documents]

    def measure(model: DecoderOnly) -> Measured:
        with tempfile.TemporaryDirectory(prefix="regard-text-") as folder:
            marks = bool(loaded.generation.get("begin", True))
            stream = write_stream(
                documents, loaded.tokenizers.source, Path(folder) / "test", special_tokens=marks
            )
            return Measured(scores=_scores(_score(model, stream, recipe), stream, recipe))

    several = "" if len(lengths) == 1 else "s"
    counted = f"{len(lengths):,} document{several}, {sum(lengths):,} characters"
    return HeldOutData(counted=counted, measure=measure)


def _config(recipe: LanguageModelRecipe, tokenizer: Tokenizer) -> DecoderOnlyConfig:
    kind = recipe.model.get("kind", recipe.model_kind)
    if kind != DecoderOnlyConfig.kind:
        raise RecipeError(f"model.kind = {kind!r} does not go on with texts", "leave model.kind out")
    before = recipe.model.get("init", {}).get("trained_length")  # of the model that this one starts from
    trained_length = max(recipe.task.block, before or 0)
    sizes = {"vocab_size": tokenizer.vocab_size, "trained_length": trained_length}
    config = cast(DecoderOnlyConfig, model_config(recipe, **sizes))
    if config.positions != "learned":
        return config
    if "max_positions" not in recipe.model:  # a position that no block reaches would never be trained
        return dataclasses.replace(config, max_positions=recipe.task.block)
    if config.max_positions < recipe.task.block:
        raise RecipeError(
            f"task.block = {recipe.task.block} is more than the {config.max_positions} learned positions",
            "leave out model.max_positions, or set model.positions to another kind",
        )
    return config


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> LanguageModel:
    """Train the tokeniser on the training text and write the tokens of all texts into `folder`.

    Documents have marks at their ends where there are several to train on.
    """
    recipe = cast(LanguageModelRecipe, source.recipe)
    given = {part: getattr(recipe.data, part) for part in PARTS}
    texts = {part: Documents(settings, source.base) for part, settings in given.items() if settings}
    refuse_other_data({part: (each.name, each.fingerprint()) for part, each in texts.items()}, folder)
    most: dict[str, int] = {}
    if limit is not None:
        most = TRIAL_CHARACTERS
        for documents in texts.values():  # whatever is wrong with them is found here
            sum(1 for _ in documents)
    marks = len(list(itertools.islice(texts["train"], 2))) > 1
    tokenizer, files = stored_tokenizer(
        _pieces(limit_characters(texts["train"], most.get("train"))), recipe.tokenizer, folder, say
    )
    for part, documents in texts.items():
        stream = write_stream(
            documents, tokenizer, folder / part, special_tokens=marks, max_characters=most.get(part), say=say
        )
        _tell(part, stream, say)
    task = LanguageModel(recipe, tokenizer, files, folder)
    if most:
        task.trial_share = min(most["valid"] / sum(map(len, texts["valid"])), 1.0)
    return task


def _pieces(documents: Iterable[str]) -> Iterator[str]:
    """Long documents in parts, so that the tokeniser is not trained on all of one at once."""
    return itertools.chain.from_iterable(map(parts, documents))


def _tell(part: str, stream: TokenStream, say: Say) -> None:
    report, name = stream.report, {"train": "training", "valid": "validation", "test": "test"}[part]
    documents = f"{report.documents:,} document{'' if report.documents == 1 else 's'}"
    unknown = f"; {report.unknown:,} tokens are unknown" if report.unknown else ""
    say(f"{name}: {documents}, {report.characters:,} characters, {report.tokens:,} tokens{unknown}")
