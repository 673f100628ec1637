"""The weights of a model whose vocabulary is extended: new rows are means of old ones (Hewitt 2021)."""

import dataclasses
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_extension import old_pieces
from regard.errors import FolderError
from regard.models.build import resized_weights
from regard.models.config import ModelConfig
from regard.weights.model_folder import LoadedModel
from regard.weights.tensors import model_tensors

FIRST_SHARE = 0.5  # the most that all new tokens together have of the most probable old one's probability
OUTPUT_BIAS = "output_bias"  # the setting of models whose output layer may have a bias


@dataclass(frozen=True, kw_only=True)
class GrownWeights:
    """The weights of a model with more tokens; `names` are those that have new rows."""

    tensors: dict[str, Tensor]
    names: tuple[str, ...]


def grown_weights(loaded: LoadedModel, extended: TokenizerPair) -> GrownWeights:
    """The weights of `loaded` for its extended tokenisers.

    The new rows of embeddings and output weights are the mean of the rows of the old pieces that the token's
    text splits into; if all of them are unknown, of all tokens but special ones, or of these if there are no
    others. A new token's logit then is at most the largest old one, as a mean. The bias of new outputs is
    such a mean, less log(n / FIRST_SHARE) for n new tokens. So all of them together are at most FIRST_SHARE
    times as probable as the most probable old token, whatever the text, and greedy decoding chooses none.
    (Soft-capped logits keep their order alone.) Models without an output bias get one, of zeros for old
    tokens.

    Raises:
        FolderError: this kind of model has an output layer without a bias, or is of another shape.
    """
    old, tensors = loaded.tokenizers, dict(model_tensors(loaded.model))
    if OUTPUT_BIAS in loaded.config.to_dict() and "output.bias" not in tensors:
        tensors["output.bias"] = torch.zeros(old.target.vocab_size)
    config = with_output_bias(loaded.config)
    shares = {
        "source": _mean_shares(old.source, extended.source),
        "target": _mean_shares(old.target, extended.target),
    }
    sides = {name: side for name, side in _vocabulary_weights(config, old.joint).items() if name in tensors}
    if loaded.config.generates and not any(tensors[name].ndim == 1 for name in sides):
        raise FolderError(
            f"{loaded.path}: the outputs of a model of kind {config.kind!r} have no bias, by which new tokens"
            " begin improbable",
            "leave tokenizer.extension out",
        )
    grown = {name: _grown(tensors[name], shares[side]) for name, side in sides.items()}
    return GrownWeights(tensors={**tensors, **grown}, names=tuple(sorted(grown)))


def with_output_bias(config: ModelConfig) -> ModelConfig:
    """The config, with a bias of its outputs if this kind of model can have one."""
    return dataclasses.replace(config, output_bias=True) if OUTPUT_BIAS in config.to_dict() else config  # pyright: ignore[reportCallIssue]


def _vocabulary_weights(config: ModelConfig, joint: bool) -> dict[str, str]:
    """The weights that have a row for each token, and on which side the token is: "source" or "target"."""
    settings = config.to_dict()
    sides = {"vocab_size": "source", "src_vocab_size": "source", "tgt_vocab_size": "target"}
    larger = {name: settings[name] + 1 for name in sides if name in settings}
    if joint:
        return dict.fromkeys(resized_weights(config, **larger), "target")
    found = {name: resized_weights(config, **{name: size}) for name, size in larger.items()}
    return {weight: sides[name] for name, weights in found.items() for weight in weights}


def _mean_shares(old: Tokenizer, extended: Tokenizer) -> Float[Tensor, "new old"]:
    """The share of each old token in the mean of each new one."""
    special = {old.pad_id, old.unk_id, old.bos_id, old.eos_id}
    ordinary = [number for number in range(old.vocab_size) if number not in special]
    pieces = old_pieces(old, extended)
    shares = torch.zeros(len(pieces), old.vocab_size)
    for row, ids in zip(shares, pieces, strict=True):
        chosen = torch.tensor(ids or ordinary or sorted(special))
        row.index_add_(0, chosen, torch.full((len(chosen),), 1 / len(chosen)))
    return shares


@torch.no_grad()
def _grown(weight: Tensor, shares: Tensor) -> Tensor:
    if weight.size(0) != shares.size(1):
        raise FolderError(
            f"a weight of shape {list(weight.shape)} has no row for each of {shares.size(1):,} tokens",
            "leave tokenizer.extension out: this kind of model cannot be extended",
        )
    new = (shares.double() @ weight.double()).to(weight.dtype)
    if weight.ndim == 1 and len(new):
        new -= math.log(len(new) / FIRST_SHARE)
    return torch.cat([weight, new])
