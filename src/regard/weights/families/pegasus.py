"""Pegasus (Zhang et al. 2020): Marian with norms before the sub-layers."""

from typing import ClassVar

from regard.weights.families.marian import Marian


class Pegasus(Marian):
    """Pegasus, which summarises."""

    name = "pegasus"
    class_name = "PegasusForConditionalGeneration"
    norm_position = "pre"
    one_embedding = True
    writes_fixed_tensors = True
    token_ids: ClassVar = {"pad": 0, "eos": 1, "decoder_start": 0}
