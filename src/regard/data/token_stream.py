"""Token streams: documents as one memory-mapped sequence of tokens, for language models."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int, Int64
from torch import Tensor

from regard.data.batch import IGNORED, RowBatch
from regard.data.checksums import checksums, dump_with_checksum, load_with_checksum
from regard.data.document_mixture import DocumentMixture, document_corpora
from regard.data.documents import Documents
from regard.data.os_errors import reading
from regard.data.shards import id_type, load_intact, memory_mapped, new_folder
from regard.data.tokenizer import Tokenizer
from regard.errors import DataError

STREAM_VERSION = 2  # 1 had no checksums
PART_CHARACTERS = 1 << 16  # characters of a long document that are tokenised at a time
GROUP_CHARACTERS = 1 << 20  # characters of short documents that are tokenised at a time


@dataclass(frozen=True, kw_only=True)
class TokenStreamReport:
    """The counts of a token stream; special tokens are included in `tokens` only."""

    documents: int
    tokens: int
    characters: int
    bytes: int
    unknown: int  # <unk> tokens


@dataclass(frozen=True, kw_only=True)
class TextBatch(RowBatch):
    """A batch of running text for causal language models."""

    ids: Int64[Tensor, "batch len"]
    labels: Int64[Tensor, "batch len"]  # the next token of each position, or IGNORED
    # of each position, if documents must not attend to each other
    documents: Int64[Tensor, "batch len"] | None

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        return self.ids, self.documents

    @property
    def num_targets(self) -> int:
        return int((self.labels != IGNORED).sum())


class Tokens:
    """Documents as one sequence of tokens.

    With special tokens each document is `ids + [eos]`, and the model reads <s> before its first token.
    Without them, as for a corpus that is a single document, the first token has no input and is not
    predicted.

    Attributes:
        starts: where each document begins, and the end.
    """

    ids: np.ndarray
    starts: Int[np.ndarray, " offsets"]
    special_tokens: bool
    bos_id: int

    @property
    def first(self) -> int:
        """The index of the first token that is predicted."""
        return 0 if self.special_tokens else 1

    @property
    def num_targets(self) -> int:
        """The number of tokens that are predicted."""
        return len(self.ids) - self.first

    def read(self, places: Int[np.ndarray, "*shape"]) -> tuple[np.ndarray, np.ndarray]:
        """The tokens at these places, and the input before each of them."""
        before = self.ids[np.maximum(places - 1, 0)].astype(np.int64)
        if self.special_tokens:  # the input before a document is <s>, not the </s> of the previous one
            before[self.starts[np.searchsorted(self.starts, places)] == places] = self.bos_id
        return self.ids[places].astype(np.int64), before


class CorpusTokens(Tokens):
    """The documents of one of the corpora of a stream."""

    def __init__(self, stream: "TokenStream", documents: range) -> None:
        self._stream, self._begin = stream, int(stream.starts[documents.start])
        self.ids = stream.ids[self._begin : int(stream.starts[documents.stop])]
        self.special_tokens, self.bos_id = stream.special_tokens, stream.bos_id

    def read(self, places: Int[np.ndarray, "*shape"]) -> tuple[np.ndarray, np.ndarray]:
        return self._stream.read(places + self._begin)


class TokenStream(Tokens):
    """A folder written by `write_stream`, memory-mapped.

    Attributes:
        corpora: the documents of each corpus, one after the other.
    """

    def __init__(self, folder: Path) -> None:
        try:
            description = load_with_checksum((folder / "stream.json").read_text("utf-8"))
            self.made_from: dict[str, object] = description["made_from"]
            self.files: dict[str, str] = description.get("files", {})
            self.report = TokenStreamReport(**description["report"])
            ends = itertools.accumulate(description.get("corpora", [self.report.documents]), initial=0)
            self.corpora = [*itertools.starmap(range, itertools.pairwise(ends))]
            self.special_tokens = description["marks"]  # "marks" is its name on disk
            self.bos_id = description["bos_id"]
            self.starts = memory_mapped(folder / "starts", np.int64, self.report.documents + 1)
            path = folder / "ids"
            dtype = np.uint16 if path.stat().st_size == 2 * self.report.tokens else np.uint32
            self.ids = memory_mapped(path, dtype, self.report.tokens)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{folder}: incomplete or damaged token stream ({str(error).splitlines()[0]})",
                "remove the folder: the next run writes it again",
            ) from error


def write_stream(
    documents: Documents | DocumentMixture,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    special_tokens: bool,
    max_characters: int | None = None,
    say: Callable[[str], None] | None = None,
) -> TokenStream:
    """Tokenises at most `max_characters` of documents into `folder`, unless that is done already.

    Of several corpora it takes about equally many of each. A damaged stream is made again, with a message to
    `say`.

    Raises:
        DataError: the documents are empty, or those of one of several corpora.
    """
    made_from = {
        "format_version": STREAM_VERSION,
        "documents": documents.fingerprint(),
        "tokenizer": tokenizer.to_bytes().decode(),
        "marks": special_tokens,
        "most": max_characters,
    }
    present = load_intact(lambda: TokenStream(folder), folder, made_from, say)
    if present is not None:
        return present
    with new_folder(folder) as partial:
        sizes = Counter[int]()
        texts = some_documents(documents, max_characters, sizes)
        report = _write(texts, tokenizer, partial, special_tokens)
        for number, corpus in enumerate(document_corpora(documents)):
            if not report.tokens or not sizes[number]:
                raise DataError(f"{corpus.name}: the selected text is empty", "check the files and share")
        description = {
            "made_from": made_from,
            "report": asdict(report),
            "marks": special_tokens,
            "bos_id": tokenizer.bos_id,
            **({"corpora": [sizes[number] for number in sorted(sizes)]} if len(sizes) > 1 else {}),
            "files": checksums(partial),
        }
        (partial / "stream.json").write_text(dump_with_checksum(description), "utf-8")
    return TokenStream(folder)


def some_documents(
    documents: Documents | DocumentMixture, max_characters: int | None, sizes: Counter[int] | None = None
) -> Iterator[str]:
    """Documents up to `max_characters`, of each of several corpora an equal share; `sizes` counts them."""
    corpora = document_corpora(documents)
    most = None if max_characters is None else -(-max_characters // len(corpora))
    for number, corpus in enumerate(corpora):
        for text in limit_characters(reading(corpus, corpus.name), most):
            if sizes is not None:
                sizes[number] += 1
            yield text


def limit_characters(documents: Iterable[str], max_characters: int | None) -> Iterator[str]:
    """The documents up to `max_characters` in total, the last one truncated."""
    left = max_characters
    for text in documents:
        if left is not None:
            if left <= 0:
                return
            text, left = text[:left], left - len(text)
        yield text


def _write(
    documents: Iterable[str], tokenizer: Tokenizer, folder: Path, special_tokens: bool
) -> TokenStreamReport:
    end = [tokenizer.eos_id] if special_tokens else []
    dtype = id_type(tokenizer)
    starts, tokens, characters, size, unknown = [0], 0, 0, 0, 0
    with (folder / "ids").open("wb") as file:
        for text, parts in encoded(documents, tokenizer):
            for ids in itertools.chain(parts, [end]):
                file.write(np.array(ids, dtype).tobytes())
                tokens += len(ids)
                unknown += ids.count(tokenizer.unk_id)
            starts.append(tokens)
            characters += len(text)
            size += len(text.encode())
    (folder / "starts").write_bytes(np.array(starts, np.int64).tobytes())
    return TokenStreamReport(
        documents=len(starts) - 1, tokens=tokens, characters=characters, bytes=size, unknown=unknown
    )


def encoded(documents: Iterable[str], tokenizer: Tokenizer) -> Iterator[tuple[str, Iterable[list[int]]]]:
    """Each document with its ids, in one part or several; read them before the next document.

    The tokenizers library needs a hundred bytes for each character of a call, so a long document is split
    before line feeds, unless that would change its tokens.
    """
    prefix_length = _prefix_length(tokenizer)
    for group in _groups(documents):
        if len(group) > 1 or len(group[0]) <= PART_CHARACTERS or prefix_length is None:
            ids = tokenizer.encode_batch(group)
            yield from ((text, [found]) for text, found in zip(group, ids, strict=True))
        else:
            yield group[0], _in_parts(group[0], tokenizer, prefix_length)


def _in_parts(text: str, tokenizer: Tokenizer, prefix_length: int) -> Iterator[list[int]]:
    first, *others = parts(text)
    yield tokenizer.encode(first)
    yield from (tokenizer.encode(part)[prefix_length:] for part in others)


def _prefix_length(tokenizer: Tokenizer) -> int | None:
    """The number of tokens that the tokeniser adds before a part that begins with a line feed.

    They are the space that most tokenisers put before every text. None: words may span a line feed, so a text
    cannot be split there.
    """
    match tokenizer.words("\na"):
        case [" " | "Ġ" as space, "\n" | "Ċ", *_]:
            return len(tokenizer.word_ids(space))
        case ["\na" | "Ċa"] if not tokenizer.merges():  # characters, bytes
            return 0
        case _:
            return None


def parts(text: str) -> Iterator[str]:
    """Splits a text before line feeds, into parts of at least PART_CHARACTERS."""
    start = 0
    while (end := text.find("\n", start + PART_CHARACTERS)) >= 0:
        yield text[start:end]
        start = end
    yield text[start:]


def _groups(documents: Iterable[str]) -> Iterator[list[str]]:
    """Groups of documents of at most GROUP_CHARACTERS; one of more than PART_CHARACTERS is alone."""
    group, characters = [], 0
    for text in documents:
        if group and (characters + len(text) > GROUP_CHARACTERS or len(text) > PART_CHARACTERS):
            yield group
            group, characters = [], 0
        group.append(text)
        characters += len(text)
        if len(text) > PART_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group
