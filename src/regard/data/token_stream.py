"""Documents as one stream of tokens on disk, and its windows: what language models train on."""

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int, Int64
from torch import Tensor

from regard.data.batch import IGNORED, RowBatch
from regard.data.checksums import checksums, sealed, unsealed
from regard.data.documents import Documents
from regard.data.shards import mapped, take_place, whole
from regard.data.tokenizer import Tokenizer
from regard.errors import DataError

FORMAT_VERSION = 2  # 1 had no checksums
PART = 1 << 16  # characters of a long document that are tokenised at a time
TOGETHER = 1 << 20  # characters of short ones


@dataclass(frozen=True, kw_only=True)
class TokenStreamReport:
    """What a stream holds. Tokens count the marks, characters and bytes are the text's."""

    documents: int
    tokens: int
    characters: int
    bytes: int
    unknown: int  # tokens that stand for what the vocabulary lacks


@dataclass(frozen=True, kw_only=True)
class TextBatch(RowBatch):
    """Rows of running text; at each place that counts, the label is the id that comes next.

    `documents` numbers the document of each place where those of a row are not to see each other.
    """

    ids: Int64[Tensor, "batch len"]
    labels: Int64[Tensor, "batch len"]
    documents: Int64[Tensor, "batch len"] | None

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        return self.ids, self.documents

    @property
    def num_targets(self) -> int:
        return int((self.labels != IGNORED).sum())


class TokenStream:
    """A folder written by `write_stream`: tokens end to end, mapped into memory, and where documents begin.

    With marks each document is `ids + [eos]`, and what is read before its first token is <s>. Without them,
    as it is for the one document of a corpus, nothing is read before the first token, and it is not
    predicted.
    """

    def __init__(self, folder: Path) -> None:
        try:
            description = unsealed((folder / "stream.json").read_text("utf-8"))
            self.made_from: dict[str, object] = description["made_from"]
            self.files: dict[str, str] = description.get("files", {})
            self.report = TokenStreamReport(**description["report"])
            self.marks: bool = description["marks"]
            self.bos_id: int = description["bos_id"]
            self.starts = mapped(folder / "starts", np.int64, self.report.documents + 1)
            path = folder / "ids"
            dtype = np.uint16 if path.stat().st_size == 2 * self.report.tokens else np.uint32
            self.ids = mapped(path, dtype, self.report.tokens)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{folder}: no whole stream of tokens ({str(error).splitlines()[0]})",
                "remove the folder; it is made again",
            ) from error

    @property
    def first(self) -> int:
        """The first token that is predicted."""
        return 0 if self.marks else 1

    @property
    def num_targets(self) -> int:
        return len(self.ids) - self.first

    def read(self, places: Int[np.ndarray, "*shape"]) -> tuple[np.ndarray, np.ndarray]:
        """The tokens at these places, and what is read just before each of them."""
        before = self.ids[np.maximum(places - 1, 0)].astype(np.int64)
        if self.marks:  # where a document begins, that the one before has ended is not read
            before[self.starts[np.searchsorted(self.starts, places)] == places] = self.bos_id
        return self.ids[places].astype(np.int64), before


def write_stream(
    documents: Documents,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    marks: bool,
    most: int | None = None,
    say: Callable[[str], None] | None = None,
) -> TokenStream:
    """Tokenise documents into `folder`, unless that is done already; `most` characters of them at most.

    A stream that is there already and damaged is made again; `say` is told so.

    Raises:
        DataError: there is nothing to read.
    """
    made_from = {
        "format_version": FORMAT_VERSION,
        "documents": documents.fingerprint(),
        "tokenizer": tokenizer.to_bytes().decode(),
        "marks": marks,
        "most": most,
    }
    present = whole(lambda: TokenStream(folder), folder, made_from, say)
    if present is not None:
        return present
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    report = _write(limited(documents, most), tokenizer, partial, marks)
    if not report.tokens:
        raise DataError(f"{documents.name}: no text is left to read", "look at the files and at share")
    description = {
        "made_from": made_from,
        "report": asdict(report),
        "marks": marks,
        "bos_id": tokenizer.bos_id,
        "files": checksums(partial),
    }
    (partial / "stream.json").write_text(sealed(description), "utf-8")
    take_place(partial, folder)
    return TokenStream(folder)


def limited(documents: Iterable[str], most: int | None) -> Iterator[str]:
    """Documents up to so many characters, the last one cut where they end."""
    left = most
    for text in documents:
        if left is not None:
            if left <= 0:
                return
            text, left = text[:left], left - len(text)
        yield text


def _write(documents: Iterable[str], tokenizer: Tokenizer, folder: Path, marks: bool) -> TokenStreamReport:
    end = [tokenizer.eos_id] if marks else []
    dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32)
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
    """Each document with its ids, in one part or several, to be read before the next document is.

    The library needs a hundred bytes for each character that it tokenises at once, so a long document is cut
    before line feeds, unless that would change its tokens.
    """
    surplus = _surplus(tokenizer)
    for group in _groups(documents):
        if len(group) > 1 or len(group[0]) <= PART or surplus is None:
            ids = tokenizer.encode_batch(group)
            yield from ((text, [found]) for text, found in zip(group, ids, strict=True))
        else:
            yield group[0], _in_parts(group[0], tokenizer, surplus)


def _in_parts(text: str, tokenizer: Tokenizer, surplus: int) -> Iterator[list[int]]:
    first, *others = parts(text)
    yield tokenizer.encode(first)
    yield from (tokenizer.encode(part)[surplus:] for part in others)


def _surplus(tokenizer: Tokenizer) -> int | None:
    """How many tokens of a part that begins with a line feed are not the text's.

    They are the space that most tokenisers put before every text. None: a word may reach across a line feed,
    so that a text cannot be cut there.
    """
    match tokenizer.words("\na"):
        case [" " | "Ġ" as space, "\n" | "Ċ", *_]:
            return len(tokenizer.word_ids(space))
        case ["\na" | "Ċa"] if not tokenizer.merges():  # characters, bytes
            return 0
        case _:
            return None


def parts(text: str) -> Iterator[str]:
    """A text cut before line feeds, into parts of some PART characters."""
    start = 0
    while (end := text.find("\n", start + PART)) >= 0:
        yield text[start:end]
        start = end
    yield text[start:]


def _groups(documents: Iterable[str]) -> Iterator[list[str]]:
    """Documents, some TOGETHER characters at a time; one of more than PART characters by itself."""
    group, held = [], 0
    for text in documents:
        if group and (held + len(text) > TOGETHER or len(text) > PART):
            yield group
            group, held = [], 0
        group.append(text)
        held += len(text)
        if len(text) > PART:
            yield group
            group, held = [], 0
    if group:
        yield group
