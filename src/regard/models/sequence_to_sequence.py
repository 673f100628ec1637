"""The base class of encoder-decoders: the interface that training and decoding use."""

from abc import abstractmethod
from typing import Any

from jaxtyping import Float, Int, Int64
from torch import Tensor, nn

from regard.models.model import Model


class SequenceToSequence(Model):
    """A source sequence and the beginning of its target -> logits of the next target tokens.

    Rows are padded on the right. The types of the memory (from `encode`) and of the cache (from `start`) are
    the model's own; a cache has `length` and `select(rows) -> cache`. The config has `src_vocab_size`,
    `tgt_vocab_size` and `pad_id`. `output` is the linear layer from decoder states to logits.
    """

    output: nn.Linear

    def forward(
        self,
        src_ids: Int64[Tensor, "batch src_len"],
        src_lengths: Int[Tensor, " batch"],
        tgt_ids: Int64[Tensor, "batch tgt_len"],
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """The logits of the next id at each position, from the source and the ids up to it."""
        return self.decode(tgt_ids, self.encode(src_ids, src_lengths))

    def decode(
        self, tgt_ids: Int64[Tensor, "batch tgt_len"], memory: Any
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """The logits of the next id at each position, from the memory and the ids up to it."""
        return self.project(self.decoder_states(tgt_ids, memory))

    @abstractmethod
    def encode(self, src_ids: Int64[Tensor, "batch src_len"], src_lengths: Int[Tensor, " batch"]) -> Any:
        """The memory: the encoder's states of the source."""

    @abstractmethod
    def decoder_states(
        self, tgt_ids: Int64[Tensor, "batch tgt_len"], memory: Any
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """The states from which `project` predicts the id after each of `tgt_ids`."""

    @abstractmethod
    def project(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """Decoder states -> logits."""

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """A cache with the memory and an empty target."""

    @abstractmethod
    def extend(
        self, tgt_ids: Int64[Tensor, "rows new_len"], cache: Any
    ) -> Float[Tensor, "rows new_len vocab"]:
        """The logits of `decode` for `tgt_ids` that follow those in the cache, to which they are added."""

    @property
    def max_length(self) -> int | None:
        """The greatest length of source and target that the model can read; None without a limit."""
        return None

    @property
    def d_head(self) -> int:
        """The width of an attention head's keys."""
        return self.config.d_model
