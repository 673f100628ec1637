"""M2M-100 (Fan et al. 2021) and NLLB (NLLB Team 2022), which translate between many languages."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from regard.layers.positions import sinusoids
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.families.marian import STACKS, Marian

UNUSED = 2  # rows before the first position, whatever the id of padding is


class M2M100(Marian):
    """M2M-100: Marian with norms before the sub-layers and fairseq's sinusoids, without a bias of the logits.

    Texts begin with the token of their language.
    """

    name = "m2m_100"
    class_name = "M2M100ForConditionalGeneration"
    layout = "fairseq"
    one_embedding = True
    norm_position = "pre"
    output_bias = False
    activation = "relu"
    scaled_embedding = True
    attention_dropout = 0.1
    token_ids: ClassVar = {"pad": 1, "eos": 2, "decoder_start": 2}
    language = r"__[a-z]{2,3}__|[a-z]{3}_[A-Z][a-z]{3}"

    def position_offset(self, pad_id: int | None) -> int:
        """Positions are counted from the id after that of padding."""
        return (0 if pad_id is None else pad_id) + 1

    def fixed_tensors(self, config: EncoderDecoderConfig) -> Mapping[str, Tensor]:
        """The sinusoids that old files have, with zeros at the position of padding."""
        table = sinusoids(0, config.max_positions + UNUSED, config.d_model, "fairseq")
        table[config.pad_id : config.pad_id + 1] = 0
        return {f"model.{side}.embed_positions.weights": table for side in STACKS}
