"""Hugging Face's `generate` on Marian or Pegasus, with regard's weights where they fit."""

from collections.abc import Sequence

import torch
import transformers

from benchmarks.common.unfit import Unfit
from benchmarks.convert.to_hugging_face import pair_model
from benchmarks.decoding.sentences import Decoder, Ids
from regard.weights.model_folder import load_model

PAD, BOS, EOS = 0, 2, 3


class HuggingFace(Decoder):
    """Hugging Face's `generate`, which has its own cache."""

    def __init__(self, *, sentences: str) -> None:
        super().__init__(sentences=sentences)
        transformers.logging.set_verbosity_error()
        loaded = load_model(self.sentences.model)
        self._unfit = ""
        try:
            self._model = pair_model(loaded.config, loaded.model.state_dict()).eval()
        except Unfit as unfit:  # same sizes, other weights: only speed with forced lengths can be compared
            self._unfit = f"cannot take these weights: {unfit}"
            self._model = pair_model(loaded.config, None, like=True).eval()

    @torch.inference_mode()
    def decode(self, batch: Sequence[int], beam: int, length: int | None) -> list[Ids]:
        if self._unfit and length is None:
            raise Unfit(self._unfit)
        sources = [torch.tensor([*self.sentences.ids[place], EOS]) for place in batch]
        ids = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=PAD)
        settings = transformers.GenerationConfig(
            num_beams=beam,
            early_stopping=beam > 1,  # when as many have ended, as CTranslate2 does
            max_new_tokens=length or max(self.sentences.limits[place] for place in batch),
            min_new_tokens=length,
            length_penalty=self.sentences.alpha,
            do_sample=False,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
        )
        found = self._model.generate(ids, attention_mask=(ids != PAD).long(), generation_config=settings)
        return [[token for token in row if token not in (PAD, BOS, EOS)] for row in found[:, 1:].tolist()]
