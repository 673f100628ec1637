"""The number of operations of a model's matrix products, by one formula for all contenders.

A product of (m, k) and (k, n) is 2 m k n operations. Only real tokens count; padding is a contender's own
cost. Attention counts all pairs of positions, masked or not, as is usual. Embeddings, norms, softmax and
the optimiser count nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

Lengths = Iterable[tuple[int, int]]  # of source and target of each sentence, as encoder and decoder read them
BACKWARD = 3  # a training step: once forward, twice as much backward


@dataclass(frozen=True, kw_only=True)
class PairShape:
    """An encoder-decoder."""

    d_model: int
    d_ff: int
    encoder_layers: int
    decoder_layers: int
    vocab_size: int

    def forward(self, lengths: Lengths) -> float:
        return sum(self._sentence(source, target) for source, target in lengths)

    def training(self, lengths: Lengths) -> float:
        return BACKWARD * self.forward(lengths)

    def decoding(self, lengths: Lengths, beam_size: int) -> float:
        """Operations of decoding: encoder and cross keys once, the decoder once for each hypothesis."""
        total = 0.0
        for source, target in lengths:
            once = self._sentence(source, 0)
            total += once + beam_size * (self._sentence(source, target) - once)
        return total

    def _sentence(self, source: int, target: int) -> float:
        square, wide = self.d_model**2, self.d_model * self.d_ff
        encoder = source * (4 * square + 2 * wide) + 2 * self.d_model * source**2
        decoder = target * (6 * square + 2 * wide) + 2 * self.d_model * target * (target + source)
        memory = 2 * square * source
        output = target * self.d_model * self.vocab_size
        return 2 * (self.encoder_layers * encoder + self.decoder_layers * (decoder + memory) + output)


@dataclass(frozen=True, kw_only=True)
class TextShape:
    """A decoder without a source."""

    d_model: int
    d_ff: int
    layers: int
    vocab_size: int

    def training(self, rows: int, length: int) -> float:
        tokens = rows * length
        block = 4 * self.d_model**2 + 2 * self.d_model * self.d_ff + 2 * self.d_model * length
        return BACKWARD * 2 * tokens * (self.layers * block + self.d_model * self.vocab_size)

    def generating(self, length: int) -> float:
        """Operations of generating `length` tokens with a cache; a token attends to half of them."""
        block = 4 * self.d_model**2 + 2 * self.d_model * self.d_ff + self.d_model * length
        return 2 * length * (self.layers * block + self.d_model * self.vocab_size)
