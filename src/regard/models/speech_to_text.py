"""Speech -> text: an encoder of log-mel frames and a decoder of text (Whisper, Radford et al. 2023)."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.block import NormPosition
from regard.layers.cache import DecoderCache
from regard.layers.positions import LearnedPositions, sinusoids
from regard.layers.subsampling import HalvingConvolutions
from regard.models import parts
from regard.models.config import TransformerConfig
from regard.models.encoder_decoder import Decoder, EncoderDecoderConfig, Memory
from regard.models.initialise import xavier
from regard.models.model import Model

DETECTED = -1  # in the prompt of a text: the token of the language, which the model finds


@dataclass(frozen=True, kw_only=True)
class SpeechToTextConfig(TransformerConfig):
    """The settings of a speech-to-text model; the defaults are Whisper's base model.

    `num_heads`, `d_ff` and `max_positions` are the decoder's.
    """

    kind: ClassVar[str] = "speech_to_text"
    generates: ClassVar[bool] = True
    vocab_size: int  # tokens of the vocabulary
    num_encoder_layers: int = 6  # blocks of the encoder
    num_decoder_layers: int = 6  # blocks of the decoder
    num_encoder_heads: int = 8  # heads of each attention of the encoder
    d_ff_encoder: int = 2048  # width within a feed-forward network of the encoder
    max_source_positions: int = 1500  # positions of the encoder: half as many as a window has frames
    num_features: int = 80  # mel filters of a frame
    sampling_rate: int = 16000  # samples a second
    fft_size: int = 400  # samples of a frame
    hop_length: int = 160  # samples from one frame to the next
    window_samples: int | None = None  # what the model reads at once; None: those of all its frames
    pad_id: int = 0  # the token that fills shorter rows of a batch
    d_model: int = 512
    norm_position: NormPosition = "pre"
    activation: str = "gelu"
    positions: str = "learned"
    max_positions: int = 448
    dropout: float = 0.0

    def __post_init__(self) -> None:
        self.require_positive("vocab_size", "num_encoder_layers", "num_decoder_layers", "num_encoder_heads")
        self.require_positive("d_ff_encoder", "max_source_positions", "num_features", "sampling_rate")
        self.require_positive("hop_length", "window_samples")
        super().__post_init__()
        self.require_default("num_kv_heads", "head_dim", "attention_scale", "bias", "attention_bias")
        self.require_default("position_offset")
        self.require_token_id("pad_id", self.vocab_size)
        if self.d_model % self.num_encoder_heads or self.d_model % 2:
            raise ConfigError(
                f"d_model ({self.d_model}) must be even, and divisible by num_encoder_heads"
                f" ({self.num_encoder_heads})",
                "num_encoder_heads = num_heads is usual",
            )
        self._check_windows()

    def _check_windows(self) -> None:
        if self.samples_at_once // self.hop_length != self.window_frames:
            raise ConfigError(
                f"window_samples = {self.window_samples} have {self.samples_at_once // self.hop_length}"
                f" frames, but max_source_positions ({self.max_source_positions}) needs {self.window_frames}",
                "a position is two frames, and a frame hop_length samples",
            )
        if not 2 <= self.fft_size < self.samples_at_once or self.fft_size % 2:
            raise ConfigError(
                f"fft_size = {self.fft_size} of {self.samples_at_once} samples is not possible",
                "give an even number; 400 is usual",
            )

    @property
    def window_frames(self) -> int:
        """The number of frames that the model reads at once."""
        return 2 * self.max_source_positions

    @property
    def samples_at_once(self) -> int:
        """The number of samples that the model reads at once."""
        return self.window_frames * self.hop_length if self.window_samples is None else self.window_samples

    def of_encoder(self) -> TransformerConfig:
        """The settings of the encoder's blocks."""
        changes = {"num_heads": self.num_encoder_heads, "d_ff": self.d_ff_encoder, "positions": "none"}
        return TransformerConfig(**{**self._shared(), **changes})

    def of_decoder(self) -> EncoderDecoderConfig:
        """The settings of the decoder, which is that of an encoder-decoder."""
        return EncoderDecoderConfig(
            **self._shared(),
            src_vocab_size=self.vocab_size,
            tgt_vocab_size=self.vocab_size,
            num_decoder_layers=self.num_decoder_layers,
            scaled_embedding=False,
            pad_id=self.pad_id,
        )

    def _shared(self) -> dict[str, Any]:
        """The settings of all Transformers."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(TransformerConfig)}


class SpeechEncoder(nn.Module):
    """The frames of a window -> a state for every two frames, from attention to the whole window."""

    def __init__(self, config: SpeechToTextConfig) -> None:
        super().__init__()
        stack = config.of_encoder()
        self.input = HalvingConvolutions(config.num_features, config.d_model)
        # sinusoids, which checkpoints store: rounded to 16 bits, or trained on
        self.positions = LearnedPositions(config.d_model, config.max_source_positions)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            parts.encoder_block(stack, None) for _ in range(config.num_encoder_layers)
        )
        self.norm = parts.final_norm(stack)

    def forward(
        self, frames: Float[Tensor, "batch frames features"]
    ) -> Float[Tensor, "batch positions d_model"]:
        x = self.input(frames)
        x = self.dropout(x + self.positions(0, x.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class SpeechToText(Model):
    """Windows of log-mel frames and the beginnings of their texts -> logits of the next tokens.

    A window always has `config.window_frames` frames, silence included.
    """

    def __init__(self, config: SpeechToTextConfig) -> None:
        super().__init__()
        self.config: SpeechToTextConfig = config
        self.encoder = SpeechEncoder(config)
        self.decoder = Decoder(config.of_decoder())
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.output.weight = self.decoder.input.embedding.weight

    def forward(
        self, frames: Float[Tensor, "batch frames features"], tgt_ids: Int64[Tensor, "batch tgt_len"]
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """The logits of the next id at each position, from the window and the ids up to it."""
        memory = self.encode(frames)
        layers = len(self.decoder.blocks)
        return self.output(self.decoder(tgt_ids, [memory.hidden] * layers, memory.mask, [None] * layers))

    def encode(self, frames: Float[Tensor, "batch frames features"]) -> Memory:
        """The memory: the encoder's states, all of which may be attended to."""
        hidden = self.encoder(frames)
        return Memory(hidden, self._everything(hidden))

    def start(self, memory: Memory) -> DecoderCache:
        """A cache with an empty text and each block's cross-attention keys and values."""
        return DecoderCache(self.decoder.read(memory.hidden), memory.mask)

    def extend(
        self, tgt_ids: Int64[Tensor, "rows new_len"], cache: DecoderCache
    ) -> Float[Tensor, "rows new_len vocab"]:
        """The logits for `tgt_ids` that follow those in the cache, to which they are added."""
        return self.output(self.decoder(tgt_ids, cache.memories, cache.memory_mask, cache.targets))

    @staticmethod
    def _everything(hidden: Float[Tensor, "batch len d_model"]) -> Bool[Tensor, "batch 1 1 len"]:
        return hidden.new_ones((hidden.size(0), 1, 1, hidden.size(1)), dtype=torch.bool)

    def initialise(self, generator: torch.Generator) -> None:
        xavier(self, generator)
        with torch.no_grad():
            for module in (self.encoder.input.first, self.encoder.input.second):
                nn.init.kaiming_uniform_(module.weight, nonlinearity="relu", generator=generator)
                assert module.bias is not None
                nn.init.zeros_(module.bias)
            config = self.config
            table = sinusoids(0, config.max_source_positions, config.d_model, "fairseq")
            self.encoder.positions.weight.copy_(table)
