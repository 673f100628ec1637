"""Embed: texts in, their embedding vectors out; texts of similar meaning have similar vectors."""

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
from regard.errors import ConfigError, FolderError
from regard.layers.masks import padding_mask
from regard.models.encoder_only import EncoderOnly
from regard.models.heads import pooled
from regard.models.image_text import ImageText
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.lines import stream_lines
from regard.verbs.shared.model_loading import use_of
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.shared.text_options import EmbeddingOptions
from regard.verbs.shared.text_verb import TextVerb
from regard.verbs.shared.unknown_tokens import UnknownTokenWarnings
from regard.weights.model_folder import LoadedModel

MAX_CHARACTERS = 100_000  # of a text; the rest is left out, with a warning
DECIMAL_PLACES = 6  # in the output; rounding hides the last bits, which depend on the sizes of batches
NUM_SPECIAL_TOKENS = 2  # bos and eos
OPTIONS = EmbeddingOptions()


@dataclass(frozen=True, kw_only=True)
class EmbeddedLine:
    """A line and its vector; an empty line has that of the special tokens and of the model's prompt."""

    line: int
    text: str
    vector: Float[Tensor, " d_model"]

    def to_dict(self) -> dict[str, Any]:
        """The line of `regard embed --json`."""
        return {
            "line": self.line,
            "text": self.text,
            "vector": [round(x, DECIMAL_PLACES) for x in self.vector.tolist()],
        }


@dataclass(frozen=True, kw_only=True)
class SimilarLine:
    """A line, and the cosine similarity of its vector to that of the query."""

    line: int
    text: str
    similarity: float

    def to_dict(self) -> dict[str, Any]:
        """The line of `regard embed --similar-to TEXT --json`."""
        return {"line": self.line, "text": self.text, "similarity": round(self.similarity, DECIMAL_PLACES)}


def cells_of(embedded: EmbeddedLine) -> list[list[float]]:
    """What the column that is added to a table has for a text."""
    return [embedded.to_dict()["vector"]]


class Embedder(TextVerb[str, EmbeddedLine]):
    """An encoder, loaded once, that embeds texts. But for rounding, a vector depends on its text alone.

    A sentence encoder pools as its configuration specifies (Reimers and Gurevych 2019). An image-text model
    (CLIP) gives the vector that it compares with those of images; any other encoder the mean of its token
    states. Both are normalised to length 1.

    Args:
        model: a model or run folder, or what `regard.load` returns.

    Raises:
        FolderError: the model is not an encoder.
    """

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self, model: AnyModel, *, options: EmbeddingOptions = OPTIONS, runtime: Runtime = DEFAULT_RUNTIME
    ) -> None:
        self.loaded = open_model(model, runtime)
        self.model = _text_model(self.loaded)
        self.tokenizer, self.options = self.loaded.tokenizers.source, options
        _refuse_layer(self.model, options.layer)
        self.unknown_tokens = UnknownTokenWarnings.of_model(self.loaded)

    def answers(self, texts: Sequence[str], first: int) -> Iterator[EmbeddedLine]:
        vectors = self._vectors([self._text(line, number) for number, line in enumerate(texts, first)])
        for number, (line, vector) in enumerate(zip(texts, vectors, strict=True), start=first):
            yield EmbeddedLine(line=number, text=line, vector=vector)

    def vector(self, text: str, name: str) -> Float[Tensor, " d_model"]:
        """The vector of one text; `name` is used in messages."""
        return self._vectors([self._text(text, 1, name)])[0]

    def similar(self, texts: Iterable[EmbeddedLine], to: str) -> list[SimilarLine]:
        """All texts by their similarity to the query `to`, most similar first; ties stay in their order."""
        other = self.vector(to, "the query")
        found = [
            SimilarLine(
                line=each.line,
                text=each.text,
                similarity=float(F.cosine_similarity(each.vector, other, dim=0)),
            )
            for each in texts
        ]
        return sorted(found, key=lambda each: -each.similarity)

    def _vectors(self, texts: Sequence[EncodedText]) -> Float[Tensor, "texts d_model"]:
        vectors = torch.zeros(len(texts), self.model.config.d_model)
        with torch.no_grad():
            for numbers, batch in length_sorted_batches(
                texts, self.tokenizer.pad_id, self.options.batch_tokens
            ):
                batch = batch.to(self.model.device)
                found = (
                    layer_vectors(self.model, batch.ids, batch.lengths, self.options.layer)
                    if self.options.layer is not None and isinstance(self.model, EncoderOnly)
                    else sentence_vectors(self.model, batch.ids, batch.lengths)
                )
                vectors[numbers] = found.float().cpu()
        return vectors

    def _text(self, line: str, number: int, name: str | None = None) -> EncodedText:
        """The ids of a line; one that is too long is truncated, with a warning (by `name`, if it has one)."""
        prompt, limit = "", None
        if isinstance(self.model, EncoderOnly):
            prompt, limit = self.model.config.sentence_prompt, self.model.config.sentence_tokens
        ids = self.tokenizer.encode(prompt + line[:MAX_CHARACTERS].strip())
        limits = [limit for limit in (self.model.max_length, limit) if limit is not None]
        max_tokens = min(limits, default=None)
        size = None
        if len(line) > MAX_CHARACTERS:
            size = f"{len(line):,} characters, {MAX_CHARACTERS:,} at most"
        elif max_tokens is not None and (tokens := len(ids) + NUM_SPECIAL_TOKENS) > max_tokens:
            size = f"{tokens:,} tokens, {max_tokens:,} at most"
        if size:
            console.warn(f"{name or f'line {number}'} is too long ({size}): only its beginning is read")
        self.unknown_tokens.warn(name or f"line {number}", ids)
        return encoded_text([ids], [0], tokenizer=self.tokenizer, line=number, max_tokens=max_tokens)


def _text_model(loaded: LoadedModel) -> EncoderOnly | ImageText:
    """The loaded model, if it embeds texts.

    Raises:
        FolderError: it is of another kind, or has no tower of texts.
    """
    if isinstance(loaded.model, EncoderOnly):
        return loaded.model
    if not isinstance(loaded.model, ImageText):
        raise FolderError(
            f"{loaded.path}: this is not a model that embeds texts",
            f"it {use_of(loaded)}; record_model(..., hidden=[BLOCK]) of regard.inspection has the states of"
            " its layers",
        )
    if loaded.model.text is None:
        raise FolderError(
            f"{loaded.path}: this is not a model that embeds texts: it has no text tower",
            f"it embeds images: `regard embed --model {loaded.path} --images FILE`",
        )
    return loaded.model


def sentence_vectors(
    model: EncoderOnly | ImageText, ids: Int64[Tensor, "batch len"], lengths: Int64[Tensor, " batch"]
) -> Float[Tensor, "batch d_model"]:
    """One vector for each text: a sentence encoder's own, else the normalised mean of the token states.

    BERT's pooler is not used: it was trained for next-sentence prediction. The vector of an image-text model
    is its text tower's, normalised.
    """
    if isinstance(model, ImageText):
        return F.normalize(model.text_features(ids, lengths), dim=-1)
    if model.config.head == "pooled" and not model.config.pooler:
        return model(ids, lengths)
    return F.normalize(pooled(model.encode(ids, lengths), lengths, "mean"), dim=-1)


def layer_vectors(
    model: EncoderOnly, ids: Int64[Tensor, "batch len"], lengths: Int64[Tensor, " batch"], layer: int
) -> Float[Tensor, "batch d_model"]:
    """The mean of the token states after this layer for each text; those after the last have its norm."""
    states = model.encoder.states(ids, padding_mask(lengths, ids.size(1)))
    return pooled(next(islice(states, layer, None)), lengths, "mean")


def _refuse_layer(model: EncoderOnly | ImageText, layer: int | None) -> None:
    """Raise a ConfigError for a layer that the model has not."""
    if layer is None:
        return
    if isinstance(model, ImageText):
        raise ConfigError(f"layer = {layer} is for encoders, not for image-text models", "leave it out")
    if not 0 <= layer <= model.config.num_layers:
        raise ConfigError(
            f"layer = {layer}, but this model has the layers 1 to {model.config.num_layers}",
            "layer = 0 has the embeddings, before the first layer",
        )


@needs_model
@python_call
def embed(
    text: str | Iterable[str],
    *,
    model: AnyModel,
    options: EmbeddingOptions = OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> Float[Tensor, "*texts d_model"]:
    """The vectors of several texts, [texts, d_model]; of one text its vector, [d_model].

    For many calls keep an `Embedder`.

    Args:
        text: one text, or several.
        model: a model or run folder, or what `regard.load` returns.

    Raises:
        FolderError: the model is not an encoder. DataError: a text is not a str.
    """
    embedder = Embedder(model, options=options, runtime=runtime)
    if isinstance(text, str):
        [found] = embedder([text])
        return found.vector
    return _stacked(embedder, text)


@needs_model
@python_call
def embed_file(
    input: str | Path,
    *,
    model: AnyModel,
    options: EmbeddingOptions = OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> Float[Tensor, "lines d_model"]:
    """The vectors of the lines of a file, plain or gzipped.

    Args:
        input: a file, plain or gzipped, or NAME:FILE of a known data set; each line is a text.
        model: a model or run folder, or what `regard.load` returns.
    """
    return _stacked(Embedder(model, options=options, runtime=runtime), stream_lines(input))


def _stacked(embedder: Embedder, texts: Iterable[str]) -> Float[Tensor, "texts d_model"]:
    vectors = [each.vector for each in embedder(texts)]
    return torch.stack(vectors) if vectors else torch.zeros(0, embedder.model.config.d_model)


@needs_model
@python_call
def embed_similar(
    text: Iterable[str],
    *,
    similar_to: str,
    model: AnyModel,
    options: EmbeddingOptions = OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> list[SimilarLine]:
    """All texts with their similarity to `similar_to`, most similar first.

    Args:
        text: the texts to rank.
        similar_to: the text that they are compared with.
        model: a model or run folder, or what `regard.load` returns.
    """
    embedder = Embedder(model, options=options, runtime=runtime)
    return embedder.similar(embedder(text), similar_to)


def output_lines(found: EmbeddedLine | SimilarLine, *, as_json: bool = False) -> str:
    """One line of output, separated by tabs: the numbers of a vector, or SIMILARITY, LINE, TEXT; or JSON."""
    if as_json:
        return json.dumps(found.to_dict(), ensure_ascii=False) + "\n"
    if isinstance(found, SimilarLine):
        return f"{found.similarity:.4f}\t{found.line}\t{found.text}\n"
    return "\t".join(f"{number:.{DECIMAL_PLACES}f}" for number in found.vector.tolist()) + "\n"
