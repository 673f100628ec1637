"""CTranslate2 with regard's weights: float32 or int8, its own threads or workers of one thread each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2

from benchmarks.common.unfit import Unfit
from benchmarks.decoding.sentences import Decoder, Ids

BATCH_TOKENS = 1024  # of a file


class CTranslate(Decoder):
    """`workers` batches at a time, each on `threads` threads; 2 x 1 is its best setting on two cores."""

    def __init__(self, *, sentences: str, kind: str, workers: int, threads: int) -> None:
        super().__init__(sentences=sentences)
        if self.sentences.converted.startswith("!"):
            raise Unfit(self.sentences.converted[1:])
        self._translator = ctranslate2.Translator(
            self.sentences.converted,
            device="cpu",
            compute_type=kind,
            inter_threads=workers,
            intra_threads=threads,
        )
        self._ids = {piece: number for number, piece in enumerate(self.sentences.vocabulary)}

    def decode(self, batch: Sequence[int], beam: int, length: int | None) -> list[Ids]:
        return self._said_by([each.result() for each in self._begun(batch, beam, length)])

    def decode_all(
        self, batches: Sequence[Sequence[int]], beam: int, lengths: Sequence[int | None]
    ) -> list[Any]:
        """All batches are handed over at once and its workers share them; sentences alone are timed."""
        if max(map(len, batches)) == 1:
            return super().decode_all(batches, beam, lengths)
        begun = [self._begun(batch, beam, length) for batch, length in zip(batches, lengths, strict=True)]
        found = [[each.result() for each in batch] for batch in begun]
        return [(self._said_by(batch), 0.0) for batch in found]

    def _begun(self, batch: Sequence[int], beam: int, length: int | None) -> list[Any]:
        vocabulary = self.sentences.vocabulary
        return self._translator.translate_batch(
            [[vocabulary[number] for number in self.sentences.ids[place]] for place in batch],
            asynchronous=True,
            beam_size=beam,
            length_penalty=self.sentences.alpha,
            max_decoding_length=length or max(self.sentences.limits[place] for place in batch),
            min_decoding_length=length or 1,
        )

    def _said_by(self, results: list[Any]) -> list[Ids]:
        return [[self._ids[piece] for piece in result.hypotheses[0]] for result in results]

    def use(self, threads: int) -> None:
        """Its threads are fixed when it is made; a single sentence is one worker's."""


class File(CTranslate):
    """CTranslate2 from text to text, on one thread: it sorts the lines and forms batches itself."""

    def __init__(self, *, sentences: str, kind: str) -> None:
        from tokenizers import Tokenizer

        super().__init__(sentences=sentences, kind=kind, workers=1, threads=1)
        self._tokenizer = Tokenizer.from_file(str(Path(self.sentences.model) / "tokenizer.json"))

    def decode_all(
        self, batches: Sequence[Sequence[int]], beam: int, lengths: Sequence[int | None]
    ) -> list[Any]:
        """All lines by one call, tokenised before and joined after it."""
        texts = [self.sentences.texts[place] for batch in batches for place in batch]
        pieces = [each.tokens for each in self._tokenizer.encode_batch(texts, add_special_tokens=False)]
        found = self._translator.translate_batch(
            pieces,
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            beam_size=beam,
            length_penalty=self.sentences.alpha,
            max_decoding_length=max(self.sentences.limits),
        )
        ids = iter(self._said_by(found))
        said = [[next(ids) for _ in batch] for batch in batches]
        self._tokenizer.decode_batch([each for batch in said for each in batch])
        return [(batch, 0.0) for batch in said]
