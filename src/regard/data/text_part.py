"""A part of a tokenised corpus of documents: the names of its arrays, writing and reading.

`ids` has the ids of all documents in a row, each with the end token; `starts` where each begins, and the end;
`lines` the number of its line in the part of the input.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from regard.data.corpus_part import CorpusPart, part_bytes, refuse_large_part
from regard.data.shards import id_type
from regard.data.token_stream import Tokens
from regard.data.tokenizer import Tokenizer


class TextWriter:
    """Collects the documents of a part, and counts them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._end, self._type = tokenizer.eos_id, id_type(tokenizer)
        self._ids: list[np.ndarray] = []
        self._lengths: list[int] = []
        self._lines: list[int] = []
        self._tokens = 0
        self.skipped: Counter[str] = Counter()

    def add(self, documents: Sequence[list[int]], lines: Sequence[int]) -> None:
        """The ids of documents, and the numbers of their lines.

        Raises:
            DataError: the part becomes too large.
        """
        whole = [[*ids, self._end] for ids in documents]
        self._lengths += map(len, whole)
        self._tokens += sum(map(len, whole))
        refuse_large_part(self._tokens)
        self._ids.append(np.fromiter(itertools.chain.from_iterable(whole), self._type))
        self._lines += lines

    def counts(self) -> dict[str, int]:
        """The documents and their tokens, ends included; and what was left out, by reason."""
        counts = {"documents": len(self._lines), "tokens": self._tokens}
        return counts | {f"skipped_{reason}": number for reason, number in sorted(self.skipped.items())}

    def to_bytes(self) -> bytes:
        """The file."""
        ids = np.concatenate([*self._ids, np.empty(0, self._type)])
        starts = np.cumsum([0, *self._lengths], dtype=np.uint32)
        return part_bytes({"ids": ids, "starts": starts, "lines": np.array(self._lines, np.uint32)})


class TextPart(CorpusPart):
    """The documents of a part that was read."""

    of_what = "documents"

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__(arrays)
        self.ids, self.starts = arrays["ids"], arrays["starts"].astype(np.int64)

    def tokens(self, bos_id: int) -> Tokens:
        """Its documents as one sequence, each of which a model begins with this id."""
        return _PartTokens(self, bos_id)


class _PartTokens(Tokens):
    special_tokens = True

    def __init__(self, part: TextPart, bos_id: int) -> None:
        self.ids, self.starts, self.bos_id = part.ids, part.starts, bos_id
