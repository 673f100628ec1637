"""Which source tokens each token of a translation comes from, by the model's attention to the source."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.tokenizer import TokenizerPair
from regard.inspection.alignment import align_by_best_layer
from regard.models.sequence_to_sequence import SequenceToSequence


@dataclass(frozen=True, kw_only=True)
class TokenAlignment:
    """The tokens of a source, and pairs of their places and those of tokens of the translation."""

    source_tokens: tuple[str, ...]
    links: tuple[tuple[int, int], ...]


def token_alignment(
    model: SequenceToSequence, tokenizers: TokenizerPair, src_ids: Sequence[int], tgt_ids: Sequence[int]
) -> TokenAlignment:
    """A link to each target token, unless the model attends to the end of the source most.

    The layer is that of `regard look`: the one with the clearest attention.

    Raises:
        ConfigError: the model has no attention to its source.
    """
    source_tokens = tuple(tokenizers.source.tokens(src_ids))
    if not source_tokens or not tgt_ids:
        return TokenAlignment(source_tokens=source_tokens, links=())
    target = tokenizers.target
    found = align_by_best_layer(model, src_ids, tgt_ids, bos_id=target.bos_id, eos_id=target.eos_id)
    return TokenAlignment(source_tokens=source_tokens, links=tuple(sorted(found.links())))


def joined_alignment(
    alignments: Sequence[TokenAlignment | None], lengths: Sequence[int]
) -> TokenAlignment | None:
    """The alignment of sentences one after the other, whose translations have so many tokens.

    None: those of the sentences are not known.
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
