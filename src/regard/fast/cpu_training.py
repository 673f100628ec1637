"""Norms and rotations for training on a CPU, in one pass over memory."""

from jaxtyping import Float
from torch import Tensor, nn

from regard.fast.fusible import can_be_fused
from regard.fast.native.rms_norm_training import TrainingRMSNorm
from regard.fast.native.rotary_training import TrainingRotation
from regard.fast.unchanged import class_is_unchanged
from regard.layers.norm import RMSNorm
from regard.layers.positions import RotaryPositions


class FusedRMSNorm(RMSNorm):
    """`RMSNorm` in one pass over memory; PyTorch takes several on a CPU."""

    def forward(self, x: Float[Tensor, "*rows features"]) -> Float[Tensor, "*rows features"]:
        if (
            self.eps is None
            or self.normalized_shape != x.shape[-1:]
            or not class_is_unchanged(RMSNorm)
            or not can_be_fused(x, self)
        ):
            return super().forward(x)
        return TrainingRMSNorm.apply(x, self.weight, self.eps)


class FusedRotaryPositions(RotaryPositions):
    """`RotaryPositions` in one pass over memory."""

    def forward(
        self, x: Float[Tensor, "batch heads len d_head"], start: int = 0
    ) -> Float[Tensor, "batch heads len d_head"]:
        if x.dim() != 4 or not class_is_unchanged(RotaryPositions) or not can_be_fused(x, self):
            return super().forward(x, start)
        sines, cosines = self.sines_and_cosines(start, x.size(2))
        if sines.dtype != x.dtype:
            return super().forward(x, start)
        return TrainingRotation.apply(x, sines.contiguous(), cosines.contiguous())


CPU_FORMS: dict[type[nn.Module], type[nn.Module]] = {
    RMSNorm: FusedRMSNorm,
    RotaryPositions: FusedRotaryPositions,
}
