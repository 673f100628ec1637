"""Tag: sentences in, a label for each of their words out; text or CoNLL-U."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from regard.data.conllu import COLUMNS, Sentence, SentenceReader, read_sentences
from regard.data.tagged import encode_word, split_words, tagged_texts, word_prefix
from regard.errors import FolderError
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.lines import stream
from regard.verbs.load_encoder import encoder_that, probabilities
from regard.verbs.suggested_recipes import needs_model
from regard.verbs.tasks.tagging import WORDS
from regard.verbs.tasks.text import logits_of
from regard.verbs.texts import refuse_one
from regard.weights.model_folder import LoadedModel

CHUNK = 256  # sentences that are read and looked at before the first of them is given out
WINDOW = 512  # tokens that are looked at together; a longer sentence is read through several windows


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word, its likeliest label, and how likely the model thinks that."""

    form: str
    label: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class TaggedSentence:
    """A line and its words; an empty line has none."""

    line: int
    words: tuple[Word, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(word.label for word in self.words)

    def to_dict(self) -> dict[str, Any]:
        """As `regard tag --json` prints it."""
        words = [
            {"word": each.form, "label": each.label, "probability": round(each.probability, 6)}
            for each in self.words
        ]
        return {"line": self.line, "words": words}


class Tagger:
    """A model, loaded once, that labels words. What it says of a word depends on its sentence alone.

    `column`: where in CoNLL-U the labels belong, as the model's own data had them.

    Args:
        model: a model or run folder, or what `regard.load` gives.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        allow_fresh_head: let a model speak whose head nobody has trained.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.
    """

    @needs_model
    @checked
    def __init__(
        self,
        model: AnyModel,
        *,
        batch_tokens: int = 4096,
        allow_fresh_head: bool = False,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.loaded = open_model(model, device, threads)
        self.model = encoder_that("labels words", ("tokens",), self.loaded, allow_fresh=allow_fresh_head)
        self.tokenizer = self.loaded.tokenizers.source
        self.labels = self.loaded.labels
        self.batch_tokens = batch_tokens
        self._pieces = partial(
            encode_word, encode=self.tokenizer.encode_words, prefix=word_prefix(self.tokenizer)
        )
        self.column = _column(self.loaded)
        self._most = min(WINDOW, self.model.max_length or WINDOW)

    def __call__(self, sentences: Iterable[str | Sequence[str]]) -> Iterator[TaggedSentence]:
        """The labels of each sentence, in order.

        A sentence is a list of its words, or a text: words then stand between white space, and punctuation
        at their ends is a word of its own. There may be sentences without end.

        Raises:
            DataError: there is one text in the place of several.
        """
        refuse_one(sentences)
        sentences = iter(sentences)
        return self.in_chunks(iter(lambda: list(islice(sentences, CHUNK)), []))

    def in_chunks(self, chunks: Iterable[Sequence[str | Sequence[str]]]) -> Iterator[TaggedSentence]:
        """The same for sentences that come several at a time."""
        line = 1
        for chunk in chunks:
            words = [split_words(each) if isinstance(each, str) else list(each) for each in chunk]
            for found in self._tagged(words):
                yield TaggedSentence(line=line, words=found)
                line += 1

    def conllu(self, chunks: Iterable[Sequence[str]], name: str) -> Iterator[Sentence]:
        """The sentences that lines of CoNLL-U hold, their column filled; those of a chunk together.

        Everything else stays as it is, but for line ends, which become line feeds.

        Raises:
            DataError: a line of `name` breaks the format; the sentences before it come out first.
        """
        reader = SentenceReader(name)
        for chunk in chunks:
            ready: list[Sentence] = []
            try:
                for line in chunk:
                    if sentence := reader.read(line):
                        ready.append(sentence)
            finally:
                yield from self._filled(ready)
        reader.end()

    def _filled(self, sentences: Sequence[Sentence]) -> Iterator[Sentence]:
        for sentence, words in zip(sentences, self._tagged([each.forms for each in sentences]), strict=True):
            yield sentence.with_column(self.column, [word.label for word in words])

    def _tagged(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[Word, ...]]:
        windows = [
            tagged_texts(
                [self._pieces(word) for word in words],
                [0] * len(words),
                tokenizer=self.tokenizer,
                line=number,
                max_tokens=self._most,
            )
            for number, words in enumerate(sentences)
        ]
        texts = [text for several in windows for text in several]
        logits = iter(logits_of(self.model, texts, self.tokenizer.pad_id, self.batch_tokens))
        for words, several in zip(sentences, windows, strict=True):
            if not several:
                yield ()
                continue
            shares = probabilities(torch.cat([next(logits) for _ in several]))
            yield tuple(self._word(*each) for each in zip(words, shares, strict=True))

    def _word(self, form: str, shares: list[float]) -> Word:
        best = max(range(len(shares)), key=shares.__getitem__)
        return Word(form=form, label=self.labels[best], probability=shares[best])


def _column(loaded: LoadedModel) -> str:
    """The column that the model folder names; UPOS where it names none, as a Hugging Face folder does."""
    if loaded.folder is None or WORDS not in loaded.folder.names:
        return "upos"
    column = loaded.folder.read_json(WORDS).get("column")
    if column not in COLUMNS:
        raise FolderError(f"{loaded.path / WORDS}: no column {column!r}", f"known: {', '.join(COLUMNS)}")
    return column


@needs_model
@checked
def tag(
    text: str | Sequence[str],
    *,
    model: AnyModel,
    words: bool = False,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    device: str = "auto",
    threads: int | None = None,
) -> list[tuple[str, str]]:
    """The words of a sentence, each with its label; for many sentences keep a `Tagger`.

    A sentence is a list of its words, or a text: with `words` cut at white space alone, without at the
    punctuation of its words too.

    Args:
        text: the sentence.
        model: a model or run folder, or what `regard.load` gives.
        words: cut a text at white space alone.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        allow_fresh_head: let a model speak whose head nobody has trained.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.

    Raises:
        FolderError: the model labels no words, or nobody has trained its head and `allow_fresh_head` does
            not allow that.
    """
    tagger = Tagger(
        model, batch_tokens=batch_tokens, allow_fresh_head=allow_fresh_head, device=device, threads=threads
    )
    [found] = tagger([text.split() if words and isinstance(text, str) else text])
    return [(word.form, word.label) for word in found.words]


@needs_model
@checked
def tag_file(
    input: str | Path,
    *,
    model: AnyModel,
    conllu: bool = False,
    words: bool = False,
    batch_tokens: int = 4096,
    allow_fresh_head: bool = False,
    device: str = "auto",
    threads: int | None = None,
) -> list[list[tuple[str, str]]]:
    """What `tag` gives of each line of a file, plain or gzipped, or of each sentence of a CoNLL-U one.

    CoNLL-U it is if `conllu` says so, or its name. `Tagger.conllu` gives its lines back, filled.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a sentence.
        model: a model or run folder, or what `regard.load` gives.
        conllu: read CoNLL-U, whatever the file is called.
        words: cut lines at white space alone.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        allow_fresh_head: let a model speak whose head nobody has trained.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.
    """
    tagger = Tagger(
        model, batch_tokens=batch_tokens, allow_fresh_head=allow_fresh_head, device=device, threads=threads
    )
    lines = stream(input)
    if conllu or is_conllu(input):
        found = tagger(sentence.forms for sentence in read_sentences(lines, str(input)))
    else:
        found = tagger(line.split() if words else line for line in lines)
    return [[(word.form, word.label) for word in each.words] for each in found]


def is_conllu(file: str | Path) -> bool:
    """Whether the name of a file says that it is CoNLL-U."""
    return str(file).endswith((".conllu", ".conllu.gz"))


def printed(tagged: TaggedSentence, *, as_json: bool = False) -> str:
    """WORD, LABEL between tabs, a line each, and an empty line after the last; or a line of JSON."""
    if as_json:
        return json.dumps(tagged.to_dict(), ensure_ascii=False) + "\n"
    return "".join(f"{word.form}\t{word.label}\n" for word in tagged.words) + "\n"
