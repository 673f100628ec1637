"""Translate: text in, text out; a line for a line, in order, whatever stands beside it."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from regard import console
from regard.decoding.batches import Decoder, Job, decode_all, reach
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.pool import Pool
from regard.decoding.settings import GenerationSettings
from regard.errors import DataError
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.models.straight import straight
from regard.recipe import read
from regard.verbs.box import load, model_that
from regard.verbs.computing import USUAL, Computing
from regard.verbs.controls import UNSET, Controls
from regard.verbs.device import choose_device, choose_workers
from regard.verbs.drafting import drafter_of
from regard.verbs.lines import stream
from regard.verbs.precision import compute_in
from regard.verbs.prefixes import prefix_of, usual_prefix
from regard.verbs.samples import samples_for, told, translating
from regard.verbs.spread import spread

FEW = 32  # lines for each worker, fewer than which are decoded without them
CHUNK = 1024  # lines that are read, sorted by length and decoded before the first of them is given out
MAX_CHARACTERS = 5000  # of a line; what follows is left out, which is said


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One translation of a line."""

    text: str
    score: float  # by which a beam ranks candidates: log_prob by the length penalty
    log_prob: float  # nats, the end of the sentence included
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]  # the end's too, where there is one


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A line and its candidates, best first; an empty line has the empty text for its only one."""

    called: ClassVar[str] = "translation"
    line: int
    source: str
    candidates: tuple[Candidate, ...]

    @property
    def text(self) -> str:
        return self.candidates[0].text

    def to_dict(self) -> dict[str, Any]:
        """As `regard translate --json` prints it."""
        hypotheses = [
            {**asdict(each), "tokens": list(each.tokens), "token_log_probs": list(each.token_log_probs)}
            for each in self.candidates
        ]
        return {"line": self.line, "source": self.source, self.called: self.text, "hypotheses": hypotheses}


class Translator:
    """A model, loaded once, that translates lines.

    What it says of a line depends on that line alone: not on `batch_tokens`, nor on the line's neighbours,
    nor on `workers`, the processes that share many lines (None: one for each core of a CPU, but only one
    where `threads` are given). With precision "int8" products are of whole numbers of 8 bits, on a CPU.
    `prefix` stands before each line; where it is not given, what the model's folder says.
    """

    task: ClassVar[str] = "translation"  # as T5's folders call it
    does: ClassVar[str] = "translates"
    answer: ClassVar[type[Translation]] = Translation
    max_characters: ClassVar[int] = MAX_CHARACTERS

    @spread
    def __init__(
        self,
        model: str | Path | None = None,
        *,
        controls: Controls = UNSET,
        batch_tokens: int = 4096,
        n_best: int = 1,
        prefix: str | None = None,
        workers: int | None = None,
        computing: Computing = USUAL,
    ) -> None:
        self.device = choose_device(computing.device, computing.threads)
        self.workers = choose_workers(workers, self.device, computing.threads)
        self.loaded = load(model, self.device)
        self.model = model_that(self.does, SequenceToSequence, self.loaded)
        compute_in(computing.precision, self.model, self.device)
        defaults = read(GenerationSettings, self.loaded.generation, "generation.json")
        self.settings = self._settings(defaults.with_(n_best=1).changed(controls), controls, n_best)
        self.n_best, self.batch_tokens = n_best, batch_tokens
        usual = usual_prefix(self.settings.prefixes, self.task) if prefix is None else prefix
        lower = self.settings.lower_capitals
        self._prefix = prefix_of(usual, self.loaded.tokenizers.source, lower_capitals=lower)
        target = self.loaded.tokenizers.target
        self._pad_id, self._eos_id = target.pad_id, target.eos_id
        drafter = drafter_of(self.settings, self.loaded, self.device, (target.bos_id,))
        self._strategy = translating(self.settings, self.loaded.tokenizers, drafter)
        self._started: Pool[Job, list[list[Hypothesis]]] | None = None

    def _settings(self, changed: GenerationSettings, given: Controls, n_best: int) -> GenerationSettings:
        """With as many candidates as are asked for; a beam is widened for them, unless its size was given."""
        if not changed.draws and given.beam_size is None and given.temperature != 0:
            changed = changed.with_(beam_size=max(changed.beam_size, n_best))
        return changed.with_(n_best=samples_for(changed, n_best))

    def __call__(self, lines: Iterable[str]) -> Iterator[Translation]:
        """A translation for each line, in order; `lines` may be without end."""
        lines = iter(lines)
        return self.in_chunks(iter(lambda: list(islice(lines, CHUNK)), []))

    def in_chunks(self, chunks: Iterable[Sequence[str]]) -> Iterator[Translation]:
        """The same for lines that come several at a time: all of a chunk are decoded together."""
        first = 0
        for chunk in chunks:
            yield from self._translate(chunk, first)
            first += len(chunk)

    def _translate(self, lines: Sequence[str], first: int) -> Iterator[Translation]:
        sources = self._ids(lines, first)
        found = decode_all(
            self._strategy,
            self.model,
            sources,
            batch_tokens=self.batch_tokens,
            pad_id=self._pad_id,
            eos_id=self._eos_id,
            first_index=first,
            pool=self._pool(len(sources)),
        )
        for number, (line, hypotheses) in enumerate(zip(lines, found, strict=True), start=first + 1):
            empty = not line or line.isspace()
            candidates = [NOTHING] if empty else self._candidates(hypotheses) or [NOTHING]
            yield self.answer(line=number, source=line, candidates=tuple(candidates))

    def _pool(self, lines: int) -> Pool[Job, list[list[Hypothesis]]] | None:
        """The workers, started when there is enough for them to do."""
        if self.workers == 1 or lines < FEW * self.workers:
            return None
        if self._started is None:
            straight(self.model)  # made here, the workers share it
            self._started = Pool(Decoder(self._strategy, [self.model]), self.workers)
        return self._started

    def _ids(self, lines: Sequence[str], first: int) -> list[list[int]]:
        """The source ids of each line; of one that is too long those of its beginning, and that is said.

        White space around a line is no part of the sentence: a model has hardly ever seen any.
        """
        most = reach([self.model]) - 1
        tokenizer = self.loaded.tokenizers.source
        texts = [self._prefix.before(line[: self.max_characters].strip()) for line in lines]
        ids = [self._prefix.first(each, tokenizer) for each in tokenizer.encode_batch(texts)]
        for number, (line, of_line) in enumerate(zip(lines, ids, strict=True), start=first + 1):
            if len(line) > self.max_characters or len(of_line) > most:
                console.warn(
                    f"line {number} is too long ({len(line):,} characters): only its beginning is read"
                )
        return [of_line[:most] for of_line in ids]

    def _candidates(self, found: Sequence[Hypothesis]) -> list[Candidate]:
        tokenizer = self.loaded.tokenizers.target
        texts = [tokenizer.decode(each.ids) for each in found]
        return [
            Candidate(
                text=text,
                score=found[place].score if score is None else score,
                log_prob=found[place].log_prob,
                tokens=tuple(tokenizer.tokens(found[place].ids)),
                token_log_probs=tuple(found[place].token_log_probs),
            )
            for place, text, score in told(self.settings, texts, self.n_best)
        ]


NOTHING = Candidate(text="", score=0.0, log_prob=0.0, tokens=(), token_log_probs=())


@spread
def translate(
    text: str | Iterable[str],
    *,
    model: str | Path | None = None,
    controls: Controls = UNSET,
    batch_tokens: int = 4096,
    n_best: int = 1,
    prefix: str | None = None,
    workers: int | None = None,
    computing: Computing = USUAL,
) -> Any:
    """The translation of a text, or of each text of several, by `model` or the model in the box.

    A text is one line. With `n_best` above 1 there is a list of that many, best first, in the place of
    each translation. For many calls keep a `Translator`, which also tells scores.

    Returns:
        str for a str, list[str] for several; with `n_best` above 1 list[str] and list[list[str]].
    """
    translator = Translator(
        model,
        controls=controls,
        batch_tokens=batch_tokens,
        n_best=n_best,
        prefix=prefix,
        workers=workers,
        computing=computing,
    )
    return answers(translator, text, n_best)


@spread
def translate_file(
    input: str | Path,
    output: str | Path,
    *,
    model: str | Path | None = None,
    controls: Controls = UNSET,
    batch_tokens: int = 4096,
    n_best: int = 1,
    prefix: str | None = None,
    as_json: bool = False,
    workers: int | None = None,
    computing: Computing = USUAL,
) -> int:
    """Translate a file line by line into another, which appears when it is whole; the number of lines."""
    translator = Translator(
        model,
        controls=controls,
        batch_tokens=batch_tokens,
        n_best=n_best,
        prefix=prefix,
        workers=workers,
        computing=computing,
    )
    return write(translator(stream(input)), Path(output), ranked=n_best > 1, as_json=as_json)


def answers(translator: Translator, text: str | Iterable[str], n_best: int) -> Any:
    """The text that it gives for a text, or of each of several; with `n_best` above 1 a list of them."""
    found = translator([text] if isinstance(text, str) else text)
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
