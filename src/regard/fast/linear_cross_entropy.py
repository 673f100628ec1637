"""The output layer and its cross-entropy in one step, without storing all logits."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.fast import gpu_training
from regard.fast.fusible import can_be_fused, is_on_gpu
from regard.fast.native.cross_entropy import ROWS_AT_A_TIME, LinearCrossEntropy
from regard.fast.unchanged import any_module_is_hooked, class_is_unchanged, is_unchanged
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.recurrent import Recurrent

MODELS_WITH_OUTPUT = (
    EncoderDecoder,
    DecoderOnly,
    Recurrent,
)  # their `project` is `self.output(hidden)`


def linear_cross_entropy(
    states: Float[Tensor, "tokens d_model"],
    output: nn.Linear,
    labels: Int64[Tensor, " tokens"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Summed cross-entropies of `softmax(output(states))` in nats: with label smoothing, and without.

    The first equals `F.cross_entropy(output(states), labels, label_smoothing=smoothing, reduction="sum")`.
    PyTorch's chunked function has no smoothing. But smoothing needs no softmax: log p is linear in the logits
    except for one term that all classes share, so

        (1 - s) (-log p_gold) + s mean(-log p) = -log p_gold + s (logit_gold - mean logit).

    If a kernel is available, it is used instead.
    """
    # On one core of an Intel Xeon (AVX-512), 3,900 x 128 states, 8,000 classes, forward and backward: 204 ms,
    # against 533 ms with all logits in memory.
    weight, bias = output.weight, output.bias
    if is_on_gpu(states):
        return gpu_training.linear_cross_entropy(states, output, labels, smoothing)
    if can_be_fused(states, output):
        return LinearCrossEntropy.apply(states, weight, bias, labels, smoothing)
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=ROWS_AT_A_TIME)
    nll = F.linear_cross_entropy(states, weight, labels, linear_bias=bias, reduction="sum", options=options)
    if not smoothing:
        return nll, nll.detach()
    lead = (states * (F.embedding(labels, weight) - weight.mean(0))).sum()
    if bias is not None:
        lead = lead + (bias[labels] - bias.mean()).sum()
    return nll + smoothing * lead, nll.detach()


def output_layer(model: nn.Module) -> nn.Linear | None:
    """The linear layer by which `model.project` computes logits; None if `project` does anything else.

    The model may be of a subclass (FSDP makes one) that inherits the `project` of a known model.
    """
    output = getattr(model, "output", None)
    project = getattr(type(model), "project", None)
    known = any(project is kind.project and class_is_unchanged(kind) for kind in MODELS_WITH_OUTPUT)
    if not known or "project" in vars(model) or type(output) is not nn.Linear:
        return None
    return output if is_unchanged(output) and not any_module_is_hooked() else None


def can_be_linear_cross_entropy(states: Tensor, output: nn.Linear) -> bool:
    """True if `linear_cross_entropy` can replace `output` and is faster: there are many classes.

    On a GPU in training; on a CPU in float32, where it needs PyTorch 2.13 or a kernel. It cannot be part of a
    compiled graph.
    """
    if torch.compiler.is_compiling() or output.out_features <= output.in_features:
        return False
    if states.device.type != "cpu" or is_on_gpu(states):
        return gpu_training.has_linear_cross_entropy(states, output)
    has_function = hasattr(F, "linear_cross_entropy") or can_be_fused(states, output)
    return has_function and not torch.is_autocast_enabled("cpu")
