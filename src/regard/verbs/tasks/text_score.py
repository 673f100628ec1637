"""The likelihood that a language model gives a text: perplexity, bits per character and byte."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.data.token_stream import TokenStream
from regard.data.windows import scoring_batches
from regard.evaluation.classification import bootstrap_interval
from regard.models.decoder_only import DecoderOnly
from regard.training.objective import NextToken

MIN_BATCHES = 30  # that resampling needs; with fewer, intervals are too narrow


@dataclass(frozen=True, kw_only=True)
class TextScore:
    """The likelihood of a text, each of its tokens predicted once."""

    batches: Sequence[tuple[float, int]]  # of each: nats, tokens (special ones included)
    characters: int
    bytes: int
    apart: bool = False  # True if windows stay inside documents

    @property
    def nll(self) -> float:
        """The negative log-likelihood of all tokens, in nats."""
        total = 0.0
        for nll, _ in self.batches:  # as `sum` does before Python 3.12, bit for bit
            total += nll
        return total

    @property
    def tokens(self) -> int:
        """How many tokens were predicted, special ones included."""
        return sum(tokens for _, tokens in self.batches)

    def metrics(self) -> dict[str, float]:
        """`loss` in nats per token; bits per character and byte of the text as it was before tokenisation."""
        return self._metrics(self.nll)

    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 95 % bootstrap interval of each metric, resampling batches of neighbouring windows.

        Empty if there are few, or if each batch has documents of one length, which are no sample of the text.
        """
        if len(self.batches) < MIN_BATCHES or self.apart:
            return {}
        nats, tokens = [nll for nll, _ in self.batches], [tokens for _, tokens in self.batches]
        low, high = (self._metrics(each * self.tokens) for each in bootstrap_interval(nats, tokens))
        return {name: (low[name], high[name]) for name in low}

    def _metrics(self, nll: float) -> dict[str, float]:
        return {
            "loss": nll / self.tokens,
            "perplexity": math.exp(min(nll / self.tokens, 700.0)),
            "bits_per_character": nll / math.log(2) / self.characters,
            "bits_per_byte": nll / math.log(2) / self.bytes,
        }


def score_stream(
    model: DecoderOnly, stream: TokenStream, *, block: int, context: int, apart: bool, batch_tokens: int
) -> TextScore:
    """The negative log-likelihood of a whole text, each token predicted exactly once.

    A window of `block` tokens moves over the text in steps of `block` - `context`. Only tokens that are new
    in a window are predicted, so each has at least `context` tokens before it, except in the first window.
    In a text without special tokens the first token is not predicted. The ends of documents are predicted
    as other tokens are, and count as no character.
    """
    objective, found = NextToken(), list[tuple[float, int]]()
    batches = scoring_batches(
        stream, block, context=context, separate_documents=apart, batch_tokens=batch_tokens
    )
    with torch.no_grad():
        for batch in batches:
            loss = objective(model, batch.to(model.device))
            found.append((float(loss.nll.double()), loss.num_targets))
    report = stream.report
    return TextScore(batches=found, characters=report.characters, bytes=report.bytes, apart=apart)
