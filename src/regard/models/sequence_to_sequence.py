"""What training and decoding ask of a model that turns one sequence into another, attention or not."""

from abc import abstractmethod
from typing import Any

from jaxtyping import Float, Int, Int64
from torch import Tensor, nn

from regard.models.model import Model


class SequenceToSequence(Model):
    """A source sequence and the beginning of its target -> logits of each next target token.

    Rows are padded on the right. What `encode` gives (the memory) and what `start` gives (the cache)
    is the model's own business; a cache has `length` and `select(rows) -> cache`. The config has
    `src_vocab_size`, `tgt_vocab_size` and `pad_id`. `output` makes logits of decoder states.
    """

    output: nn.Linear

    def forward(
        self,
        src_ids: Int64[Tensor, "batch src_len"],
        src_lengths: Int[Tensor, " batch"],
        tgt_ids: Int64[Tensor, "batch tgt_len"],
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """At each position the logits of the id after it, from the source and the ids up to it."""
        return self.decode(tgt_ids, self.encode(src_ids, src_lengths))

    def decode(
        self, tgt_ids: Int64[Tensor, "batch tgt_len"], memory: Any
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        return self.project(self.decoder_states(tgt_ids, memory))

    @abstractmethod
    def encode(self, src_ids: Int64[Tensor, "batch src_len"], src_lengths: Int[Tensor, " batch"]) -> Any:
        """The memory: the source as the encoder has understood it."""

    @abstractmethod
    def decoder_states(
        self, tgt_ids: Int64[Tensor, "batch tgt_len"], memory: Any
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """What predicts the id after each of `tgt_ids`."""

    @abstractmethod
    def project(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """Decoder states -> logits."""

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """A cache: an empty target beside the memory."""

    @abstractmethod
    def extend(
        self, tgt_ids: Int64[Tensor, "rows new_len"], cache: Any
    ) -> Float[Tensor, "rows new_len vocab"]:
        """What `decode` gives for these ids after those that the cache has read; it reads them too."""

    @property
    def max_length(self) -> int | None:
        """How many positions of either side the model can read; None: there is no end to them."""
        return None

    @property
    def d_head(self) -> int:
        """The width of the keys that the decoder compares with."""
        return self.config.d_model
