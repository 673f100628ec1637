"""From hypotheses to translations: of a piece of a line, and of a line from those of its pieces."""

from collections.abc import Sequence
from dataclasses import replace

from regard.data.tokenizer import TokenizerPair
from regard.decoding.controls import Controls
from regard.decoding.hypothesis import Hypothesis
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.generation.alignments import TokenAlignment, token_alignment
from regard.verbs.generation.candidates import (
    EMPTY_CANDIDATE,
    TranslationCandidate,
    as_one,
    combinations,
    in_step,
)
from regard.verbs.generation.copied_words import CopiedWords
from regard.verbs.generation.scored_tokens import named
from regard.verbs.generation.search_results import selected_texts
from regard.verbs.generation.sources import SourceEncoder
from regard.verbs.generation.translations import Translation
from regard.verbs.shared.runtime import Precision
from regard.verbs.shared.sentence_splitting import edges, joined

ReadSource = tuple[Sequence[int], Sequence[tuple[int, int]]]  # ids, and the characters of each


class TranslationBuilder:
    """Builds translations of `n_best` candidates.

    `answer` is their class, `precision` that of the model; `copies` puts source words in place of unknown
    tokens.
    """

    def __init__(
        self,
        answer: type[Translation],
        precision: Precision,
        model: SequenceToSequence,
        tokenizers: TokenizerPair,
        sources: SourceEncoder,
        settings: Controls,
        n_best: int,
        copies: CopiedWords | None = None,
    ) -> None:
        self._answer = answer
        self._precision: Precision = precision
        self._model, self._tokenizers, self._sources = model, tokenizers, sources
        self._settings, self._n_best, self._copies = settings, n_best, copies

    def of_piece(
        self, number: int, piece: str, hypotheses: Sequence[Hypothesis], *, alignments: bool = False
    ) -> Translation:
        """The translation of a piece; empty if the piece is."""
        empty = not piece or piece.isspace()
        source = self._sources if alignments else None
        read = None if source is None else (source.ids_of(piece), source.spans_of(piece))
        candidates = [] if empty else self._candidates(hypotheses, piece, read)
        candidates = candidates or [replace(EMPTY_CANDIDATE, alignment=self._alignment(read, ()))]
        precision = self._precision
        return self._answer(line=number, source=piece, candidates=tuple(candidates), precision=precision)

    def of_text(self, text: str, pieces: Sequence[str], sentences: Sequence[Translation]) -> Translation:
        """The translation of a text as that of a line, between the white space at the ends of the pieces."""
        found = self.of_line(text, pieces, sentences)
        before, after = edges("".join(pieces))
        framed = (replace(each, text=before + each.text + after) for each in found.candidates)
        return replace(found, candidates=tuple(framed)) if before or after else found

    def of_line(self, line: str, pieces: Sequence[str], sentences: Sequence[Translation]) -> Translation:
        """The translation of a line, joined from those of its pieces."""
        if len(sentences) == 1:
            return replace(sentences[0], source=line)
        sampled = self._settings.samples and self._settings.mbr is None
        choose = in_step if sampled else combinations
        chosen = choose([each.candidates for each in sentences], self._n_best)
        candidates = [as_one(joined(pieces, [one.text for one in each]), each) for each in chosen]
        bare = tuple(replace(each, source=each.source.strip()) for each in sentences)
        return replace(sentences[0], source=line, candidates=tuple(candidates), sentences=bare)

    def _candidates(
        self, found: Sequence[Hypothesis], piece: str, read: ReadSource | None = None
    ) -> list[TranslationCandidate]:
        """The candidates; with what the model has `read` of the piece they have alignments."""
        tokenizer = self._tokenizers.target
        texts = [tokenizer.decode(each.ids) for each in found]
        alignments = [self._alignment(read, each.ids) for each in found]
        if self._copies is not None:
            for place, each in enumerate(found):
                texts[place], moved = self._copies.text(piece, each.ids, texts[place])
                alignment = alignments[place]
                alignments[place] = alignment and alignment.moved(moved)
        return [
            TranslationCandidate(
                text=text,
                score=found[place].score if score is None else score,
                log_prob=found[place].log_prob,
                tokens=tuple(tokenizer.tokens(found[place].ids)),
                token_log_probs=tuple(found[place].token_log_probs),
                alignment=alignments[place],
                alternatives=named(tokenizer, found[place].alternatives[: len(found[place].ids)]),
            )
            for place, text, score in selected_texts(self._settings, texts, self._n_best)
        ]

    def _alignment(self, read: ReadSource | None, tgt_ids: Sequence[int]) -> TokenAlignment | None:
        """The alignment of a candidate; None without a source."""
        if read is None:
            return None
        src_ids, spans = read
        return token_alignment(self._model, self._tokenizers, src_ids, tgt_ids, spans)
