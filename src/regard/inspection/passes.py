"""One forced pass (teacher forcing) of an example through a model, and the sequences in it.

The rows and columns of every attention belong to one of these sequences. A decoder reads its target shifted
by one: row t reads `read[t]` and predicts `written[t]`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.decoding.special_tokens import refuse_other_id
from regard.errors import ConfigError
from regard.inspection.names_given import refuse_other_module
from regard.inspection.numbers_given import is_whole, refuse_other_ids, refuse_other_rows
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import DecoderBlock, EncoderBlock
from regard.layers.recurrent import SourceAttention
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_only import EncoderOnly
from regard.models.model import Model
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.models.speech_to_text import SpeechToText
from regard.models.vision import VisionTransformer

Part = Literal["encoder", "decoder", "cross"]
SequenceName = Literal["source", "read", "written", "text"]
INPUTS: tuple[SequenceName, ...] = (
    "source",
    "text",
    "read",
)  # what a model reads, in the order of preference
WITH_SOURCE = (SequenceToSequence, SpeechToText)  # the source of speech: the encoder's states of a window
PASSES = (
    "translation_pass is for encoder-decoders, continuation_pass for decoders, encoder_pass for encoders of"
    " texts, image_pass for vision transformers"
)


@dataclass(frozen=True, kw_only=True)
class ForcedPass:
    """One example as a batch of one, ready to be run through `model`.

    `sequences` has its ids by name: "source", "read" and "written" for an encoder-decoder, "read" and
    "written" for a decoder, "text" for an encoder or a vision transformer. `inputs` are the arguments of the
    model. `answer_rows` are the rows of the output that form the answer, without a prompt; None for all.
    """

    model: Model
    sequences: dict[SequenceName, tuple[int, ...]]
    inputs: tuple[Tensor, ...]
    answer_rows: tuple[int, ...] | None = None

    def __call__(self) -> Float[Tensor, "1 ..."]:
        """The model's output in evaluation mode: logits of `written`, or the output of an encoder's head."""
        training = self.model.training
        self.model.eval()
        try:
            return self.model(*self.inputs)
        finally:
            self.model.train(training)

    @property
    def input_name(self) -> SequenceName:
        """The sequence that the model reads: its source, a text, or a decoder's input.

        Raises:
            ConfigError: there is none of them.
        """
        for name in INPUTS:
            if self.sequences.get(name):
                return name
        raise ConfigError("this pass has no input sequence with a token", PASSES)


def translation_pass(
    model: SequenceToSequence, src_ids: Sequence[int], tgt_ids: Sequence[int], *, bos_id: int, eos_id: int
) -> ForcedPass:
    """The pass of an encoder-decoder that predicts `tgt_ids` from `src_ids`, both without special tokens.

    Raises:
        ConfigError: an id is not that of a token, or the model is not an encoder-decoder.
    """
    _refuse_other_model(model, SequenceToSequence)
    for name, value in (("bos_id", bos_id), ("eos_id", eos_id)):
        refuse_other_id(name, value)
    most = model.max_length
    source = refuse_other_ids("src_ids", (*src_ids, eos_id), model.config.src_vocab_size, most)
    read = refuse_other_ids("tgt_ids", (bos_id, *tgt_ids), model.config.tgt_vocab_size, most)
    refuse_other_ids("eos_id", (eos_id,), model.config.tgt_vocab_size)
    return ForcedPass(
        model=model,
        sequences={"source": source, "read": read, "written": (*read[1:], eos_id)},
        inputs=(_row(model, source), torch.tensor([len(source)], device=model.device), _row(model, read)),
    )


def continuation_pass(model: DecoderOnly, ids: Sequence[int], *, start: int = 0) -> ForcedPass:
    """The pass of a decoder that reads all `ids` but the last and predicts all but the first.

    `ids` has at least two. The answer begins with the predicted token `start`; those before it belong to the
    prompt.

    Raises:
        ConfigError: there are fewer ids, or more than positions, one is not that of a token, `start` is
            beyond them, or the model is no decoder.
    """
    _refuse_other_model(model, DecoderOnly)
    ids = refuse_other_ids("ids", ids, model.config.vocab_size)
    if len(ids) < 2:
        raise ConfigError(
            f"a decoder predicts from {len(ids)} tokens nothing that is known",
            "give two ids or more: all but the last are read, and all but the first are predicted",
        )
    read, written = ids[:-1], ids[1:]
    refuse_other_ids("ids", read, model.config.vocab_size, model.max_length)
    if not is_whole(start) or not 0 <= start <= len(written):
        raise ConfigError(
            f"start = {start}: the pass predicts {len(written)} tokens", f"start is 0 to {len(written)}"
        )
    return ForcedPass(
        model=model,
        sequences={"read": read, "written": written},
        inputs=(_row(model, read),),
        answer_rows=tuple(range(start, len(written))),
    )


def encoder_pass(
    model: EncoderOnly, ids: Sequence[int], *, answer_rows: tuple[int, ...] | None = None
) -> ForcedPass:
    """The pass of an encoder that reads `ids`, special tokens included.

    Raises:
        ConfigError: there are no ids, one is not that of a token, a row is beyond them, or the model is no
            encoder of texts.
    """
    _refuse_other_model(model, EncoderOnly)
    ids = refuse_other_ids("ids", ids, model.config.vocab_size, model.max_length)
    if not ids:
        raise ConfigError("an encoder reads one token or more, and there is none", "give the ids of a text")
    refuse_other_rows(answer_rows or (), len(ids))
    return ForcedPass(
        model=model,
        sequences={"text": ids},
        inputs=(_row(model, ids), torch.tensor([len(ids)], device=model.device)),
        answer_rows=answer_rows,
    )


def image_pass(model: VisionTransformer, image: Float[Tensor, "1 channels height width"]) -> ForcedPass:
    """The pass of a vision transformer; the ids of its "text" number its special tokens and the patches.

    Raises:
        ConfigError: the image is not of the size that the model reads, or this is not a vision transformer.
    """
    _refuse_other_model(model, VisionTransformer)
    size, channels = model.config.image_size, model.config.channels
    if tuple(image.shape) != (1, channels, size, size):
        raise ConfigError(
            f"the image has the shape {[*image.shape]}, and the model reads {[1, channels, size, size]}",
            "read_images of regard.data gives images of the model's size",
        )
    rows, columns = (side // model.config.patch_size for side in image.shape[2:])
    count = rows * columns + model.config.num_special_tokens
    return ForcedPass(model=model, sequences={"text": tuple(range(count))}, inputs=(image.to(model.device),))


def _refuse_other_model(model: object, kind: type[Model]) -> None:
    if not isinstance(model, kind):
        refuse_other_module(model)
        raise ConfigError(
            f"a {type(model).__name__} is not a {kind.__name__}, which this pass is for", PASSES
        )


def _row(model: Model, ids: Sequence[int]) -> Tensor:
    return torch.tensor([list(ids)], device=model.device)


@dataclass(frozen=True, kw_only=True)
class AttentionSite:
    """An attention module of a model, and the sequences of its rows and columns."""

    name: str  # of the module: "decoder.blocks.2.cross_attention"
    part: Part
    layer: int  # 0 is the lowest layer of its part
    num_heads: int
    rows: SequenceName
    columns: SequenceName
    softcap: float | None = None  # of its scores


def refuse_shared_modules(model: nn.Module) -> None:
    """Raise a ConfigError for an attention or a block that a model has in several places.

    A pass calls it once for each place, and what it computes in one of them has no name of its own.
    """
    refuse_other_module(model)
    places: dict[nn.Module, str] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if not isinstance(module, MultiHeadAttention | SourceAttention | EncoderBlock | DecoderBlock):
            continue
        if module in places:
            raise ConfigError(
                f"{places[module]} and {name} are one module, so what it computes in each cannot be recorded",
                "use a copy with the same weights and a name for each: with_distinct_blocks(model) of"
                " regard.inspection",
            )
        places[module] = name


def attention_sites(model: Model) -> list[AttentionSite]:
    """The attentions of a model in the order of computation; one for each place of a shared module."""
    refuse_other_module(model)
    found: list[AttentionSite] = []
    for name, module in model.named_modules(remove_duplicate=False):
        if not isinstance(module, MultiHeadAttention | SourceAttention):
            continue
        part, rows, columns = _part_and_sequences(model, name, module)
        layer = sum(site.part == part for site in found)
        known = isinstance(module, MultiHeadAttention)
        found.append(
            AttentionSite(
                name=name,
                part=part,
                layer=layer,
                num_heads=module.num_heads if known else 1,
                rows=rows,
                columns=columns,
                softcap=module.softcap if known else None,
            )
        )
    return found


def sequence_of(model: Model, name: str) -> SequenceName:
    """The sequence to whose positions the outputs of the module `name` belong."""
    if isinstance(model, WITH_SOURCE):
        return "source" if name.startswith("encoder.") else "read"
    return "read" if isinstance(model, DecoderOnly) else "text"


def _part_and_sequences(
    model: Model, name: str, module: nn.Module
) -> tuple[Part, SequenceName, SequenceName]:
    rows = sequence_of(model, name)
    if isinstance(model, WITH_SOURCE) and not isinstance(module, SelfAttention):
        return "cross", rows, "source"
    return "decoder" if rows == "read" else "encoder", rows, rows
