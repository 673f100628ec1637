"""Decoding cost by length: regard's greedy search on a model of three layers with random weights."""

import time
from typing import Any, cast

import torch

from regard.decoding.batches import decode_all
from regard.decoding.settings import GenerationSettings
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig

ROWS, SOURCE = 8, 15  # sentences side by side, and their tokens
SIZES = {"src_vocab_size": 8000, "tgt_vocab_size": 8000}


class Regard:
    """Greedy decoding of exactly `length` tokens."""

    def __init__(self, *, threads: int) -> None:
        torch.set_num_threads(threads)
        config = EncoderDecoderConfig.from_table({"preset": "small"}, **SIZES)
        self._model = cast(EncoderDecoder, build_model(config, seed=1)).eval()
        draw = torch.Generator().manual_seed(1)
        self._sources = torch.randint(4, 8000, (ROWS, SOURCE), generator=draw).tolist()

    def round(self, *, length: int) -> dict[str, Any]:
        settings = GenerationSettings(
            beam_size=1, max_length_ratio=0.0, max_length_offset=length, max_length=length, min_length=length
        )
        began = time.perf_counter()
        found = decode_all(settings.strategy(), self._model, self._sources, batch_tokens=1 << 30)
        seconds = time.perf_counter() - began
        assert all(len(each[0].ids) == length for each in found)
        return {"seconds": seconds, "steps": length}
