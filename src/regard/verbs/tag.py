"""Tag: sentences in, a label for each of their words out; text or CoNLL-U."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import torch

from regard.data.conllu import COLUMNS, Sentence, SentenceReader, read_sentences
from regard.data.files import locate
from regard.data.tagged import encode_word, split_words, tagged_texts, word_prefix
from regard.data.texts import EncodedText
from regard.data.word_columns import named_as_words, read_words, word_format
from regard.errors import DataError, FolderError
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.lines import stream_lines
from regard.verbs.shared.load_encoder import encoder_that, probabilities
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.shared.text_options import TaggingOptions
from regard.verbs.shared.text_verb import TextVerb
from regard.verbs.shared.texts import refuse_single_str, shown
from regard.verbs.shared.unknown_tokens import UnknownTokenWarnings
from regard.verbs.tasks.tagging import WORDS_FILE
from regard.verbs.tasks.text import logits_of
from regard.weights.model_folder import LoadedModel

WINDOW_TOKENS = 512  # tokens of one forward pass; a longer sentence is split into several windows
OPTIONS = TaggingOptions()


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word, its most probable label, and the probability of that."""

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
        """The line of `regard tag --json`."""
        words = [
            {"word": each.form, "label": each.label, "probability": round(each.probability, 6)}
            for each in self.words
        ]
        return {"line": self.line, "words": words}


class Tagger(TextVerb[str | Sequence[str], TaggedSentence]):
    """A model, loaded once, that labels words. A label depends on its sentence alone.

    A sentence is a list of its words, or a text: words are then separated by white space, and punctuation at
    their ends is a word of its own. `column`: the CoNLL-U column of the labels, as in the training data.

    Args:
        model: a model or run folder, or what `regard.load` returns.
    """

    chunk: ClassVar[int] = 256

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self, model: AnyModel, *, options: TaggingOptions = OPTIONS, runtime: Runtime = DEFAULT_RUNTIME
    ) -> None:
        self.loaded = open_model(model, runtime)
        self.model = encoder_that("labels words", ("tokens",), self.loaded, options.allow_fresh_head)
        self.tokenizer = self.loaded.tokenizers.source
        self.labels, self.options = self.loaded.labels, options
        self.unknown_tokens = UnknownTokenWarnings.of_model(self.loaded)
        self._pieces = partial(
            encode_word, encode=self.tokenizer.encode_words, prefix=word_prefix(self.tokenizer)
        )
        self.column = _column(self.loaded)
        self._most = min(WINDOW_TOKENS, self.model.max_length or WINDOW_TOKENS)

    def checked(self, texts: Iterable[str | Sequence[str]]) -> Iterator[str | Sequence[str]]:
        refuse_single_str(texts)
        return iter(texts)

    def answers(self, texts: Sequence[str | Sequence[str]], first: int) -> Iterator[TaggedSentence]:
        words = [split_words(each) if isinstance(each, str) else list(each) for each in texts]
        for line, found in enumerate(self._tagged(words), start=first):
            yield TaggedSentence(line=line, words=found)

    def conllu(self, chunks: Iterable[Sequence[str]], name: str) -> Iterator[Sentence]:
        """The sentences of CoNLL-U lines with their column filled; those of a chunk are computed together.

        Everything else stays the same, except line ends, which become line feeds.

        Raises:
            DataError: a line of `name` does not follow the format; the sentences before it come first.
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
        windows = [self._windows(words, number) for number, words in enumerate(sentences)]
        texts = [text for several in windows for text in several]
        logits = iter(logits_of(self.model, texts, self.tokenizer.pad_id, self.options.batch_tokens))
        for words, several in zip(sentences, windows, strict=True):
            if not several:
                yield ()
                continue
            rows = probabilities(torch.cat([next(logits) for _ in several]))
            yield tuple(self._word(*each) for each in zip(words, rows, strict=True))

    def _windows(self, words: Sequence[str], number: int) -> list[EncodedText]:
        pieces = [self._pieces(word) for word in words]
        self.unknown_tokens.warn(f"sentence {' '.join(words)[:40]!r}", list(chain.from_iterable(pieces)))
        return tagged_texts(
            pieces, [0] * len(words), tokenizer=self.tokenizer, line=number, max_tokens=self._most
        )

    def _word(self, form: str, probabilities: list[float]) -> Word:
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        return Word(form=form, label=self.labels[best], probability=probabilities[best])


def _column(loaded: LoadedModel) -> str:
    """The column that the model folder names; UPOS where it names none, as a Hugging Face folder does."""
    if loaded.folder is None or WORDS_FILE not in loaded.folder.names:
        return "upos"
    column = loaded.folder.read_json(WORDS_FILE).get("column")
    if column not in COLUMNS:
        raise FolderError(f"{loaded.path / WORDS_FILE}: no column {column!r}", f"known: {', '.join(COLUMNS)}")
    return column


@needs_model
@python_call
def tag(
    text: str | Sequence[str],
    *,
    model: AnyModel,
    words: bool = False,
    options: TaggingOptions = OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> list[tuple[str, str]]:
    """The words of a sentence, each with its label. For many sentences keep a `Tagger`.

    Args:
        text: the sentence: a list of its words, or a text, which is split at white space and punctuation.
        model: a model or run folder, or what `regard.load` returns.
        words: split a text at white space only.

    Raises:
        DataError: the list holds sentences, not words.
        FolderError: the model labels no words, or its head is untrained and `allow_fresh_head` is not set.
    """
    text = text if isinstance(text, str) else list(text)
    _refuse_sentences(text)
    tagger = Tagger(model, options=options, runtime=runtime)
    [found] = tagger([text.split() if words and isinstance(text, str) else text])
    return [(word.form, word.label) for word in found.words]


def _refuse_sentences(text: str | Sequence[str]) -> None:
    """Raise a DataError if this is a list of sentences: each has spaces, and one has three words or more."""
    counts = [] if isinstance(text, str) else [len(str(each).split()) for each in text]
    if len(counts) > 1 and min(counts) > 1 and max(counts) > 2:
        raise DataError(
            f"the list holds sentences, not the words of one: {shown(text[0])}",
            "give one sentence, or keep a Tagger: Tagger(model)(sentences)",
        )


@needs_model
@python_call
def tag_file(
    input: str | Path,
    *,
    model: AnyModel,
    conllu: bool = False,
    words: bool = False,
    options: TaggingOptions = OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> list[list[tuple[str, str]]]:
    """The answers of `tag` to the lines of a file, plain or gzipped, or to the sentences of a CoNLL-U file.

    `Tagger.conllu` gives the lines of CoNLL-U back, with the labels filled in.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a sentence. A file
            called *.bio, *.iob, *.iob2 or *.conll has a word on each line, and labels, which are not read.
        model: a model or run folder, or what `regard.load` returns.
        conllu: read CoNLL-U, even if the file is not called *.conllu or *.conllu.gz.
        words: split lines at white space only.
    """
    tagger = Tagger(model, options=options, runtime=runtime)
    if conllu or is_conllu(input):
        found = tagger(sentence.forms for sentence in read_sentences(stream_lines(input), str(input)))
    elif has_words_in_columns(input):
        found = tagger(sentences_in_columns(input))
    else:
        found = tagger(line.split() if words else line for line in stream_lines(input))
    return [[(word.form, word.label) for word in each.words] for each in found]


def is_conllu(file: str | Path) -> bool:
    """True if the name of a file is that of a CoNLL-U file."""
    return str(file).endswith((".conllu", ".conllu.gz"))


def has_words_in_columns(file: str | Path) -> bool:
    """True if the name of a file is that of words in columns, such as .bio, and not of CoNLL-U."""
    return not is_conllu(file) and named_as_words(file)


def sentences_in_columns(file: str | Path) -> Iterator[list[str]]:
    """The words of the sentences of a file of words in columns, such as .bio; their labels are not read."""
    path = locate(str(file), Path(), once=True)
    return (list(sentence.forms) for sentence in read_words(path, word_format(path) or "columns"))


def columns_of(into: str | None) -> tuple[str, str]:
    """The columns that are added to a table: of the words, and of their labels."""
    name = into or "words"
    return name, f"{name}_labels"


def cells_of(tagged: TaggedSentence) -> tuple[str, str]:
    """What these columns have for a sentence, with spaces between."""
    return " ".join(word.form for word in tagged.words), " ".join(tagged.labels)


def output_lines(tagged: TaggedSentence, *, as_json: bool = False) -> str:
    """A line of WORD, LABEL, separated by a tab, for each word, then an empty line; or a line of JSON."""
    if as_json:
        return json.dumps(tagged.to_dict(), ensure_ascii=False) + "\n"
    return "".join(f"{word.form}\t{word.label}\n" for word in tagged.words) + "\n"
