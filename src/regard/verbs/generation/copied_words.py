"""Source words in place of a translation's unknown tokens, chosen by attention (Luong et al. 2015)."""

import json
from collections.abc import Sequence

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_file import tokenizer_kind
from regard.decoding.word_borders import joins
from regard.errors import ConfigError
from regard.inspection.alignment import align_by_best_layer, source_attentions
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.generation.alignments import Span, token_spans
from regard.verbs.generation.kept_texts import UNMOVED, Moved
from regard.verbs.generation.sources import SourceEncoder

WITHOUT_UNKNOWN = ("bytes", "bytebpe")  # kinds of tokenisers that have tokens for any text


class CopiedWords:
    """Replaces each unknown token by the source word with the greatest attention weight."""

    def __init__(self, model: SequenceToSequence, tokenizers: TokenizerPair, sources: SourceEncoder) -> None:
        """Raises a ConfigError if the model has no attention to its source, or no unknown tokens."""
        source_attentions(model)  # raises
        if not _writes_unknown(tokenizers.target):
            raise ConfigError(
                "replace_unk is for models with unknown tokens, and this one writes any word by its letters",
                "leave replace_unk out",
            )
        self._model, self._tokenizers, self._sources = model, tokenizers, sources

    def text(self, piece: str, ids: Sequence[int], text: str) -> tuple[str, Moved]:
        """The translation `text` of a piece with source words, and where its characters are in it.

        `ids`: the tokens of `text`.
        """
        target = self._tokenizers.target
        if target.unk_id not in ids:
            return text, UNMOVED
        words = [_word(piece.strip(), span) for span in self._sources.spans_of(piece)]
        if not any(words):
            return text, UNMOVED
        src_ids = self._sources.ids_of(piece)
        alignment = align_by_best_layer(self._model, src_ids, ids, bos_id=target.bos_id, eos_id=target.eos_id)
        replaced, place, moved = "", 0, list[tuple[Span, Span]]()
        for row, (begin, end) in enumerate(token_spans(target, ids)):
            begin = _without_space(text, begin, end)
            if ids[row] != target.unk_id or begin >= end:
                continue
            weights = alignment.weights[row].tolist()
            best = max((number for number, word in enumerate(words) if word), key=weights.__getitem__)
            word = words[best]
            replaced += text[place:begin]
            moved.append(((begin, end), (len(replaced), len(replaced) + len(word))))
            replaced, place = replaced + word, end
        return replaced + text[place:], Moved(tuple(moved))


def _writes_unknown(tokenizer: Tokenizer) -> bool:
    """True if a model with this tokeniser can output unknown tokens that are in its texts."""
    if tokenizer.unk_id in tokenizer.dropped_ids:
        return False
    kind = tokenizer_kind(json.loads(tokenizer.to_bytes())) if tokenizer.trained_by_regard else None
    return kind not in WITHOUT_UNKNOWN


def _word(text: str, span: Span) -> str:
    """The word that a token is a part of; empty for a token without characters."""
    begin, end = _without_space(text, *span), span[1]
    if begin >= end:
        return ""
    while begin > 0 and joins(text[begin - 1], text[begin]):
        begin -= 1
    while end < len(text) and joins(text[end - 1], text[end]):
        end += 1
    return text[begin:end].strip()


def _without_space(text: str, begin: int, end: int) -> int:
    """Where a span begins without its leading white space."""
    span = text[begin:end]
    return begin + len(span) - len(span.lstrip())
