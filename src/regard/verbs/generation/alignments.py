"""Links each token of a translation to a source token, by the model's attention to the source."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.inspection.alignment import align_by_best_layer
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.generation.kept_texts import UNMOVED, Moved
from regard.verbs.generation.text_parts import CharacterStream

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class TokenAlignment:
    """The tokens of a source, and their links to the tokens of its translation.

    Spans are the characters of each token, the end excluded: in the source without outer white space, and in
    the translation. A joined alignment has none.
    """

    source_tokens: tuple[str, ...]
    links: tuple[tuple[int, int], ...]  # (position in the source, position in the translation), from 0
    source_spans: tuple[Span, ...] = ()
    target_spans: tuple[Span, ...] = ()

    def linked_spans(self, source: int = 0, target: int = 0) -> list[tuple[Span, Span]]:
        """The spans of each link, of texts in which source and translation begin at these places."""
        return [
            (_moved(self.source_spans[one], source), _moved(self.target_spans[other], target))
            for one, other in self.links
            if one < len(self.source_spans) and other < len(self.target_spans)
        ]

    def moved(self, target: Moved, source: Moved = UNMOVED) -> "TokenAlignment":
        """The alignment with the places of both texts in others."""
        return replace(
            self,
            source_spans=tuple(map(source.span, self.source_spans)),
            target_spans=tuple(map(target.span, self.target_spans)),
        )


def token_alignment(
    model: SequenceToSequence,
    tokenizers: TokenizerPair,
    src_ids: Sequence[int],
    tgt_ids: Sequence[int],
    source_spans: Sequence[Span] = (),
) -> TokenAlignment:
    """Links each target token to the source token with the greatest attention weight.

    A target token has no link if the source's end-of-sequence token has a greater weight. `src_ids` and
    `tgt_ids` have no end-of-sequence tokens; if either is empty, there are no links. As in `regard look`, the
    weights are those of the decoder layer with the clearest attention, averaged over its heads.

    Raises:
        ConfigError: the model has no attention to its source.
    """
    source_tokens = tuple(tokenizers.source.tokens(src_ids))
    if not source_tokens or not tgt_ids:
        return TokenAlignment(source_tokens=source_tokens, links=())
    target = tokenizers.target
    found = align_by_best_layer(model, src_ids, tgt_ids, bos_id=target.bos_id, eos_id=target.eos_id)
    return TokenAlignment(
        source_tokens=source_tokens,
        links=tuple(sorted(found.links())),
        source_spans=tuple(source_spans),
        target_spans=tuple(token_spans(target, tgt_ids)),
    )


def token_spans(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[Span]:
    """The characters of each token in the text of all."""
    stream, begin = CharacterStream(tokenizer, ()), 0
    for token in ids:
        end = begin + len(stream.push(token))
        yield begin, end
        begin = end


def _moved(span: Span, places: int) -> Span:
    return span[0] + places, span[1] + places


def joined_alignment(
    alignments: Sequence[TokenAlignment | None], lengths: Sequence[int]
) -> TokenAlignment | None:
    """The alignment of a text from those of its sentences; None if one of these is not known.

    `lengths`: the number of tokens of each sentence's translation.
    """
    known = [each for each in alignments if each is not None]
    if not known or len(known) < len(alignments):
        return None
    links: list[tuple[int, int]] = []
    before_source = before_target = 0
    for each, length in zip(known, lengths, strict=True):
        links += [(before_source + source, before_target + target) for source, target in each.links]
        before_source += len(each.source_tokens)
        before_target += length
    return TokenAlignment(
        source_tokens=tuple(token for each in known for token in each.source_tokens), links=tuple(links)
    )
