"""The logit lens (nostalgebraist 2020): what a model would say if it stopped after each layer.

The hidden state between two blocks goes through what the model itself has behind its last block: the final
norm, and the output projection. Of a post-norm model there is no final norm; each of its blocks ends in one.
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
from regard.inspection.passes import ForcedPass, SequenceName
from regard.inspection.steps import TokenCandidate, entropies, most_likely_tokens, ranks
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.encoder_only import EncoderOnly
from regard.models.heads import MaskedLanguageModelHead

Finish = Callable[[Tensor], Tensor]  # what comes behind the last block: hidden states -> logits


@dataclass(frozen=True, kw_only=True)
class Lens:
    """What is said layer by layer (the lowest first) and position by position."""

    layers: tuple[str, ...]  # "embedding", then the number of each block from 1
    positions: SequenceName  # the tokens that `rank` is of: "written", or an encoder's own "text"
    cells: list[
        list[tuple[TokenCandidate, ...]]
    ]  # the likeliest tokens of each layer and position, best first
    rank: list[list[int]]  # of the token that stands there; 1 is the likeliest
    entropy: list[list[float]]  # nats


def lens(forced: ForcedPass, *, candidates: int = 5) -> Lens:
    """The lens on one pass; on a model with encoder and decoder it looks at the decoder.

    Raises:
        ConfigError: the model has no blocks, or a head that tells no tokens.
    """
    positions: SequenceName = "written" if "written" in forced.sequences else "text"
    ids = torch.tensor(forced.sequences[positions], device=forced.model.device)
    cells, rank, entropy = [], [], []
    for logits in lens_logits(forced):
        cells.append(most_likely_tokens(logits.log_softmax(dim=-1), candidates))
        rank.append(ranks(logits, ids).tolist())
        entropy.append(entropies(logits).tolist())
    names = ("embedding", *(str(number) for number in range(1, len(cells))))
    return Lens(layers=names, positions=positions, cells=cells, rank=rank, entropy=entropy)


def lens_logits(forced: ForcedPass) -> Iterator[Float[Tensor, "len vocab"]]:
    """The logits of each layer, one at a time: of the embeddings, then after each block.

    The last are those that the model gives.
    """
    blocks, finish = _anatomy(forced)
    with torch.no_grad(), _listening(blocks) as states:
        forced()
    for hidden in states:
        with torch.no_grad(), deterministic([forced.model]):  # for this layer alone: others work in between
            logits = finish(hidden)[0].float()
        yield logits


def _anatomy(forced: ForcedPass) -> tuple[nn.ModuleList, Finish]:
    """The blocks that lead to the answer, and what comes behind the last."""
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
        "the logit lens needs a Transformer that says tokens, and this model is none",
        "a model with a decoder will do, or an encoder with the head masked_language_model",
    )


@contextmanager
def _listening(blocks: nn.ModuleList) -> Iterator[list[Tensor]]:
    """What enters the first of these blocks, and what each of them gives."""
    states: list[Tensor] = []

    def entering(_: nn.Module, given: tuple[Any, ...]) -> None:
        states.append(given[0])

    def leaving(_: nn.Module, given: tuple[Any, ...], output: Tensor) -> None:
        states.append(output)

    hooks = [blocks[0].register_forward_pre_hook(entering)]
    hooks += [block.register_forward_hook(leaving) for block in blocks]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()
