"""The logit lens (nostalgebraist 2020): what a model would predict if it stopped after each layer.

The hidden states between blocks go through the model's own final norm and output projection. A post-norm
model has no final norm, because each of its blocks ends in one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.decoding.batches import deterministic
from regard.errors import ConfigError
from regard.inspection.numbers_given import refuse_other_count
from regard.inspection.own_thread import in_this_thread
from regard.inspection.passes import PASSES, ForcedPass, SequenceName
from regard.inspection.steps import TokenCandidate, entropies, most_likely_tokens, ranks
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.encoder_only import EncoderOnly
from regard.models.heads import MaskedLanguageModelHead

Unembed = Callable[[Tensor], Tensor]  # final norm and output projection: hidden states -> logits


@dataclass(frozen=True, kw_only=True)
class Lens:
    """Predictions of each layer (from the lowest) at each position.

    `cells` has the most likely tokens of each layer and position, best first.
    """

    layers: tuple[str, ...]  # "embedding", then the number of each block from 1
    positions: SequenceName  # the sequence of the tokens that are ranked: "written", or "text" of an encoder
    cells: list[list[tuple[TokenCandidate, ...]]]
    rank: list[list[int]]  # of the token at this position; 1 is the most likely
    entropy: list[list[float]]  # nats


def logit_lens(forced: ForcedPass, *, candidates: int = 5) -> Lens:
    """The logit lens of one pass; in an encoder-decoder it covers the decoder's layers.

    Raises:
        ConfigError: the model has no blocks, or its head does not predict tokens, or a decoder's pass has no
            forced target.
    """
    refuse_other_count("candidates", candidates, "a cell needs one or more; the default is 5")
    _, _ = _blocks_and_unembed(forced)  # refuses other models before the sequences of their passes
    positions: SequenceName = "text" if isinstance(forced.model, EncoderOnly) else "written"
    if positions not in forced.sequences:
        raise ConfigError(f"this pass has no forced target: it lacks the sequence {positions!r}", PASSES)
    ids = torch.tensor(forced.sequences[positions], device=forced.model.device)
    cells, rank, entropy = [], [], []
    for logits in lens_logits(forced):
        cells.append(most_likely_tokens(logits.log_softmax(dim=-1), candidates))
        rank.append(ranks(logits, ids).tolist())
        entropy.append(entropies(logits).tolist())
    names = ("embedding", *(str(number) for number in range(1, len(cells))))
    return Lens(layers=names, positions=positions, cells=cells, rank=rank, entropy=entropy)


def lens_logits(forced: ForcedPass) -> Iterator[Float[Tensor, "len vocab"]]:
    """The logits of each layer in turn: of the embeddings, then after each block.

    The last ones are the model's own output.
    """
    blocks, unembed = _blocks_and_unembed(forced)
    with torch.no_grad(), _record_states(blocks) as states:
        forced()
    for hidden in states:
        with torch.no_grad(), deterministic([forced.model]):  # per layer: the caller runs in between
            logits = unembed(hidden)[0].float()
        yield logits


def _blocks_and_unembed(forced: ForcedPass) -> tuple[nn.ModuleList, Unembed]:
    """The blocks whose states are read, and the function that follows the last block."""
    model = forced.model
    match model:
        case EncoderDecoder():
            decoder = model.decoder
            return decoder.blocks, lambda x: model.project(
                decoder.norm(x) if decoder.scale == 1.0 else decoder.norm(x) * decoder.scale
            )
        case DecoderOnly():
            return model.blocks, lambda x: model.project(model.norm(x))
        case EncoderOnly(head=MaskedLanguageModelHead() as head):
            lengths = forced.inputs[1]
            return model.encoder.blocks, lambda x: head(model.encoder.norm(x), lengths)
    raise ConfigError(
        "the logit lens needs a Transformer that predicts tokens, and this model does not",
        "use a model with a decoder, or an encoder with the head masked_language_model",
    )


@contextmanager
def _record_states(blocks: nn.ModuleList) -> Iterator[list[Tensor]]:
    """Records the input of the first block and the output of each block, as often as it is applied."""
    states: list[Tensor] = []

    def before(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        if not states:
            states.append(inputs[0])

    def after(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        states.append(output)

    hooks = [blocks[0].register_forward_pre_hook(in_this_thread(before))]
    hooks += [block.register_forward_hook(in_this_thread(after)) for block in {*blocks}]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()
