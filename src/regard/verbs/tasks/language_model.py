"""Language modelling: a decoder learns to predict each next token of running text."""

import dataclasses
import itertools
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from regard.counted import counted
from regard.data.corpus_mixture import Mixture, chosen_mixture, described, names_of
from regard.data.document_mixture import MixedDocumentSettings, document_corpora, open_documents
from regard.data.documents import Documents, DocumentSettings
from regard.data.examples import Examples
from regard.data.loader import Loader
from regard.data.mixed_texts import MixedRows, MixedWindows
from regard.data.token_stream import TokenStream, parts, some_documents, write_stream
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_training import TokenizerSettings, refuse_lost_spaces, refuse_target_settings
from regard.data.windows import PackedExamples, WindowExamples
from regard.decoding.continuation import ContinuationSettings
from regard.decoding.controls import CONTROLS_BY_NAME
from regard.errors import RecipeError
from regard.evaluation.score import FineScore, Score, version_fact
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.recipe import read
from regard.training.collapse import target_entropy
from regard.training.objective import NextToken, Objective
from regard.verbs.generation.controls import UNSET
from regard.verbs.shared.model_loading import model_that
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import (
    BEGINS,
    TOKENIZERS_FOLDER,
    HeldOutData,
    Say,
    ScoreReport,
    Task,
    model_config,
    settings_of_test_data,
)
from regard.verbs.tasks.text import load_or_train_tokenizer
from regard.verbs.tasks.text_score import TextScore, score_stream
from regard.verbs.tasks.tokenised_corpus import TokenisedCorpus, open_tokens, refuse_two_corpora
from regard.verbs.tasks.validation_split import PART_NAMES, settings_by_part
from regard.verbs.training_run.data_checks import refuse_other_data
from regard.weights.folder import find_folder, verify_folder
from regard.weights.model_folder import LoadedModel
from regard.weights.strict_json import json_bytes

GENERATION = "generation.json"
DRY_RUN_CHARACTERS = {"train": 200_000, "valid": 4000, "test": 4000}


@dataclass(frozen=True, kw_only=True)
class LanguageModelSettings:
    """`[task]`. `block`: tokens of a training example.

    `apart`: the documents in a block cannot attend to each other, and positions start at 0 in each;
    otherwise a block is cut from the documents joined end to end.
    """

    kind: Literal["language_model"]  # the task
    block: int = 256
    apart: bool = False

    def __post_init__(self) -> None:
        if self.block < 2:
            raise RecipeError(f"task.block must be 2 or more, not {self.block}", "256 is usual")


@dataclass(frozen=True, kw_only=True)
class LanguageDataSettings:
    """`[data]`: the files of running text."""

    train: DocumentSettings | tuple[MixedDocumentSettings, ...] | None = None  # one corpus, or several
    # of several corpora without weights: 1 reads each block once an epoch, 5 those of small ones more often
    mixture_temperature: float | None = None
    valid: DocumentSettings
    test: DocumentSettings | None = None
    tokens: str | None = None  # instead of `train`: a corpus of `regard data tokenize`, a path or an address

    def __post_init__(self) -> None:
        refuse_two_corpora(self.train, self.tokens)
        self.mixture  # noqa: B018 (refused here if it cannot be)
        parts = [
            (part, each)
            for part, settings in settings_by_part(self).items()
            for each in (settings if isinstance(settings, tuple) else (settings,))
        ]
        for (one, first), (other, second) in itertools.combinations(parts, 2):
            if one != other and first.overlaps(second):
                raise RecipeError(
                    f"data.{one} and data.{other} have text in common",
                    "give each another share of the text: [0.0, 0.9] and [0.9, 1.0]",
                )

    @property
    def mixture(self) -> Mixture | None:
        """How several corpora are mixed; None for one."""
        return chosen_mixture(self.train, self.mixture_temperature, unit="block", instead=self.tokens)


@dataclass(frozen=True, kw_only=True)
class LanguageValidationSettings:
    """`[validation]`. `context`: each token is predicted from at least this many tokens.

    The default is half a block; the first tokens of a text have fewer. With 0, as in nanoGPT, the text is cut
    into blocks that do not overlap, so the first token of a block is predicted from one token.
    """

    context: int | None = None
    batch_tokens: int = 4096  # tokens of a batch in validation, padding included

    def __post_init__(self) -> None:
        if self.context is not None and self.context < 0:
            raise RecipeError(
                f"validation.context must be 0 or more, not {self.context}", "0 is the evaluation of nanoGPT"
            )
        if self.batch_tokens < 1:
            raise RecipeError(
                f"validation.batch_tokens must be 1 or more, not {self.batch_tokens}", "4096 is usual"
            )


@dataclass(frozen=True, kw_only=True)
class LanguageModelRecipe(Recipe):
    """Recipe of a language model: data, tokeniser, model, training, validation, decoding."""

    model_kind: ClassVar[str] = "decoder_only"
    cuts_texts: ClassVar[bool] = False
    task: LanguageModelSettings
    data: LanguageDataSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    validation: LanguageValidationSettings = field(default_factory=LanguageValidationSettings)
    decoding: ContinuationSettings = field(default_factory=ContinuationSettings)

    def refuse_unused(self) -> None:
        super().refuse_unused()
        if self.decoding.alpha is not None:
            self.decoding.refuse_unused_alpha()

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_target_settings(self.tokenizer)
        refuse_lost_spaces(self.tokenizer)
        if self.tokenizer.dropout:
            raise RecipeError("tokenizer.dropout is not for language models", "leave it out")
        if self.data.tokens is not None and self.task.apart:
            raise RecipeError("task.apart is not for a tokenised corpus", "train on files: [data.train]")
        if self.context >= self.task.block:
            raise RecipeError(
                f"validation.context = {self.context} must be less than task.block = {self.task.block}",
                f"{self.task.block // 2} is usual",
            )

    @property
    def context(self) -> int:
        """`validation.context`, or its default."""
        context = self.validation.context
        return self.task.block // 2 if context is None else context


class LanguageModel(Task):
    """Training, validation and test text as streams of tokens."""

    use = 'regard generate --model . "..."'

    def __init__(
        self,
        recipe: LanguageModelRecipe,
        tokenizer: Tokenizer,
        files: dict[str, bytes],
        folder: Path,
        corpus: TokenisedCorpus | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """`names`: of the corpora to train on, for messages."""
        self.recipe: LanguageModelRecipe = recipe
        self._tokenizer, self._corpus, self._names = tokenizer, corpus, names
        self._streams = {part: TokenStream(folder / part) for part in PART_NAMES if (folder / part).is_dir()}
        self.config = _config(recipe, tokenizer)
        self._begin = corpus is not None or self._streams["train"].special_tokens
        self.files = {**files, GENERATION: json_bytes(recipe.decoding.with_(begin=self._begin).to_dict())}

    def start_from(self, generation: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """The pretrained model's decoding defaults, but for the recipe's keys and what training teaches."""
        recipe = self.recipe.decoding
        decoding = read(ContinuationSettings, generation, GENERATION)
        asked = {name: getattr(recipe, name) for name in own}
        decoding = decoding.changed(
            UNSET.with_(**{name: value for name, value in asked.items() if name in CONTROLS_BY_NAME})
        )
        others = {name: value for name, value in asked.items() if name not in CONTROLS_BY_NAME}
        if self._begin:  # each text that it learns has an end
            others.setdefault("may_end", None)
        decoding = decoding.with_(**{**others, "begin": self._begin})
        self.files = {**self.files, GENERATION: json_bytes(decoding.to_dict())}

    def objective(self) -> Objective:
        return NextToken(smoothing=self.recipe.training.label_smoothing)

    def examples(self) -> Examples:
        task = self.recipe.task
        if self._corpus is not None:
            return self._corpus.texts(self._tokenizer, task.block, self.recipe.training.seed)
        stream, seed, mixture = self._streams["train"], self.recipe.training.seed, self.recipe.data.mixture
        if mixture is not None:
            if task.apart:
                return MixedRows(stream, task.block, mixture)
            return MixedWindows(stream, task.block, seed=seed, mixture=mixture, names=self._names)
        return (
            PackedExamples(stream, task.block)
            if task.apart
            else WindowExamples(stream, task.block, seed=seed)
        )

    def target_entropy(self, loader: Loader) -> float | None:
        return target_entropy(loader.epoch(0))

    def validate(self, model: Any) -> dict[str, float]:
        return _score(model, self._streams["valid"], self.recipe).metrics()

    def test(self, model: Any) -> list[Score]:
        if "test" not in self._streams:
            return []
        return _scores(_score(model, self._streams["test"], self.recipe), self._streams["test"], self.recipe)


def _score(model: DecoderOnly, stream: TokenStream, recipe: LanguageModelRecipe) -> TextScore:
    return score_stream(
        model,
        stream,
        block=recipe.task.block,
        context=recipe.context,
        apart=recipe.task.apart,
        batch_tokens=recipe.validation.batch_tokens,
    )


def _scores(score: TextScore, stream: TokenStream, recipe: LanguageModelRecipe) -> list[Score]:
    signature = (
        f"tokens:{score.tokens}|characters:{score.characters}|bytes:{score.bytes}"
        f"|unknown:{stream.report.unknown}|block:{recipe.task.block}|context:{recipe.context}"
    )
    intervals = score.intervals()
    if intervals:
        signature += f"|interval:bootstrap of {len(score.batches)} batches"
    signature += f"|{version_fact()}"
    none = (None, None)
    return [
        (Score if name == "perplexity" else FineScore)(
            name=name.replace("_", " "),
            value=value,
            low=intervals.get(name, none)[0],
            high=intervals.get(name, none)[1],
            signature=signature,
        )
        for name, value in score.metrics().items()
    ]


def open_test_data(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test text: the recipe's share of its files, or all of `data`."""
    model_that("generates text", DecoderOnly, loaded)
    recipe = cast(LanguageModelRecipe, source.recipe)
    settings, base = settings_of_test_data(recipe, loaded, data, source.base)
    if data is not None:
        settings = settings.whole()
    documents = Documents(settings, base)
    lengths = [len(text) for text in documents]

    def evaluate(model: DecoderOnly) -> ScoreReport:
        with tempfile.TemporaryDirectory(prefix="regard-text-") as folder:
            special_tokens = bool(loaded.generation.get("begin", True))
            stream = write_stream(
                documents, loaded.tokenizers.source, Path(folder) / "test", special_tokens=special_tokens
            )
            return ScoreReport(scores=_scores(_score(model, stream, recipe), stream, recipe))

    size = f"{counted(len(lengths), 'document')}, {sum(lengths):,} characters"
    return HeldOutData(size=size, evaluate=evaluate)


def _config(recipe: LanguageModelRecipe, tokenizer: Tokenizer) -> DecoderOnlyConfig:
    pretrained_length = recipe.model.get("init", {}).get("trained_length")
    trained_length = max(recipe.task.block, pretrained_length or 0)
    sizes = {"vocab_size": tokenizer.vocab_size, "trained_length": trained_length}
    config = cast(DecoderOnlyConfig, model_config(recipe, **sizes))
    if config.positions != "learned":
        return config
    if "max_positions" not in recipe.model:  # a position that no block reaches would never be trained
        return dataclasses.replace(config, max_positions=recipe.task.block)
    if config.max_positions < recipe.task.block:
        raise RecipeError(
            f"task.block = {recipe.task.block} is more than the {config.max_positions} learned positions",
            "leave out model.max_positions, or choose other model.positions",
        )
    return config


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> LanguageModel:
    """Train the tokeniser on the training text, and write the tokens of all texts into `folder`.

    Documents begin and end with special tokens if there are several training documents, or if the pretrained
    model begins texts with one. A tokenised corpus, in which each line is a document, takes the place of the
    training text and its tokeniser.
    """
    recipe = cast(LanguageModelRecipe, source.recipe)
    texts = {
        part: open_documents(settings, source.base)
        for part, settings in settings_by_part(recipe.data).items()
    }
    data = {part: (each.name, each.fingerprint()) for part, each in texts.items()}
    max_characters: dict[str, int] = {}
    if limit is not None:
        max_characters = DRY_RUN_CHARACTERS
        for documents in texts.values():  # read all, to find errors in any
            sum(1 for _ in documents)
    corpus: TokenisedCorpus | None = None
    if recipe.data.tokens is not None:
        corpus = open_tokens(recipe, source.base, folder)
        refuse_other_data({**data, "tokens": (recipe.data.tokens, corpus.index.digest())}, folder)
        tokenizer, special_tokens = corpus.tokenizers(folder / TOKENIZERS_FOLDER).source, True
        files = {"tokenizer.json": tokenizer.to_bytes()}
        say(corpus.summary())
    else:
        refuse_other_data(data, folder)
        several = len(list(itertools.islice(texts["train"], 2))) > 1
        special_tokens = several or _pretrained_begins(folder / TOKENIZERS_FOLDER)
        tokenizer, files = load_or_train_tokenizer(
            _short_parts(some_documents(texts["train"], max_characters.get("train"))),
            recipe.tokenizer,
            folder,
            source.base,
            say,
        )
    for part, documents in texts.items():
        stream = write_stream(
            documents,
            tokenizer,
            folder / part,
            special_tokens=special_tokens,
            max_characters=max_characters.get(part),
            say=say,
        )
        _print_size(part, stream, say)
    names = names_of(document_corpora(texts["train"])) if corpus is None else ()
    task = LanguageModel(recipe, tokenizer, files, folder, corpus, names)
    if recipe.data.mixture is not None and limit is None:
        examples = cast(MixedWindows | MixedRows, task.examples())
        for line in described(recipe.data.mixture, names, examples.sizes):
            say(line)
    if max_characters:
        task.dry_run_share = min(max_characters["valid"] / sum(map(len, texts["valid"])), 1.0)
    return task


def _pretrained_begins(tokenizers: Path) -> bool:
    """True if the run starts from a model that begins texts with <s>."""
    return find_folder(tokenizers) is not None and bool(verify_folder(tokenizers).get(BEGINS))


def _short_parts(documents: Iterable[str]) -> Iterator[str]:
    """The documents, long ones cut into parts, which bounds the memory of the tokeniser's training."""
    return itertools.chain.from_iterable(map(parts, documents))


def _print_size(part: str, stream: TokenStream, say: Say) -> None:
    report = stream.report
    documents = counted(report.documents, "document")
    unknown = f"; {report.unknown:,} tokens are unknown" if report.unknown else ""
    size = f"{report.characters:,} characters, {report.tokens:,} tokens"
    say(f"{PART_NAMES[part]}: {documents}, {size}{unknown}")
