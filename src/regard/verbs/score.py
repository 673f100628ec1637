"""Score: the log-probabilities of given translations."""

import json
import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.files import locate
from regard.decoding.scoring import ForcedScore, forced_scores
from regard.decoding.settings import GenerationSettings
from regard.errors import DataError, FolderError, UserError
from regard.evaluation.line_pairs import check_aligned
from regard.models.decoder_only import DecoderOnly
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.recipe import read
from regard.verbs.generation.language_tags import LanguageTags
from regard.verbs.generation.prefixes import source_prefix
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.lines import lines_of
from regard.verbs.shared.model_loading import model_that
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.shows_model import ShowsModel
from regard.verbs.shared.table_cells import PAIRS_IN_ONE_FILE, pairs_of
from regard.verbs.shared.text_options import PrefixOptions
from regard.weights.model_folder import LoadedModel

MAX_CHARACTERS = 5000  # of a line
DECIMAL_PLACES = 6
OPTIONS = PrefixOptions()


@dataclass(frozen=True, kw_only=True)
class PairScores:
    """The score of each pair, in order. Log-probabilities are in nats and include the end of a sentence."""

    model: Path
    scores: list[ForcedScore]

    @property
    def tokens(self) -> int:
        return sum(score.num_tokens for score in self.scores)

    @property
    def perplexity(self) -> float:
        """The perplexity of a target token: e^-(mean log-probability)."""
        return math.exp(-sum(score.log_prob for score in self.scores) / self.tokens)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The lines of `regard score --json`."""
        return [
            {"line": line, "log_prob": score.log_prob, "token_log_probs": score.token_log_probs}
            for line, score in enumerate(self.scores, start=1)
        ]


@dataclass(frozen=True, kw_only=True)
class ScoredPair:
    """The score of a line of a job."""

    line: int
    score: ForcedScore

    def to_dict(self) -> dict[str, Any]:
        """As a line of JSON, rounded to digits that do not depend on the batch."""
        tokens = [round(each, DECIMAL_PLACES) for each in self.score.token_log_probs]
        return {
            "line": self.line,
            "log_prob": round(self.score.log_prob, DECIMAL_PLACES),
            "token_log_probs": tokens,
        }


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
        options: PrefixOptions = OPTIONS,
        runtime: Runtime = DEFAULT_RUNTIME,
    ) -> None:
        self.loaded, self.options = open_model(model, runtime), options
        _refuse_other_models(self.loaded)
        self._tags = tags_of(self.loaded, options)

    def answers(self, lines: Sequence[str], first: int) -> Iterator[ScoredPair]:
        """The score of each line.

        Raises:
            DataError: a line is not a pair, or too long.
        """
        pairs = [_pair(line, number) for number, line in enumerate(lines, start=first)]
        for number, (source, _) in enumerate(pairs, start=first):
            self._tags.warn([source], f"line {number}")
        for number, found in enumerate(pair_scores(self.loaded, pairs, self.options), start=first):
            yield ScoredPair(line=number, score=found)


def _pair(line: str, number: int) -> tuple[str, str]:
    source, tab, target = line.partition("\t")
    if not tab or "\t" in target:
        raise DataError(f"line {number} is not SOURCE, a tab, TRANSLATION", "a line has exactly one tab")
    for text in (source, target):
        _refuse_long(f"line {number}", text)
    return source, target


def output_lines(scored: ScoredPair, *, as_json: bool = False) -> str:
    """LOG-PROBABILITY and NUMBER OF TOKENS, separated by a tab; or a line of JSON."""
    if as_json:
        return json.dumps(scored.to_dict()) + "\n"
    return f"{scored.score.log_prob:.4f}\t{scored.score.num_tokens}\n"


@python_call
def score(
    *,
    model: AnyModel | None = None,
    src: str | Path | None = None,
    ref: str | Path | None = None,
    data: str | Path | None = None,
    columns: Sequence[str | int] = (),
    options: PrefixOptions = OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> PairScores:
    """The log-probability of each line of `ref` as the translation of that line of `src`, or of pairs.

    A source is encoded as by `translate`.

    Returns a `PairScores`. Its `scores` has a `ForcedScore` for each line, in order: `log_prob` is the sum
    of `token_log_probs`, in nats (natural logarithms, at most 0), and `num_tokens` their number; the last of
    them is the end of the sentence. `perplexity` is that of a token, over all lines.

    Args:
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        src: a file of sources, one sentence a line.
        ref: a file of their translations, aligned line by line.
        data: pairs in one file (TSV, CSV, JSON Lines), instead of both.
        columns: its columns of source and translation, by name or number from 0; () detects them.

    Raises:
        DataError: the files have different numbers of lines, or a line is too long.
        UserError: there is neither a pair of files nor one file of pairs, or both.
        FolderError: the model does not translate.
    """
    files = _existing_files(data, src, ref, columns)
    loaded = open_model(model, runtime)
    _refuse_other_models(loaded)
    if len(files) == 1:
        sources, targets = pairs_of(files[0], [str(each) for each in columns])
        names = [f"{data}, pair "] * 2
    else:
        sources, targets = (lines_of(each, tables=PAIRS_IN_ONE_FILE) for each in files)
        check_aligned(sources, [targets], str(src))
        names = [f"{each}:" for each in files]
    for name, lines in zip(names, (sources, targets), strict=True):
        for number, line in enumerate(lines, start=1):
            _refuse_long(f"{name}{number}", line)
    tags = tags_of(loaded, options)
    for number, source in enumerate(sources, start=1):
        tags.warn([source], f"{names[0]}{number}")
    found = pair_scores(loaded, list(zip(sources, targets, strict=True)), options)
    return PairScores(model=loaded.path, scores=found)


def _existing_files(
    data: str | Path | None, src: str | Path | None, ref: str | Path | None, columns: Sequence[str | int]
) -> list[str | Path]:
    """The file of pairs, or those of sources and of translations, before a model is loaded."""
    if data is not None and src is None and ref is None:
        files = [data]
    elif data is None and not columns and src is not None and ref is not None:
        files = [src, ref]
    else:
        raise UserError(
            "score reads sources and translations from two files, or pairs from one",
            "give src and ref (--src FILE --ref FILE), or data (--data FILE), whose columns may be named",
        )
    for file in files:
        locate(str(file), Path(), once=True)
    return files


def _refuse_other_models(loaded: LoadedModel) -> None:
    """Raise a FolderError if the model does not translate."""
    if isinstance(loaded.model, DecoderOnly):
        raise FolderError(
            f"{loaded.path} is a language model, and score is for a source and its translation",
            f"`regard evaluate --model {shlex.quote(str(loaded.path))} --data FILE` has the loss and the"
            " perplexity of a text",
        )
    model_that("translates", SequenceToSequence, loaded)


def tags_of(loaded: LoadedModel, options: PrefixOptions, option: str = "--prefix") -> LanguageTags:
    """The warnings of sources with tags of languages; `option`: how a user gives a prefix."""
    trained = loaded.generation.get("tags", ())
    has_prefix = options.prefix is not None
    return LanguageTags(loaded.tokenizers.source, trained, has_prefix=has_prefix, option=option)


def pair_scores(
    loaded: LoadedModel, pairs: Sequence[tuple[str, str]], options: PrefixOptions = OPTIONS
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
