"""Translate: texts in, their translations out; a line for a line, in order."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from regard import console
from regard.decoding.batches import Decoder, Job, decode_all, max_positions
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.pool import DecodingPool, one_thread
from regard.decoding.running_batch import RunningTranslations
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError, DataError
from regard.exports.ctranslate2_engine import CTranslate2Engine
from regard.fast.decoding_step import fast_step
from regard.inspection.alignment import source_attentions
from regard.models.build import count_parameters
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.generation.alignments import TokenAlignment, token_alignment
from regard.verbs.generation.candidates import (
    EMPTY_CANDIDATE,
    TranslationCandidate,
    as_one,
    combinations,
    in_step,
)
from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.generation.decoding_defaults import decoding_defaults
from regard.verbs.generation.draft_model import drafter_of
from regard.verbs.generation.engine import engine_search, opened_engine, refuse_device
from regard.verbs.generation.languages import in_languages
from regard.verbs.generation.prefixes import default_prefix, prefix_of
from regard.verbs.generation.running_answers import RunningAnswers, width_of
from regard.verbs.generation.search_results import samples_for, selected_texts, translation_search
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.device import choose_workers
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.lines import chunks, numbered, stream_lines
from regard.verbs.shared.model_loading import model_that
from regard.verbs.shared.precision import compute_in, with_precision
from regard.verbs.shared.runtime import DEFAULT_DECODING_RUNTIME, DecodingRuntime, Precision
from regard.verbs.shared.sentence_splitting import Splitter, WholeTexts, joined
from regard.verbs.shared.text_options import SplitMode, SummaryOptions, TranslationOptions
from regard.verbs.shared.texts import OneOrSeveral, several

FEW = 32  # lines for each worker; fewer are decoded in one process
# A step of a smaller model is so short that a second thread costs more than it computes: the included model
# takes 1.5 s of CPU for a sentence with one thread, 2.4 to 3.7 s with two (AMD EPYC, Zen 5, a busy machine).
MANY_PARAMETERS = 30_000_000
ONE_TEXT = "put it into a list: [text]; Translator.texts([text]) splits it into sentences"
MAX_CHARACTERS = 5000  # of a line; the rest is left out, with a warning
OPTIONS = TranslationOptions()


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A line and its candidates, best first; an empty line has one empty candidate.

    `sentences`: if the line was split, its sentences, whose candidates were joined. Scores and
    log-probabilities were computed in `precision`.
    """

    called: ClassVar[str] = "translation"
    line: int
    source: str
    candidates: tuple[TranslationCandidate, ...]
    sentences: "tuple[Translation, ...]" = ()
    precision: Precision = "float32"

    @property
    def text(self) -> str:
        return self.candidates[0].text

    def to_dict(self) -> dict[str, Any]:
        """The line of `regard translate --json`."""
        hypotheses = [
            {
                "text": each.text,
                "score": each.score,
                "log_prob": each.log_prob,
                "tokens": list(each.tokens),
                # unknown if another engine has translated
                "token_log_probs": None
                if each.tokens and not each.token_log_probs
                else list(each.token_log_probs),
            }
            for each in self.candidates
        ]
        found = {"line": self.line, "source": self.source, self.called: self.text, "hypotheses": hypotheses}
        found = with_precision(found, self.precision)
        if not self.sentences:
            return found
        sentences = [{"source": each.source, self.called: each.text} for each in self.sentences]
        return {**found, "sentences": sentences}


class Translator:
    """A model, loaded once, that translates lines.

    A translation depends on its line alone: not on the batch, the other lines or the number of workers.

    A model is trained on lines that mostly hold one sentence. `split` decides about lines of several: "on"
    translates each sentence alone and joins the translations, "off" leaves lines as they are, and "auto"
    splits the texts of `texts`, and of other lines those longer than the model was trained on (`split_above`
    in its generation.json) or can read. Length limits and penalties then apply to each sentence.

    Args:
        model: a model or run folder, or what `regard.load` returns; the included model by default.
    """

    task: ClassVar[str] = "translation"  # the key of its prefix in generation.json, as in T5's folders
    does: ClassVar[str] = "translates"
    answer: ClassVar[type[Translation]] = Translation
    max_characters: ClassVar[int] = MAX_CHARACTERS

    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel | None = None,
        *,
        controls: Controls = UNSET,
        options: TranslationOptions = OPTIONS,
        runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
    ) -> None:
        """Load the model; controls that are not given have the model's defaults."""
        if options.engine != "regard":
            refuse_device(runtime)
            runtime = replace(runtime, device="cpu")
        languages = options.source_lang, options.target_lang
        self._load(
            model,
            controls,
            options,
            runtime,
            options.split,
            by_regard=options.engine == "regard",
            languages=languages,
        )

    def _load(
        self,
        model: AnyModel | None,
        controls: Controls,
        options: SummaryOptions,
        runtime: DecodingRuntime,
        split: SplitMode | None,
        by_regard: bool = True,
        languages: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """Load the model; without `split` texts are not split into sentences."""
        self.loaded = in_languages(open_model(model, runtime), *languages)
        self.device = self.loaded.model.device
        self.workers = choose_workers(options.workers, self.device, runtime.threads)
        self.model = model_that(self.does, SequenceToSequence, self.loaded)
        self._threads_are_chosen = runtime.threads is not None or options.workers is not None
        self._engine: CTranslate2Engine | None = None
        self.precision: Precision = (
            compute_in(runtime.precision, self.model, self.device) if by_regard else runtime.precision
        )
        defaults = decoding_defaults(GenerationSettings, self.loaded)
        self.options = options
        self.settings = self._settings(defaults.with_(n_best=1).changed(controls), controls)
        self._splitter = WholeTexts() if split is None else Splitter(split, self.settings, self._are_long)
        source, target = self.loaded.tokenizers.source, self.loaded.tokenizers.target
        default = (
            default_prefix(self.settings.prefixes, self.task) if options.prefix is None else options.prefix
        )
        self._prefix = prefix_of(default, source, lower_capitals=self.settings.lower_capitals)
        self._pad_id, self._eos_id = target.pad_id, target.eos_id
        drafter = drafter_of(self.settings, self.loaded, self.device, (target.bos_id,))
        self._strategy = translation_search(self.settings, self.loaded.tokenizers, drafter)
        self._started: DecodingPool[Job, list[list[Hypothesis]]] | None = None
        if not by_regard:
            self._engine_search = engine_search(self.settings, self.loaded.tokenizers, self._strategy)
            self._engine = opened_engine(self.loaded, runtime, self.workers)

    @property
    def _most_positions(self) -> int:
        """How many tokens of a source can be read, its end included."""
        own = None if self._engine is None else self._engine.positions
        return min(max_positions([self.model]), own or sys.maxsize)

    def _settings(self, settings: GenerationSettings, controls: Controls) -> GenerationSettings:
        """The settings with `n_best` candidates; the beam is widened for them, unless its size was given."""
        n_best = self.options.n_best
        searches = settings.takes_beam_size and not settings.samples
        if searches and not controls.has_beam and controls.temperature != 0:
            settings = settings.widened(n_best)
        return settings.with_(n_best=samples_for(settings, n_best))

    def __call__(
        self, lines: Iterable[str], *, done: Callable[[int], None] | None = None
    ) -> Iterator[Translation]:
        """A translation for each line, in order; `lines` may be endless.

        `done` is called with the number of lines of each finished batch.

        Raises:
            DataError: a line is not a str, or `lines` is one.
        """
        return self.in_chunks(chunks(several(lines, ONE_TEXT)), done=done)

    def in_chunks(
        self, chunks: Iterable[Sequence[str]], *, done: Callable[[int], None] | None = None
    ) -> Iterator[Translation]:
        """The translations of lines that come in chunks; those of a chunk are decoded together."""
        return self._in_order(chunks, self._splitter.lines, done)

    def answers(self, lines: Sequence[str], first: int) -> Iterator[Translation]:
        """The translations of the lines of one chunk, whose first has the number `first`, from 1."""
        yield from self._translate(lines, [each or [""] for each in self._splitter.lines(lines)], first, None)

    def texts(self, texts: Iterable[str]) -> Iterator[Translation]:
        """A translation for each text, in order. A text may have several sentences and lines.

        Raises:
            DataError: a text is not a str, or `texts` is one.
        """
        return self._in_order(chunks(several(texts)), self._splitter.texts)

    def _in_order(
        self,
        chunks: Iterable[Sequence[str]],
        split_into_pieces: Callable[[Sequence[str]], list[list[str]]],
        done: Callable[[int], None] | None = None,
    ) -> Iterator[Translation]:
        for first, chunk in numbered(chunks):
            pieces = [each or [""] for each in split_into_pieces(chunk)]
            yield from self._translate(chunk, pieces, first, done)

    def _translate(
        self,
        lines: Sequence[str],
        pieces: Sequence[Sequence[str]],
        first: int,
        done: Callable[[int], None] | None,
    ) -> Iterator[Translation]:
        numbers = [number for number, each in enumerate(pieces, start=first) for _ in each]
        flat = [piece for each in pieces for piece in each]
        each_found = iter(self.of_pieces(flat, numbers, first_index=first - 1, done=done))
        for number, (line, of_line) in enumerate(zip(lines, pieces, strict=True), start=first):
            yield self.joined(line, of_line, list(islice(each_found, len(of_line))), number=number)

    def pieces(self, texts: Sequence[str]) -> list[list[str]]:
        """The pieces of each text that are translated alone: sentences, or lines; at least one."""
        return [each or [""] for each in self._splitter.texts(texts)]

    def of_pieces(
        self,
        pieces: Sequence[str],
        numbers: Sequence[int],
        *,
        first_index: int = 0,
        done: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """The translation of each piece; `numbers` are those of their lines.

        A sample depends on its place, which is counted from `first_index`.
        """
        sources = self._ids(pieces, numbers)
        if self._engine is not None:
            found = self._engine.decode(sources, self._engine_search, batch_tokens=self.options.batch_tokens)
            if done is not None:
                _lines_done(numbers, done)(range(len(numbers)))
            return [self._translated(*each) for each in zip(numbers, pieces, found, strict=True)]
        pool = self._pool(len(sources))
        with one_thread() if pool is None and self._is_faster_with_one_thread else nullcontext():
            found = decode_all(
                self._strategy,
                self.model,
                sources,
                batch_tokens=self.options.batch_tokens,
                pad_id=self._pad_id,
                eos_id=self._eos_id,
                first_index=first_index,
                pool=pool,
                decoded=None if done is None else _lines_done(numbers, done),
            )
        return [self._translated(*each) for each in zip(numbers, pieces, found, strict=True)]

    def most_tokens(self, src_len: int) -> int:
        """How many tokens all hypotheses of a source of this length can have together."""
        limit = min(self._strategy.limits.longest(src_len), max_positions([self.model]))
        return src_len + width_of(self._strategy) * limit

    def running(self, *, alignments: bool = False) -> RunningAnswers[str, Translation]:
        """Pieces of many texts, decoded together; each has the translation that it has alone.

        With `alignments` the candidates have theirs.

        Raises:
            ConfigError: the model has no attention to its source, or another engine decodes.
        """
        if self._engine is not None:
            raise ConfigError("another engine has no running batch", "take engine = 'regard'")
        if alignments:
            source_attentions(self.model)
        batch = RunningTranslations(self._strategy, self.model, pad_id=self._pad_id, eos_id=self._eos_id)

        def queue(piece: str, place: int) -> int:
            [ticket] = batch.add(self._ids([piece], [1]), first_index=place)
            return ticket

        def answer(piece: str, found: Sequence[Hypothesis]) -> Translation:
            return self._translated(1, piece, found, alignments=alignments)

        return RunningAnswers(batch, queue, answer)

    def too_long(self, pieces: Sequence[str]) -> list[bool]:
        """True for each piece of which only the beginning would be read."""
        most = self._most_positions - 1
        lengths = map(len, self._encoded(pieces))
        return [
            len(piece) > self.max_characters or length > most
            for piece, length in zip(pieces, lengths, strict=True)
        ]

    def _translated(
        self, number: int, piece: str, hypotheses: Sequence[Hypothesis], *, alignments: bool = False
    ) -> Translation:
        """The translation of a piece; empty if the piece is."""
        empty = not piece or piece.isspace()
        src_ids = self._encoded([piece])[0][: self._most_positions - 1] if alignments else None
        candidates = [] if empty else self._candidates(hypotheses, src_ids)
        candidates = candidates or [replace(EMPTY_CANDIDATE, alignment=self._alignment(src_ids, ()))]
        return self.answer(line=number, source=piece, candidates=tuple(candidates), precision=self.precision)

    def joined(
        self, line: str, pieces: Sequence[str], sentences: Sequence[Translation], *, number: int = 1
    ) -> Translation:
        """The translation of a line, joined from those of its pieces."""
        if len(sentences) == 1:
            return replace(sentences[0], source=line)
        sampled = self.settings.samples and self.settings.mbr is None
        choose = in_step if sampled else combinations
        chosen = choose([each.candidates for each in sentences], self.options.n_best)
        candidates = [as_one(joined(pieces, [one.text for one in each]), each) for each in chosen]
        bare = tuple(replace(each, source=each.source.strip()) for each in sentences)
        return replace(sentences[0], source=line, candidates=tuple(candidates), sentences=bare)

    def _pool(self, lines: int) -> DecodingPool[Job, list[list[Hypothesis]]] | None:
        """The workers, started when there are enough lines for them."""
        if self.workers == 1 or lines < FEW * self.workers:
            return None
        if self._started is None:
            fast_step(self.model)  # built before the fork, so that the workers share it
            self._started = DecodingPool(Decoder(self._strategy, [self.model]), self.workers)
        return self._started

    @cached_property
    def _is_faster_with_one_thread(self) -> bool:
        """True if the user has set neither threads nor workers, and the model is small."""
        if self._threads_are_chosen or self.device.type != "cpu":
            return False
        return count_parameters(self.model) < MANY_PARAMETERS

    def _ids(self, lines: Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
        """The source ids of each line or sentence; what is too long is truncated, with a warning."""
        most = self._most_positions - 1
        ids = self._encoded(lines)
        for number, line, of_line in zip(numbers, lines, ids, strict=True):
            if len(line) > self.max_characters or len(of_line) > most:
                console.warn(
                    f"line {number} is too long ({len(line):,} characters): only its beginning is read"
                )
        return [of_line[:most] for of_line in ids]

    def _encoded(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of the first `max_characters` characters of each line."""
        truncated = [line[: self.max_characters] for line in lines]
        return self._prefix.encoded(truncated, self.loaded.tokenizers.source)

    def _are_long(self, lines: Sequence[str]) -> list[bool]:
        """True for each line that is longer than the model was trained on, or can read."""
        most = min(self._most_positions - 1, self.settings.split_above or sys.maxsize)
        lengths = map(len, self._encoded(lines))
        return [
            len(line) > self.max_characters or length > most
            for line, length in zip(lines, lengths, strict=True)
        ]

    def _alignment(self, src_ids: Sequence[int] | None, tgt_ids: Sequence[int]) -> TokenAlignment | None:
        """The alignment of a candidate; None without `src_ids`."""
        if src_ids is None:
            return None
        return token_alignment(self.model, self.loaded.tokenizers, src_ids, tgt_ids)

    def _candidates(
        self, found: Sequence[Hypothesis], src_ids: Sequence[int] | None = None
    ) -> list[TranslationCandidate]:
        """The candidates; with `src_ids`, those of the piece, they have alignments."""
        tokenizer = self.loaded.tokenizers.target
        texts = [tokenizer.decode(each.ids) for each in found]
        return [
            TranslationCandidate(
                text=text,
                score=found[place].score if score is None else score,
                log_prob=found[place].log_prob,
                tokens=tuple(tokenizer.tokens(found[place].ids)),
                token_log_probs=tuple(found[place].token_log_probs),
                alignment=self._alignment(src_ids, found[place].ids),
            )
            for place, text, score in selected_texts(self.settings, texts, self.options.n_best)
        ]


def _lines_done(numbers: Sequence[int], done: Callable[[int], None]) -> Callable[[Sequence[int]], None]:
    """Count the lines whose last sentence is decoded, from the places of decoded sentences."""
    left = Counter(numbers)

    def decoded(places: Sequence[int]) -> None:
        batch = Counter(numbers[place] for place in places)
        left.subtract(batch)
        done(sum(not left[number] for number in batch))

    return decoded


@checked
@keyword_fields
def translate(
    text: str | Iterable[str],
    *,
    model: AnyModel | None = None,
    controls: Controls = UNSET,
    options: TranslationOptions = OPTIONS,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> OneOrSeveral:
    """The translation of a text, or of each text of several, by `model` or the included model.

    A text may have several sentences and lines: each sentence is translated alone, and the translations are
    joined by the spaces and line breaks between the sentences; with `split` "off" each line is. For many
    calls keep a `Translator`, which also gives scores.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` returns; the included model by default.

    Returns:
        str for a str, list[str] for several; with `n_best` above 1 list[str] and list[list[str]].
    """
    return answers(Translator(model, controls=controls, options=options, runtime=runtime), text)


@checked
@keyword_fields
def translate_file(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel | None = None,
    controls: Controls = UNSET,
    as_json: bool = False,
    options: TranslationOptions = OPTIONS,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> int:
    """Translate a file line by line into another, which appears when it is complete; returns the line count.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        output: the file to write.
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        as_json: write a line of JSON for each line.
    """
    translator = Translator(model, controls=controls, options=options, runtime=runtime)
    return write_lines(
        translator(stream_lines(input)), Path(output), ranked=options.n_best > 1, as_json=as_json
    )


def answers(translator: Translator, text: str | Iterable[str]) -> OneOrSeveral:
    """The translation of a text, or a list for several; with `n_best` above 1 lists of candidates."""
    found = translator.texts([text] if isinstance(text, str) else text)
    if translator.options.n_best == 1:
        texts = [each.text for each in found]
        return texts[0] if isinstance(text, str) else texts
    lists = [[candidate.text for candidate in each.candidates] for each in found]
    return lists[0] if isinstance(text, str) else lists


def write_lines(
    translations: Iterable[Translation], output: Path, *, ranked: bool = False, as_json: bool = False
) -> int:
    """Write translations to a file, which appears under its name when the last is written."""
    special = output.exists() and not output.is_file()  # a device or a named pipe is opened itself
    partial = output if special else output.with_name(f".{output.name}.partial")
    count = 0
    try:
        with _naming(output):
            file = partial.open("w", encoding="utf-8", newline="\n")
        with file:
            for translation in translations:
                with _naming(output):
                    file.write(output_lines(translation, ranked=ranked, as_json=as_json))
                count += 1
        if not special:
            with _naming(output):
                os.replace(partial, output)
    except BaseException:
        if not special:
            partial.unlink(missing_ok=True)
        raise
    return count


@contextmanager
def _naming(output: Path) -> Iterator[None]:
    """Raise an OSError as a DataError that names the file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{output}: {error.strerror}", "choose another --output") from None


def output_lines(translation: Translation, *, ranked: bool = False, as_json: bool = False) -> str:
    """A translation as a line of text; `ranked`: LINE, SCORE, TEXT for each candidate; or a line of JSON."""
    if as_json:
        return json.dumps(translation.to_dict(), ensure_ascii=False) + "\n"
    if not ranked:
        return _one_line(translation.text) + "\n"
    return "".join(
        f"{translation.line}\t{each.score:.4f}\t{_one_line(each.text)}\n" for each in translation.candidates
    )


def _one_line(text: str) -> str:
    """The text in one line: models of bytes and characters can output line feeds."""
    return text.replace("\r", " ").replace("\n", " ")
