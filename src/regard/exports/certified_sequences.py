"""Sequences that engines are compared by: texts, and outputs with every token."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.errors import DataError

LENGTH = 32  # ids of a sequence that covers a part of a vocabulary
MOST_COVERED = 16_384  # ids of a vocabulary that are covered
MADE_TEXTS, SHORTEST, LONGEST = 24, 2, 12  # texts made of random pieces, and the number of these
SEED = 1


@dataclass(frozen=True, kw_only=True)
class CertifiedSequences:
    """Texts, their ids, and pairs of what is given and what is forced."""

    texts: tuple[str, ...]
    sources: tuple[list[int], ...]
    covering: tuple[tuple[list[int], list[int]], ...]
    covered: float  # the share of the target vocabulary that is forced


def certified_sequences(
    tokenizers: TokenizerPair, texts: Sequence[str] | None, *, most: int, begin: Sequence[int] = ()
) -> CertifiedSequences:
    """The sequences for a model that reads at most `most` ids; `begin` are those before each text.

    Without `texts` they are made of random pieces of the vocabulary.

    Raises:
        DataError: the texts have no ids.
    """
    chosen = made_texts(tokenizers.source) if texts is None else [text for text in texts if text.strip()]
    room = max(1, most - len(begin))
    sources = [[*begin, *ids[:room]] for ids in tokenizers.source.encode_batch(list(chosen))]
    kept = [(text, ids) for text, ids in zip(chosen, sources, strict=True) if ids]
    if not kept:
        raise DataError("there are no texts to compare the engines by", "give a file with some lines")
    targets = chunks(shuffled(tokenizers.target), min(LENGTH, max(1, most // 2)))
    of_source = chunks(shuffled(tokenizers.source), min(LENGTH, max(1, most // 2)))
    count = max(len(targets), len(of_source))
    covering = [
        ([*begin, *of_source[place % len(of_source)]][:most], targets[place % len(targets)])
        for place in range(count)
    ]
    return CertifiedSequences(
        texts=tuple(text for text, _ in kept),
        sources=tuple(ids for _, ids in kept),
        covering=tuple(covering),
        covered=min(1.0, MOST_COVERED / tokenizers.target.vocab_size),
    )


def made_texts(tokenizer: Tokenizer) -> list[str]:
    """Texts of random pieces, the same for each vocabulary."""
    generator = random.Random(SEED)  # noqa: S311 (no secret)
    known = [number for number in range(tokenizer.vocab_size) if number not in _special(tokenizer)]
    made = [
        tokenizer.decode(generator.choices(known, k=generator.randint(SHORTEST, LONGEST)))
        for _ in range(MADE_TEXTS)
    ]
    return [text for text in (" ".join(each.split()) for each in made) if text]


def _special(tokenizer: Tokenizer) -> set[int]:
    return {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id}


def shuffled(tokenizer: Tokenizer) -> list[int]:
    """All ids of a vocabulary, or of a large one as many as are covered, in random order."""
    ids = list(range(tokenizer.vocab_size))
    random.Random(SEED).shuffle(ids)  # noqa: S311 (no secret)
    return ids[:MOST_COVERED]


def chunks(ids: Sequence[int], length: int) -> list[list[int]]:
    """The ids as sequences of this length; the last may be shorter."""
    return [list(ids[first : first + length]) for first in range(0, len(ids), length)]
