"""regard's encoder-decoder -> torch.nn.Transformer, as `benchmarks/training/plain.py` wraps it."""

from typing import Any

from torch import Tensor

from benchmarks.convert.names import Weights, block, refuse, stacked


def transformer_weights(config: Any, weights: Weights) -> dict[str, Tensor]:
    """The state of the reference's model.

    Raises:
        Unfit: torch.nn.Transformer does not support this model.
    """
    refuse(
        config, tied=("all",), norm=("layer",), norm_position=("post", "pre"), positions=("sinusoidal",),
        activation=("relu",), bias=(True,), num_kv_heads=(None, config.num_heads), qk_norm=(False,),
    )  # fmt: skip
    found = {"embedding.weight": weights["encoder.input.embedding.weight"]}
    for side in ("encoder", "decoder"):
        for number in range(getattr(config, f"num_{side}_layers")):
            own = block(weights, f"{side}.blocks.{number}")
            layer = f"transformer.{side}.layers.{number}"
            for kind in ("weight", "bias"):
                found |= {f"{layer}.{name}": tensor for name, tensor in _layer(own, kind).items()}
        for kind in ("weight", "bias"):
            if f"{side}.norm.{kind}" in weights:
                found[f"transformer.{side}.norm.{kind}"] = weights[f"{side}.norm.{kind}"]
    return found


def _layer(own: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    crosses = f"cross.q.{kind}" in own
    norms = ("norm.self", "norm.cross", "norm.ff") if crosses else ("norm.self", "norm.ff")
    layer = {
        f"self_attn.in_proj_{kind}": own[f"self.in.{kind}"],
        f"self_attn.out_proj.{kind}": own[f"self.out.{kind}"],
        f"linear1.{kind}": own[f"ff.in.{kind}"],
        f"linear2.{kind}": own[f"ff.out.{kind}"],
        **{f"norm{place}.{kind}": own[f"{norm}.{kind}"] for place, norm in enumerate(norms, start=1)},
    }
    if crosses:
        layer[f"multihead_attn.in_proj_{kind}"] = stacked(own, ("cross.q", "cross.k", "cross.v"), kind)
        layer[f"multihead_attn.out_proj.{kind}"] = own[f"cross.out.{kind}"]
    return layer
