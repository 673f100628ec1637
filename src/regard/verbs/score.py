"""Score: the log-probabilities of given translations, or of the texts of a language model."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.files import locate
from regard.decoding.scoring import ForcedScore, forced_scores
from regard.decoding.settings import GenerationSettings
from regard.errors import DataError, UserError
from regard.evaluation.line_pairs import check_aligned
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.recipe import read
from regard.verbs.generation.language_tags import LanguageTags
from regard.verbs.generation.prefixes import source_prefix
from regard.verbs.score_texts import Completion, TextScorer, scores_texts
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.lines import lines_of, texts_of
from regard.verbs.shared.model_loading import model_that
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.scored_lines import LineScores, ScoredLine
from regard.verbs.shared.shows_model import ShowsModel
from regard.verbs.shared.table_cells import PAIRS_IN_ONE_FILE, pairs_of
from regard.verbs.shared.text_options import PrefixOptions, ScoringOptions
from regard.weights.model_folder import LoadedModel

MAX_CHARACTERS = 5000  # of a line
OPTIONS = ScoringOptions()


class PairScorer(ShowsModel):
    """A model, loaded once, that scores pairs, each a line: SOURCE and TRANSLATION, separated by a tab.

    Args:
        model: a model or run folder, or what `regard.load` returns; the included model by default.
    """

    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel | None = None,
        *,
        options: ScoringOptions = OPTIONS,
        runtime: Runtime = DEFAULT_RUNTIME,
    ) -> None:
        self.loaded, self.options = open_model(model, runtime), options
        model_that("translates", SequenceToSequence, self.loaded)
        options.refuse_ends("a language model, but this model translates")
        self._tags = tags_of(self.loaded, options)

    def answers(self, lines: Sequence[str], first: int) -> Iterator[ScoredLine]:
        """The score of each line.

        Raises:
            DataError: a line is not a pair, or too long.
        """
        pairs = [_pair(line, number) for number, line in enumerate(lines, start=first)]
        for number, (source, _) in enumerate(pairs, start=first):
            self._tags.warn([source], f"line {number}")
        scores = pair_scores(self.loaded, pairs, self.options, self.options.batch_tokens)
        for number, found in enumerate(scores, start=first):
            yield ScoredLine(line=number, score=found)


def _pair(line: str, number: int) -> tuple[str, str]:
    source, tab, target = line.partition("\t")
    if not tab or "\t" in target:
        raise DataError(f"line {number} is not SOURCE, a tab, TRANSLATION", "a line has exactly one tab")
    for text in (source, target):
        _refuse_long(f"line {number}", text)
    return source, target


@python_call
def score(
    *,
    model: AnyModel | None = None,
    input: str | Path | None = None,
    column: str | None = None,
    src: str | Path | None = None,
    ref: str | Path | None = None,
    data: str | Path | None = None,
    columns: Sequence[str | int] = (),
    options: ScoringOptions = OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> LineScores:
    """The log-probability of each line of `ref` as the translation of that line of `src`, or of pairs.

    A source is encoded as by `translate`. A language model gives the log-probability of each text of `input`,
    or of each line of `ref` as what follows that line of `src`, a prompt; `TextScorer` says which tokens are
    predicted.

    Returns a `LineScores`. Its `scores` has a `ForcedScore` for each line, in order: `log_prob` is the sum
    of `token_log_probs`, in nats (natural logarithms, at most 0), and `num_tokens` their number; the last of
    a translation is the end of the sentence. `perplexity` is that of a token, over all lines.

    Args:
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        input: of a language model: a file of texts, one a line.
        column: the column of `input`, a table, that has the texts.
        src: a file of sources, one sentence a line, or of prompts.
        ref: a file of their translations or completions, aligned line by line.
        data: pairs in one file (TSV, CSV, JSON Lines), instead of both.
        columns: its columns of source and translation, or of prompt and completion, by name or number from 0;
            () detects them.

    Raises:
        DataError: the files have different numbers of lines, or a line is too long.
        UserError: there is neither a pair of files nor one file of pairs, or both; or one of texts for a
            model that translates.
        FolderError: the model does neither.
    """
    files = _existing_files(input, data, src, ref, columns)
    if column is not None and input is None:
        raise UserError("column is a column of input, which is missing", "columns names those of data")
    if model is not None and scores_texts(model):
        scorer = TextScorer(model, options=options, runtime=runtime)
        if input is not None:
            found = scorer(texts_of(input, column, as_written=True))
        else:
            found = scorer.completions(_completions(files, columns))
        return LineScores(model=scorer.loaded.path, scores=[each.score for each in found])
    if input is not None:
        raise UserError(
            "input has texts for a language model, but this model translates",
            "give sources and translations: src and ref (--src FILE --ref FILE), or data (--data FILE)",
        )
    loaded = open_model(model, runtime)
    model_that("translates", SequenceToSequence, loaded)
    options.refuse_ends("a language model, but this model translates")
    sources, targets = _two_columns(files, columns)
    names = [f"{data}, pair "] * 2 if len(files) == 1 else [f"{each}:" for each in files]
    for name, lines in zip(names, (sources, targets), strict=True):
        for number, line in enumerate(lines, start=1):
            _refuse_long(f"{name}{number}", line)
    tags = tags_of(loaded, options)
    for number, source in enumerate(sources, start=1):
        tags.warn([source], f"{names[0]}{number}")
    pairs = list(zip(sources, targets, strict=True))
    return LineScores(model=loaded.path, scores=pair_scores(loaded, pairs, options, options.batch_tokens))


def _existing_files(
    input: str | Path | None,
    data: str | Path | None,
    src: str | Path | None,
    ref: str | Path | None,
    columns: Sequence[str | int],
) -> list[str | Path]:
    """The file of texts or of pairs, or those of sources and translations, before a model is loaded."""
    match (input, data, src, ref):
        case (file, None, None, None) if file is not None and not columns:
            files = [file]
        case (None, file, None, None) if file is not None:
            files = [file]
        case (None, None, one, other) if one is not None and other is not None and not columns:
            files = [one, other]
        case _:
            raise UserError(
                "score reads sources and translations from two files, or pairs from one",
                "give src and ref (--src FILE --ref FILE), or data (--data FILE), whose columns may be"
                " named; for a language model also input (--input FILE), a file of texts",
            )
    for file in files:
        locate(str(file), Path(), once=True)
    return files


def _completions(files: Sequence[str | Path], columns: Sequence[str | int]) -> Iterator[Completion]:
    """Prompts with their completions."""
    return zip(*_two_columns(files, columns, completions=True), strict=True)


def _two_columns(
    files: Sequence[str | Path], columns: Sequence[str | int], *, completions: bool = False
) -> tuple[list[str], list[str]]:
    """The first texts and the second texts of pairs, in one file or two."""
    if len(files) == 1:
        return pairs_of(files[0], [str(each) for each in columns], completions=completions)
    sources, targets = (lines_of(each, tables=PAIRS_IN_ONE_FILE) for each in files)
    check_aligned(sources, [targets], str(files[0]))
    return sources, targets


def tags_of(loaded: LoadedModel, options: PrefixOptions, option: str = "--prefix") -> LanguageTags:
    """The warnings of sources with tags of languages; `option`: how a user gives a prefix."""
    trained = loaded.generation.get("tags", ())
    has_prefix = options.prefix is not None
    return LanguageTags(loaded.tokenizers.source, trained, has_prefix=has_prefix, option=option)


def pair_scores(
    loaded: LoadedModel,
    pairs: Sequence[tuple[str, str]],
    options: PrefixOptions = OPTIONS,
    batch_tokens: int = OPTIONS.batch_tokens,
) -> list[ForcedScore]:
    """The score of the second text of each pair as the translation of the first.

    Raises:
        FolderError: the model does not translate. DataError: a pair is too long for it.
    """
    translates = model_that("translates", SequenceToSequence, loaded)
    target = loaded.tokenizers.target
    sources = source_ids([source for source, _ in pairs], loaded, options.prefix)
    targets = target.encode_batch([translation for _, translation in pairs])
    return forced_scores(
        translates,
        list(zip(sources, targets, strict=True)),
        batch_tokens=batch_tokens,
        pad_id=target.pad_id,
        bos_id=target.bos_id,
        eos_id=target.eos_id,
    )


def source_ids(sources: Sequence[str], loaded: LoadedModel, prefix: str | None) -> list[list[int]]:
    """The ids of each source, with the prefix."""
    settings = read(GenerationSettings, loaded.generation, "generation.json")
    tokenizer = loaded.tokenizers.source
    return source_prefix(settings, "translation", tokenizer, prefix).encoded(sources, tokenizer)


def _refuse_long(place: str, text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise DataError(
            f"{place}: {len(text):,} characters, more than {MAX_CHARACTERS:,}", "a line holds one sentence"
        )
