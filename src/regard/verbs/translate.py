"""Translate: text in, text out; a line for a line, in order, whatever stands beside it."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from regard import console
from regard.decoding.batches import Decoder, Job, decode_all, reach
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.pool import DecodingPool
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError, DataError
from regard.fast.decoding_step import fast_step
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.box import model_that
from regard.verbs.candidates import NOTHING, TranslationCandidate, as_one, combinations, in_step
from regard.verbs.computing import USUAL, Computing
from regard.verbs.controls import UNSET, Controls
from regard.verbs.decoding_defaults import decoding_defaults
from regard.verbs.device import choose_workers
from regard.verbs.draft_model import drafter_of
from regard.verbs.keyword_fields import keyword_fields
from regard.verbs.lines import chunks, stream
from regard.verbs.precision import Precision, compute_in, with_precision
from regard.verbs.prefixes import prefix_of, usual_prefix
from regard.verbs.search_results import samples_for, selected_texts, translation_search
from regard.verbs.sentence_splitting import Split, Splitter, WholeTexts, joined
from regard.verbs.texts import several

FEW = 32  # lines for each worker, fewer than which are decoded without them
ONE_TEXT = "put it into a list: [text]; Translator.texts([text]) splits it into sentences"
MAX_CHARACTERS = 5000  # of a line; what follows is left out, which is said


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A line and its candidates, best first; an empty line has the empty text for its only one.

    `sentences` are those that were translated one by one, if it was split; the line's candidates are theirs
    put together. Scores and log-probabilities are those of `precision`.
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
        """As `regard translate --json` prints it."""
        hypotheses = [
            {**asdict(each), "tokens": list(each.tokens), "token_log_probs": list(each.token_log_probs)}
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

    What it says of a line depends on that line alone: not on `batch_tokens`, nor on the line's neighbours,
    nor on `workers`, the processes that share many lines (None: one for each core of a CPU, but only one
    where `threads` are given). With precision "int8" products are of whole numbers of 8 bits, on a CPU.

    A model is trained on lines that mostly hold one sentence. `split` says what is done with several: "on"
    translates each sentence alone and puts them together as they stood, "off" leaves lines as they are, and
    "auto" splits what `texts` is given, and of other lines those longer than the model was trained on
    (`split_above` in its generation.json) or than it can read. Limits and penalties are then of a sentence.

    Args:
        model: a model or run folder, or what `regard.load` gives; the model in the box without.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says without.
        split: "auto", "on" or "off", as above.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.
    """

    task: ClassVar[str] = "translation"  # as T5's folders call it
    does: ClassVar[str] = "translates"
    answer: ClassVar[type[Translation]] = Translation
    splits: ClassVar[bool] = True  # False: a text is a document
    max_characters: ClassVar[int] = MAX_CHARACTERS

    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel | None = None,
        *,
        controls: Controls = UNSET,
        batch_tokens: int = 4096,
        n_best: int = 1,
        prefix: str | None = None,
        split: Split = "auto",
        workers: int | None = None,
        computing: Computing = USUAL,
    ) -> None:
        """Load the model; controls that are not given are its own."""
        self.loaded = open_model(model, computing.device, computing.threads, precision=computing.precision)
        self.device = self.loaded.model.device
        self.workers = choose_workers(workers, self.device, computing.threads)
        self.model = model_that(self.does, SequenceToSequence, self.loaded)
        self.precision: Precision = compute_in(computing.precision, self.model, self.device)
        defaults = decoding_defaults(GenerationSettings, self.loaded)
        self.settings = self._settings(defaults.with_(n_best=1).changed(controls), controls, n_best)
        self.n_best, self.batch_tokens = n_best, batch_tokens
        self._splitter = self._splitter_for(split)
        usual = usual_prefix(self.settings.prefixes, self.task) if prefix is None else prefix
        lower = self.settings.lower_capitals
        self._prefix = prefix_of(usual, self.loaded.tokenizers.source, lower_capitals=lower)
        target = self.loaded.tokenizers.target
        self._pad_id, self._eos_id = target.pad_id, target.eos_id
        drafter = drafter_of(self.settings, self.loaded, self.device, (target.bos_id,))
        self._strategy = translation_search(self.settings, self.loaded.tokenizers, drafter)
        self._started: DecodingPool[Job, list[list[Hypothesis]]] | None = None

    def _settings(self, changed: GenerationSettings, given: Controls, n_best: int) -> GenerationSettings:
        """With as many candidates as are asked for; a beam is widened for them, unless its size was given."""
        if not changed.draws and given.beam_size is None and given.temperature != 0:
            changed = changed.with_(beam_size=max(changed.beam_size, n_best))
        return changed.with_(n_best=samples_for(changed, n_best))

    def _splitter_for(self, split: Split) -> Splitter | WholeTexts:
        splitter = Splitter(split, self.settings, self._are_long)
        if split == "on" and not self.splits:
            raise ConfigError(f"split = 'on': this {self.does} whole texts", "leave split out")
        return splitter if self.splits else WholeTexts()

    def __call__(
        self, lines: Iterable[str], *, done: Callable[[int], None] | None = None
    ) -> Iterator[Translation]:
        """A translation for each line, in order; `lines` may be without end.

        `done` is called with a number of lines whenever so many more are translated.

        Raises:
            DataError: a line is no string, or `lines` is one.
        """
        return self.in_chunks(chunks(several(lines, ONE_TEXT)), done=done)

    def in_chunks(
        self, chunks: Iterable[Sequence[str]], *, done: Callable[[int], None] | None = None
    ) -> Iterator[Translation]:
        """The same for lines that come several at a time: all of a chunk are decoded together."""
        return self._in_order(chunks, self._splitter.lines, done)

    def texts(self, texts: Iterable[str]) -> Iterator[Translation]:
        """A translation for each text, in order. A text may have several sentences and lines.

        Raises:
            DataError: a text is no string, or `texts` is one.
        """
        return self._in_order(chunks(several(texts)), self._splitter.texts)

    def _in_order(
        self,
        chunks: Iterable[Sequence[str]],
        split: Callable[[Sequence[str]], list[list[str]]],
        done: Callable[[int], None] | None = None,
    ) -> Iterator[Translation]:
        first = 0
        for chunk in chunks:
            pieces = [each or [""] for each in split(chunk)]
            yield from self._translate(chunk, pieces, first, done)
            first += len(chunk)

    def _translate(
        self,
        lines: Sequence[str],
        pieces: Sequence[Sequence[str]],
        first: int,
        done: Callable[[int], None] | None,
    ) -> Iterator[Translation]:
        numbers = [number for number, each in enumerate(pieces, start=first + 1) for _ in each]
        flat = [piece for each in pieces for piece in each]
        sources = self._ids(flat, numbers)
        found = decode_all(
            self._strategy,
            self.model,
            sources,
            batch_tokens=self.batch_tokens,
            pad_id=self._pad_id,
            eos_id=self._eos_id,
            first_index=first,
            pool=self._pool(len(sources)),
            decoded=None if done is None else _lines_done(numbers, done),
        )
        each_found = iter(zip(flat, found, strict=True))
        for number, (line, of_line) in enumerate(zip(lines, pieces, strict=True), start=first + 1):
            sentences = [self._translated(number, *each) for each in islice(each_found, len(of_line))]
            yield self._together(number, line, of_line, sentences)

    def _translated(self, number: int, piece: str, hypotheses: Sequence[Hypothesis]) -> Translation:
        """The translation of a piece, which is empty if that is."""
        empty = not piece or piece.isspace()
        candidates = [NOTHING] if empty else self._candidates(hypotheses) or [NOTHING]
        return self.answer(line=number, source=piece, candidates=tuple(candidates), precision=self.precision)

    def _together(
        self, number: int, line: str, pieces: Sequence[str], sentences: Sequence[Translation]
    ) -> Translation:
        """The translation of a line, from those of its pieces."""
        if len(sentences) == 1:
            return replace(sentences[0], source=line)
        drawn = self.settings.draws and self.settings.mbr is None
        choose = in_step if drawn else combinations
        chosen = choose([each.candidates for each in sentences], self.n_best)
        candidates = [as_one(joined(pieces, [one.text for one in each]), each) for each in chosen]
        bare = tuple(replace(each, source=each.source.strip()) for each in sentences)
        return replace(sentences[0], source=line, candidates=tuple(candidates), sentences=bare)

    def _pool(self, lines: int) -> DecodingPool[Job, list[list[Hypothesis]]] | None:
        """The workers, started when there is enough for them to do."""
        if self.workers == 1 or lines < FEW * self.workers:
            return None
        if self._started is None:
            fast_step(self.model)  # made here, the workers share it
            self._started = DecodingPool(Decoder(self._strategy, [self.model]), self.workers)
        return self._started

    def _ids(self, lines: Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
        """The source ids of each line or sentence; of one that is too long those of its beginning, and that
        is said with the number of its line.
        """
        most = reach([self.model]) - 1
        ids = self._encoded(lines)
        for number, line, of_line in zip(numbers, lines, ids, strict=True):
            if len(line) > self.max_characters or len(of_line) > most:
                console.warn(
                    f"line {number} is too long ({len(line):,} characters): only its beginning is read"
                )
        return [of_line[:most] for of_line in ids]

    def _encoded(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line, of at most as many characters as are read."""
        read = [line[: self.max_characters] for line in lines]
        return self._prefix.encoded(read, self.loaded.tokenizers.source)

    def _are_long(self, lines: Sequence[str]) -> list[bool]:
        """Which lines are longer than those that the model was trained on, or than it can read."""
        most = min(reach([self.model]) - 1, self.settings.split_above or sys.maxsize)
        lengths = map(len, self._encoded(lines))
        return [
            len(line) > self.max_characters or length > most
            for line, length in zip(lines, lengths, strict=True)
        ]

    def _candidates(self, found: Sequence[Hypothesis]) -> list[TranslationCandidate]:
        tokenizer = self.loaded.tokenizers.target
        texts = [tokenizer.decode(each.ids) for each in found]
        return [
            TranslationCandidate(
                text=text,
                score=found[place].score if score is None else score,
                log_prob=found[place].log_prob,
                tokens=tuple(tokenizer.tokens(found[place].ids)),
                token_log_probs=tuple(found[place].token_log_probs),
            )
            for place, text, score in selected_texts(self.settings, texts, self.n_best)
        ]


def _lines_done(numbers: Sequence[int], done: Callable[[int], None]) -> Callable[[Sequence[int]], None]:
    """From the places of sentences that are decoded to how many lines are: those with none left."""
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
    batch_tokens: int = 4096,
    n_best: int = 1,
    prefix: str | None = None,
    split: Split = "auto",
    workers: int | None = None,
    computing: Computing = USUAL,
) -> Any:
    """The translation of a text, or of each text of several, by `model` or the model in the box.

    A text may have several sentences and lines: each sentence is translated alone, and they are put together
    with the spaces and line breaks that stood between them; with `split` "off" only lines are apart. With
    `n_best` above 1 there is a list of that many, best first, in the place of each translation. For many
    calls keep a `Translator`, which also tells scores.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` gives; the model in the box without.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says without.
        split: "auto" and "on" translate each sentence alone, "off" each line.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.

    Returns:
        str for a str, list[str] for several; with `n_best` above 1 list[str] and list[list[str]].
    """
    translator = Translator(
        model,
        controls=controls,
        batch_tokens=batch_tokens,
        n_best=n_best,
        prefix=prefix,
        split=split,
        workers=workers,
        computing=computing,
    )
    return answers(translator, text, n_best)


@checked
@keyword_fields
def translate_file(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel | None = None,
    controls: Controls = UNSET,
    batch_tokens: int = 4096,
    n_best: int = 1,
    prefix: str | None = None,
    split: Split = "auto",
    as_json: bool = False,
    workers: int | None = None,
    computing: Computing = USUAL,
) -> int:
    """Translate a file line by line into another, which appears when it is whole; the number of lines.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        output: the file to write.
        model: a model or run folder, or what `regard.load` gives; the model in the box without.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        n_best: candidates of each text; a beam is as wide as that at least.
        prefix: what stands before each text; what the model's folder says without.
        split: "on" translates each sentence of a line alone, "off" a line as it is; "auto" splits long lines.
        as_json: write a line of JSON for each line.
        workers: processes that share many lines; one for each core of a CPU without, one where `threads` are
            given.
    """
    translator = Translator(
        model,
        controls=controls,
        batch_tokens=batch_tokens,
        n_best=n_best,
        prefix=prefix,
        split=split,
        workers=workers,
        computing=computing,
    )
    return write(translator(stream(input)), Path(output), ranked=n_best > 1, as_json=as_json)


def answers(translator: Translator, text: str | Iterable[str], n_best: int) -> Any:
    """The text that it gives for a text, or of each of several; with `n_best` above 1 a list of them."""
    found = translator.texts([text] if isinstance(text, str) else text)
    texts = [
        each.text if n_best == 1 else [candidate.text for candidate in each.candidates] for each in found
    ]
    return texts[0] if isinstance(text, str) else texts


def write(
    translations: Iterable[Translation], output: Path, *, ranked: bool = False, as_json: bool = False
) -> int:
    """Write translations into a file, which appears under its name when the last is written."""
    special = output.exists() and not output.is_file()  # a device or a named pipe is written to as it is
    partial = output if special else output.with_name(f".{output.name}.partial")
    count = 0
    try:
        with _blamed_on(output):
            file = partial.open("w", encoding="utf-8", newline="\n")
        with file:
            for translation in translations:
                with _blamed_on(output):
                    file.write(printed(translation, ranked=ranked, as_json=as_json))
                count += 1
        if not special:
            with _blamed_on(output):
                os.replace(partial, output)
    except BaseException:
        if not special:
            partial.unlink(missing_ok=True)
        raise
    return count


@contextmanager
def _blamed_on(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{output}: {error.strerror}", "choose another --output") from None


def printed(translation: Translation, *, ranked: bool = False, as_json: bool = False) -> str:
    """A translation as a line of text; `ranked`: LINE, SCORE, TEXT for each candidate; or a line of JSON."""
    if as_json:
        return json.dumps(translation.to_dict(), ensure_ascii=False) + "\n"
    if not ranked:
        return _one_line(translation.text) + "\n"
    return "".join(
        f"{translation.line}\t{each.score:.4f}\t{_one_line(each.text)}\n" for each in translation.candidates
    )


def _one_line(text: str) -> str:
    """A model of bytes or characters can say a line feed; a line of output must stay one."""
    return text.replace("\r", " ").replace("\n", " ")
