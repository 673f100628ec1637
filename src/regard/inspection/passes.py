"""One forced pass of one example through a model, and the names of the sequences that it looks at.

Every view of a model starts here: what was read and written, and what an attention's rows and columns stand
for. A decoder reads its target shifted by one: at row t it has read `read[t]` and predicts `written[t]`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.recurrent import SourceAttention
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_only import EncoderOnly
from regard.models.model import Model
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.models.vision import VisionTransformer

Part = Literal["encoder", "decoder", "cross"]
SequenceName = Literal["source", "read", "written", "text"]


@dataclass(frozen=True, kw_only=True)
class ForcedPass:
    """One example, ready to go through `model` once, alone in its batch.

    `sequences` are its ids by name: "source", "read" and "written" of a model with encoder and decoder,
    "read" and "written" of a decoder alone, "text" of an encoder alone, also if it reads an image. `inputs`
    are what the model is called with. `answer_rows` are the rows of its output that are the answer, or None:
    all. A prompt is no part of it, nor are the tokens of a text of which nothing was asked.
    """

    model: Model
    sequences: dict[SequenceName, tuple[int, ...]]
    inputs: tuple[Tensor, ...]
    answer_rows: tuple[int, ...] | None = None

    def __call__(self) -> Float[Tensor, "1 ..."]:
        """What the model gives, in evaluation mode: logits of `written`, or what an encoder's head says."""
        training = self.model.training
        self.model.eval()
        try:
            return self.model(*self.inputs)
        finally:
            self.model.train(training)


def translation_pass(
    model: SequenceToSequence, src_ids: Sequence[int], tgt_ids: Sequence[int], *, bos_id: int, eos_id: int
) -> ForcedPass:
    """The pass in which a source is read and this target is written; ids without special ones."""
    source, read = (*src_ids, eos_id), (bos_id, *tgt_ids)
    return ForcedPass(
        model=model,
        sequences={"source": source, "read": read, "written": (*tgt_ids, eos_id)},
        inputs=(_row(model, source), torch.tensor([len(source)], device=model.device), _row(model, read)),
    )


def continuation_pass(model: DecoderOnly, ids: Sequence[int], *, start: int = 0) -> ForcedPass:
    """The pass in which a text goes on with itself: all but its last token are read; at least two.

    The answer begins with the written token `start`: those before it are the prompt's.
    """
    read, written = tuple(ids[:-1]), tuple(ids[1:])
    return ForcedPass(
        model=model,
        sequences={"read": read, "written": written},
        inputs=(_row(model, read),),
        answer_rows=tuple(range(start, len(written))),
    )


def encoder_pass(
    model: EncoderOnly, ids: Sequence[int], *, answer_rows: tuple[int, ...] | None = None
) -> ForcedPass:
    """The pass in which an encoder reads a text; ids with the special ones that it is used to."""
    return ForcedPass(
        model=model,
        sequences={"text": tuple(ids)},
        inputs=(_row(model, ids), torch.tensor([len(ids)], device=model.device)),
        answer_rows=answer_rows,
    )


def image_pass(model: VisionTransformer, image: Float[Tensor, "1 channels height width"]) -> ForcedPass:
    """The pass in which an image is read; its "text" is its places, numbered: a token of its own, patches."""
    rows, columns = (side // model.config.patch_size for side in image.shape[2:])
    count = rows * columns + (model.class_token is not None)
    return ForcedPass(model=model, sequences={"text": tuple(range(count))}, inputs=(image.to(model.device),))


def _row(model: Model, ids: Sequence[int]) -> Tensor:
    return torch.tensor([list(ids)], device=model.device)


@dataclass(frozen=True, kw_only=True)
class AttentionSite:
    """An attention of a model: where it stands and which sequences its rows and columns are."""

    name: str  # of its module: "decoder.blocks.2.cross_attention"
    part: Part
    layer: int  # 0 is the lowest of its part
    num_heads: int
    rows: SequenceName
    columns: SequenceName


def attention_sites(model: Model) -> list[AttentionSite]:
    """The attentions of a model, in the order in which data walks through them."""
    found: list[AttentionSite] = []
    for name, module in model.named_modules():
        if not isinstance(module, MultiHeadAttention | SourceAttention):
            continue
        part, rows, columns = _stands(model, name, module)
        layer = sum(place.part == part for place in found)
        heads = module.num_heads if isinstance(module, MultiHeadAttention) else 1
        found.append(
            AttentionSite(name=name, part=part, layer=layer, num_heads=heads, rows=rows, columns=columns)
        )
    return found


def sequence_of(model: Model, name: str) -> SequenceName:
    """The sequence whose positions the module called `name` gives one vector each."""
    if isinstance(model, SequenceToSequence):
        return "source" if name.startswith("encoder.") else "read"
    return "read" if isinstance(model, DecoderOnly) else "text"


def _stands(model: Model, name: str, module: nn.Module) -> tuple[Part, SequenceName, SequenceName]:
    rows = sequence_of(model, name)
    if isinstance(model, SequenceToSequence) and not isinstance(module, SelfAttention):
        return "cross", rows, "source"
    return "decoder" if rows == "read" else "encoder", rows, rows
