"""Sequence-to-sequence tasks: translation, and others such as spelling and the formats of dates."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from regard.data.corpus import Corpus, CorpusSettings, LinePolicy, Pair, open_corpus
from regard.data.corpus_mixture import (
    MixedCorpusSettings,
    Mixture,
    chosen_mixture,
    corpora_of,
    described,
    names_of,
    open_training_corpus,
    refuse_empty,
)
from regard.data.examples import Examples
from regard.data.loader import Loader
from regard.data.shards import write_shards
from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_training import (
    WHOLE_WORDS,
    TokenizerSettings,
    refuse_lost_spaces,
    train_tokenizers,
)
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError, DataError
from regard.evaluation.score import Score
from regard.models.config import ModelConfig, TransformerConfig
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.training.collapse import target_entropy
from regard.training.objective import CrossEntropy, Objective
from regard.verbs.generation.decoding_defaults import decoding_defaults
from regard.verbs.generation.prefixes import MOST_TOKENS, tags_of_sources
from regard.verbs.generation.translation_direction import direction_warning
from regard.verbs.shared.model_loading import model_that
from regard.verbs.shared.translation_scoring import scoring_for
from regard.verbs.tasks.pretrained_tokenizers import pretrained_tokenizers
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import (
    TOKENIZERS_FOLDER,
    HeldOutData,
    Say,
    ScoreReport,
    Task,
    model_config,
    settings_of_test_data,
)
from regard.verbs.tasks.tokenised_corpus import open_tokens, refuse_two_corpora
from regard.verbs.tasks.training_pairs import ShardedPairs, TrainingPairs
from regard.verbs.tasks.translation_validation import (
    ValidationSettings,
    decoded_scores,
    present_name,
    validator,
    verdict,
)
from regard.verbs.tasks.validation_split import DRY_RUN_EXAMPLES, PART_NAMES, examples_kept, settings_by_part
from regard.verbs.training_run.data_checks import counts_of_skipped, refuse_other_data, refuse_unknown_words
from regard.weights.folder import write_folder
from regard.weights.model_folder import LoadedModel
from regard.weights.strict_json import json_bytes


@dataclass(frozen=True, kw_only=True)
class TranslationSettings:
    """`[task]`, which a recipe of a translation may leave out."""

    kind: Literal["translation"] = "translation"  # the task


@dataclass(frozen=True, kw_only=True)
class TranslationDataSettings:
    """`[data]`: the parallel corpora, and what to do with lines that cannot be used."""

    train: CorpusSettings | tuple[MixedCorpusSettings, ...] | None = None  # one corpus, or several
    # of several corpora without weights: 1 reads each pair once an epoch, 5 those of small ones more often
    mixture_temperature: float | None = None
    valid: CorpusSettings
    test: CorpusSettings | None = None
    tokens: str | None = None  # instead of `train`: a corpus of `regard data tokenize`, a path or an address
    lines: LinePolicy = field(default_factory=LinePolicy)

    def __post_init__(self) -> None:
        refuse_two_corpora(self.train, self.tokens)
        self.mixture  # noqa: B018 (refused here if it cannot be)

    @property
    def mixture(self) -> Mixture | None:
        """How several corpora are mixed; None for one."""
        return chosen_mixture(self.train, self.mixture_temperature, instead=self.tokens)


@dataclass(frozen=True, kw_only=True)
class TranslationRecipe(Recipe):
    """Recipe of a translation: data, tokeniser, model, training, validation, decoding."""

    model_kind: ClassVar[str] = "encoder_decoder"
    other_model_kinds: ClassVar[bool] = True
    task: TranslationSettings = field(default_factory=TranslationSettings)
    data: TranslationDataSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    decoding: GenerationSettings = field(default_factory=GenerationSettings)

    def __post_init__(self) -> None:
        given = {name: getattr(self.training, name) for name in ("best_metric", "second_metric")}
        names = {name: present_name(metric) for name, metric in given.items() if metric is not None}
        object.__setattr__(self, "training", replace(self.training, **names))
        super().__post_init__()
        refuse_lost_spaces(self.tokenizer)

    @property
    def metric_names(self) -> tuple[str, ...]:
        return self.validation.metrics


class TranslationTask(Task):
    """Tokenisers, training pairs, validation and test pairs."""

    use = 'regard translate --model . "..."'

    def __init__(
        self,
        recipe: TranslationRecipe,
        tokenizers: TokenizerPair,
        pairs: TrainingPairs,
        valid: list[Pair],
        test: list[Pair],
    ) -> None:
        self.recipe, self.tokenizers, self.pairs = recipe, tokenizers, pairs
        self._valid, self._test = valid, test
        self.config = model_config(
            recipe,
            src_vocab_size=tokenizers.source.vocab_size,
            tgt_vocab_size=tokenizers.target.vocab_size,
        )
        refuse_few_positions(self.config, pairs)
        decoding = recipe.decoding.with_(
            split_above=recipe.decoding.split_above or pairs.length_quantile(0.99),
            tags=recipe.decoding.tags
            or tuple(tags_of_sources(pairs.some_beginnings(MOST_TOKENS), tokenizers.source)),
        )
        self.files = {**tokenizers.files(), "generation.json": json_bytes(decoding.to_dict())}
        self._validate = validator(valid, tokenizers, recipe.validation, recipe.decoding)

    def objective(self) -> Objective:
        return CrossEntropy(
            smoothing=self.recipe.training.label_smoothing, pad_id=self.tokenizers.target.pad_id
        )

    def examples(self) -> Examples:
        return self.pairs.examples(self.tokenizers.target.pad_id)

    def warning_of_start(self, start: LoadedModel) -> str | None:
        return direction_warning(start, str(start.path), self._valid)

    def target_entropy(self, loader: Loader) -> float | None:
        return target_entropy(loader.epoch(0))

    def validate(self, model: Any) -> dict[str, float]:
        return self._validate(model)

    def test(self, model: Any) -> list[Score]:
        """Scores of the test pairs, decoded with the recipe's `[decoding]`."""
        if not self._test:
            return []
        return _evaluate(model, self._test, self.tokenizers, self.recipe, self.recipe.decoding).scores

    def verdict(self, metrics: Mapping[str, float]) -> str:
        return verdict(self.recipe.validation, metrics)


def _evaluate(
    model: Any,
    pairs: list[Pair],
    tokenizers: TokenizerPair,
    recipe: TranslationRecipe,
    decoding: GenerationSettings,
) -> ScoreReport:
    scores = decoded_scores(model, pairs, tokenizers, recipe.validation, decoding.with_(n_best=1))
    return ScoreReport(scores=list(scores.values()))


def refuse_few_positions(config: ModelConfig, pairs: TrainingPairs) -> None:
    """Raise a ConfigError if a training line is longer than the model's learned positions."""
    if not isinstance(config, TransformerConfig) or config.positions != "learned":
        return
    if (longest := pairs.longest()) > config.max_positions:
        raise ConfigError(
            f"max_positions = {config.max_positions} is too small: a training line has {longest} tokens",
            f"model.max_positions = {longest}, or batches.max_tokens = {config.max_positions},"
            " to leave out longer lines",
        )


def open_test_data(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """The test pairs, decoded with the defaults of the model folder's `generation.json`."""
    recipe = cast(TranslationRecipe, source.recipe)
    model_that("translates", SequenceToSequence, loaded)
    settings, base = settings_of_test_data(recipe, loaded, data, source.base)
    pairs = list(open_corpus(settings, recipe.data.lines, base))
    if not pairs:
        raise DataError(f"{data or 'the test data'}: no pair is left", "look at data.lines of the recipe")
    decoding = decoding_defaults(GenerationSettings, loaded)
    return HeldOutData(
        size=f"{len(pairs):,} pairs",
        evaluate=partial(
            _evaluate, pairs=pairs, tokenizers=loaded.tokenizers, recipe=recipe, decoding=decoding
        ),
    )


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> TranslationTask:
    """Train the tokenisers and tokenise the training corpus into `folder`, unless `folder` has both."""
    recipe = cast(TranslationRecipe, source.recipe)
    corpora = {
        part: open_training_corpus(settings, recipe.data.lines, source.base)
        for part, settings in settings_by_part(recipe.data).items()
    }
    data = {part: (each.name, each.fingerprint()) for part, each in corpora.items()}
    if recipe.data.tokens is not None:
        there = open_tokens(recipe, source.base, folder)
        refuse_other_data({**data, "tokens": (recipe.data.tokens, there.index.digest())}, folder)
        tokenizers, pairs = there.tokenizers(folder / TOKENIZERS_FOLDER), there.pairs()
        say(there.summary())
    else:
        refuse_other_data(data, folder)
        tokenizers, pairs = _tokenised(recipe, corpora["train"], source.base, folder, say, limit)
    valid, test = _pairs(corpora, "valid", say), _pairs(corpora, "test", say)
    if valid and "bleu" in recipe.validation.metrics:  # refuse it now rather than after hours of training
        scoring_for([[pair.target for pair in valid]], recipe.validation.tokenize, say)
    count = examples_kept("valid", limit)
    task = TranslationTask(recipe, tokenizers, pairs, valid[:count], test[:count])
    task.dry_run_share = min(DRY_RUN_EXAMPLES / (recipe.validation.sentences or len(valid) or 1), 1.0)
    return task


def _tokenised(
    recipe: TranslationRecipe, corpus: Corpus, base: Path, folder: Path, say: Say, limit: int | None
) -> tuple[TokenizerPair, TrainingPairs]:
    """The tokenisers of a corpus, and its pairs as shards in `folder`."""
    whole, counts = corpus, list[int]()
    if limit is not None:
        counts = [sum(1 for _ in each) for each in corpora_of(corpus)]
        skipped = sum((each.skipped for each in corpora_of(corpus)), Counter[str]())
        say(f"train: {sum(counts):,} pairs{counts_of_skipped(skipped)}")
        corpus = corpus.first(limit)
    learned_from = corpus if recipe.tokenizer.extension is None else whole  # what is new may come late
    tokenizers = _tokenizers(recipe, learned_from, folder / TOKENIZERS_FOLDER, base, say)
    report = write_shards(
        corpus,
        tokenizers,
        folder / "train",
        max_tokens=recipe.batches.max_tokens,
        dropout=recipe.tokenizer.dropout,
        copies=recipe.tokenizer.copies,
        seed=recipe.training.seed,
        say=say,
    )
    say(
        f"{'training' if limit is None else 'dry run'}: {report.pairs:,} pairs,"
        f" {report.source_tokens:,} source and {report.target_tokens:,} target tokens"
        f"{counts_of_skipped(report.skipped)}"
    )
    pairs = ShardedPairs(folder / "train", recipe.data.mixture)
    if recipe.data.mixture is not None:
        refuse_empty(corpus, pairs.sizes)
        for line in described(recipe.data.mixture, names_of(corpora_of(corpus)), counts or pairs.sizes):
            say(line)
    return tokenizers, pairs


def _pairs(corpora: Mapping[str, Corpus], part: str, say: Say) -> list[Pair]:
    if part not in corpora:
        return []
    pairs = list(corpora[part])
    say(f"{PART_NAMES[part]}: {len(pairs):,} pairs{counts_of_skipped(corpora[part].skipped)}")
    return pairs


def _tokenizers(
    recipe: TranslationRecipe, corpus: Corpus, folder: Path, base: Path, say: Say
) -> TokenizerPair:
    if folder.is_dir():
        texts = (pair.source for pair in corpus), (pair.target for pair in corpus)
        return pretrained_tokenizers(folder, texts, recipe.tokenizer.extension, base, say)
    tokenizers = train_tokenizers(corpus, recipe.tokenizer)
    unknown = _unknown_words(recipe, corpus, tokenizers)
    write_folder(folder, tokenizers.files())
    sizes = sorted({tokenizers.source.vocab_size, tokenizers.target.vocab_size})
    say(f"tokeniser: {recipe.tokenizer.kind}, {' and '.join(map(str, sizes))} tokens{unknown}")
    return tokenizers


def _unknown_words(recipe: TranslationRecipe, corpus: Corpus, tokenizers: TokenizerPair) -> str:
    """The shares of unknown tokens of new tokenisers of whole words, for a message; most are refused."""
    kinds = (recipe.tokenizer.kind, recipe.tokenizer.target_kind or recipe.tokenizer.kind)
    shares = list[str]()
    if kinds[0] in WHOLE_WORDS:
        found = refuse_unknown_words((pair.source for pair in corpus), tokenizers.source)
        shares.append(f"{found:.1%} of the source's")
    if kinds[1] in WHOLE_WORDS:
        found = refuse_unknown_words((pair.target for pair in corpus), tokenizers.target)
        shares.append(f"{found:.1%} of the target's")
    return f"; {' and '.join(shares)} are unknown" if shares else ""
