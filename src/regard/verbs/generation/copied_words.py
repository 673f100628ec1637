"""Source words in place of unknown tokens of a translation, by the attention (Luong et al. 2015)."""

import json
from collections.abc import Sequence
from dataclasses import replace

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_file import tokenizer_kind
from regard.decoding.word_borders import joins
from regard.errors import ConfigError
from regard.inspection.alignment import align_by_best_layer, source_attentions
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.generation.alignments import Span, TokenAlignment, token_spans
from regard.verbs.generation.kept_texts import Moved
from regard.verbs.generation.sources import SourceEncoder

WITHOUT_UNKNOWN = ("bytes", "bytebpe")  # kinds of tokenisers that write any text


class CopiedWords:
    """Puts the source word of the greatest attention in place of each unknown token.

    Raises:
        ConfigError: the model has no attention to its source, or writes no unknown tokens.
    """

    def __init__(self, model: SequenceToSequence, tokenizers: TokenizerPair, sources: SourceEncoder) -> None:
        source_attentions(model)
        if not _writes_unknown(tokenizers.target):
            raise ConfigError(
                "replace_unk is for models with unknown tokens, and this one writes any word by its letters",
                "leave replace_unk out",
            )
        self._model, self._tokenizers, self._sources = model, tokenizers, sources

    def text(self, piece: str, ids: Sequence[int], text: str) -> tuple[str, Moved]:
        """The translation of a piece, of tokens `ids`, with source words; and where its characters are."""
        target = self._tokenizers.target
        source, src_ids = piece.strip(), self._sources.ids_of(piece)
        words = [_word(source, span) for span in self._sources.spans_of(piece)]
        if target.unk_id not in ids or not any(words):
            return text, Moved(())
        found = align_by_best_layer(
            self._model, src_ids, ids, bos_id=target.bos_id, eos_id=target.eos_id
        ).weights
        parts, place, moved = "", 0, list[tuple[Span, Span]]()
        for row, (begin, end) in enumerate(token_spans(target, ids)):
            if ids[row] != target.unk_id or not text[begin:end].strip():
                continue
            begin += len(text[begin:end]) - len(text[begin:end].lstrip())
            weights = found[row].tolist()
            best = max((each for each, word in enumerate(words) if word), key=weights.__getitem__)
            parts += text[place:begin]
            moved.append(((begin, end), (len(parts), len(parts) + len(words[best]))))
            parts, place = parts + words[best], end
        return parts + text[place:], Moved(tuple(moved))

    @staticmethod
    def moved(alignment: TokenAlignment | None, places: Moved) -> TokenAlignment | None:
        """The alignment of the text with source words."""
        if alignment is None:
            return None
        return replace(alignment, target_spans=tuple(map(places.span, alignment.target_spans)))


def _writes_unknown(tokenizer: Tokenizer) -> bool:
    """True if a model with this tokeniser can write unknown tokens, and they are in its texts."""
    if tokenizer.unk_id in tokenizer.dropped_ids:
        return False
    kind = tokenizer_kind(json.loads(tokenizer.to_bytes())) if tokenizer.trained_by_regard else None
    return kind not in WITHOUT_UNKNOWN


def _word(text: str, span: Span) -> str:
    """The word that a token is a part of; empty for a token without characters."""
    begin, end = span
    begin += len(text[begin:end]) - len(text[begin:end].lstrip())
    if begin >= end:
        return ""
    while begin > 0 and joins(text[begin - 1], text[begin]):
        begin -= 1
    while end < len(text) and joins(text[end - 1], text[end]):
        end += 1
    return text[begin:end].strip()
