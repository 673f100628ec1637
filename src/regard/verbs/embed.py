"""Embed: a text becomes a vector, and texts that mean the like become vectors that point the like way."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from regard import console
from regard.data.texts import EncodedText, encoded_text, length_sorted_batches
from regard.models.encoder_only import EncoderOnly
from regard.models.heads import pooled
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.box import model_that
from regard.verbs.lines import stream
from regard.verbs.suggested_recipes import needs_model
from regard.verbs.texts import strings

CHUNK = 1024  # texts that are read, sorted by length and looked at before the first of them is given out
MAX_CHARACTERS = 100_000  # of a text; what follows is left out, which is said
DIGITS = 6  # after the point: so many do not depend on the other texts


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """A line and its vector; an empty line has one too, that of its marks."""

    line: int
    text: str
    vector: Float[Tensor, " d_model"]

    def to_dict(self) -> dict[str, Any]:
        """As `regard embed --json` prints it."""
        return {
            "line": self.line,
            "text": self.text,
            "vector": [round(x, DIGITS) for x in self.vector.tolist()],
        }


@dataclass(frozen=True, kw_only=True)
class Similar:
    """A line, and the cosine of the angle between its vector and another."""

    line: int
    text: str
    similarity: float

    def to_dict(self) -> dict[str, Any]:
        """As `regard embed --similar-to TEXT --json` prints it."""
        return {"line": self.line, "text": self.text, "similarity": round(self.similarity, DIGITS)}


class Embedder:
    """An encoder, loaded once, that makes a vector of a text, which depends on that text alone.

    A sentence encoder makes it as its folder says (Reimers and Gurevych 2019); of any other encoder it is the
    mean of the states of the tokens, made as long as 1.

    Args:
        model: a model or run folder, or what `regard.load` gives.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.

    Raises:
        FolderError: the model is no encoder.
    """

    @needs_model
    @checked
    def __init__(
        self,
        model: AnyModel,
        *,
        batch_tokens: int = 4096,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.loaded = open_model(model, device, threads)
        self.model = model_that("makes vectors of texts", EncoderOnly, self.loaded)
        self.tokenizer = self.loaded.tokenizers.source
        self.batch_tokens = batch_tokens

    def __call__(self, texts: Iterable[str]) -> Iterator[Embedded]:
        """The vector of each text, in order; `texts` may be without end.

        Raises:
            DataError: one of them is no string.
        """
        texts = strings(texts)
        return self.in_chunks(iter(lambda: list(islice(texts, CHUNK)), []))

    def in_chunks(self, chunks: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The same for texts that come several at a time: all of a chunk are looked at together."""
        first = 1
        for lines in chunks:
            vectors = self._vectors([self._text(line, number) for number, line in enumerate(lines, first)])
            for number, (line, vector) in enumerate(zip(lines, vectors, strict=True), start=first):
                yield Embedded(line=number, text=line, vector=vector)
            first += len(lines)

    def similar(self, texts: Iterable[Embedded], to: str) -> list[Similar]:
        """All texts, that which is most like `to` first; of equally like ones the earlier."""
        [other] = self([to])
        found = [
            Similar(
                line=each.line,
                text=each.text,
                similarity=float(F.cosine_similarity(each.vector, other.vector, dim=0)),
            )
            for each in texts
        ]
        return sorted(found, key=lambda each: -each.similarity)

    def _vectors(self, texts: Sequence[EncodedText]) -> Float[Tensor, "texts d_model"]:
        vectors = torch.zeros(len(texts), self.model.config.d_model)
        with torch.no_grad():
            for numbers, batch in length_sorted_batches(texts, self.tokenizer.pad_id, self.batch_tokens):
                batch = batch.to(self.model.device)
                vectors[numbers] = sentence_vectors(self.model, batch.ids, batch.lengths).float().cpu()
        return vectors

    def _text(self, line: str, number: int) -> EncodedText:
        """The ids of a line; of one that is too long those of its beginning, and that is said."""
        config = self.model.config
        ids = self.tokenizer.encode(config.sentence_prompt + line[:MAX_CHARACTERS].strip())
        limits = [limit for limit in (self.model.max_length, config.sentence_tokens) if limit is not None]
        most = min(limits, default=None)
        if len(line) > MAX_CHARACTERS or (most is not None and len(ids) + 2 > most):
            console.warn(f"line {number} is too long ({len(line):,} characters): only its beginning is read")
        return encoded_text([ids], [0], tokenizer=self.tokenizer, line=number, max_tokens=most)


def sentence_vectors(
    model: EncoderOnly, ids: Int64[Tensor, "batch len"], lengths: Int64[Tensor, " batch"]
) -> Float[Tensor, "batch d_model"]:
    """One vector a text: a sentence encoder's own, else the mean of its states, of length 1.

    BERT's pooler was trained for another question, whether a sentence follows: it is left out.
    """
    if model.config.head == "pooled" and not model.config.pooler:
        return model(ids, lengths)
    return F.normalize(pooled(model.encode(ids, lengths), lengths, "mean"), dim=-1)


@needs_model
@checked
def embed(
    text: str | Iterable[str],
    *,
    model: AnyModel,
    batch_tokens: int = 4096,
    device: str = "auto",
    threads: int | None = None,
) -> Float[Tensor, "*texts d_model"]:
    """The vectors of several texts, [texts, d_model]; of one text its vector, [d_model].

    For many calls keep an `Embedder`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` gives.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.

    Raises:
        FolderError: the model is no encoder. DataError: a text is no string.
    """
    embedder = Embedder(model, batch_tokens=batch_tokens, device=device, threads=threads)
    vectors = [each.vector for each in embedder(text)]
    if isinstance(text, str):
        return vectors[0]
    return torch.stack(vectors) if vectors else torch.zeros(0, embedder.model.config.d_model)


@needs_model
@checked
def embed_file(
    input: str | Path,
    *,
    model: AnyModel,
    batch_tokens: int = 4096,
    device: str = "auto",
    threads: int | None = None,
) -> Float[Tensor, "lines d_model"]:
    """What `embed` gives of the lines of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        model: a model or run folder, or what `regard.load` gives.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.
    """
    return embed(stream(input), model=model, batch_tokens=batch_tokens, device=device, threads=threads)


@needs_model
@checked
def embed_similar(
    text: Iterable[str],
    *,
    similar_to: str,
    model: AnyModel,
    batch_tokens: int = 4096,
    device: str = "auto",
    threads: int | None = None,
) -> list[Similar]:
    """All texts with their likeness to `similar_to`, the likest first.

    Args:
        text: the texts to rank.
        similar_to: the text that they are compared with.
        model: a model or run folder, or what `regard.load` gives.
        batch_tokens: padded tokens of a batch: it changes speed and memory, not the answer.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.
    """
    embedder = Embedder(model, batch_tokens=batch_tokens, device=device, threads=threads)
    return embedder.similar(embedder(text), similar_to)


def printed(found: Embedded | Similar, *, as_json: bool = False) -> str:
    """A line: the numbers of a vector between tabs; SIMILARITY, LINE, TEXT between tabs; or JSON."""
    if as_json:
        return json.dumps(found.to_dict(), ensure_ascii=False) + "\n"
    if isinstance(found, Similar):
        return f"{found.similarity:.4f}\t{found.line}\t{found.text}\n"
    return "\t".join(f"{number:.{DIGITS}f}" for number in found.vector.tolist()) + "\n"
