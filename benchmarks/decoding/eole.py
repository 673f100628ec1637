"""eole's Translator, with regard's weights where they fit."""

from collections.abc import Sequence
from typing import Any

import torch
from eole.config.run import PredictConfig
from eole.predict import Translator
from eole.predict.beam_search import GNMTGlobalScorer

from benchmarks.common.unfit import Unfit
from benchmarks.convert.names import Weights
from benchmarks.convert.to_eole import SPECIAL_TOKENS, pair_model, settings_of, vocabularies_of
from benchmarks.decoding.sentences import Decoder, Ids
from regard.weights.model_folder import load_model

PAD, EOS = SPECIAL_TOKENS["pad_token"], SPECIAL_TOKENS["eos_token"]


class Eole(Decoder):
    """With its cache, fused queries, keys and values; finished sentences leave the batch."""

    def __init__(self, *, sentences: str) -> None:
        super().__init__(sentences=sentences)
        loaded = load_model(self.sentences.model)
        self.take(loaded.config, loaded.model.state_dict())

    def take(self, shape: Any, weights: Weights) -> None:
        """Translate by a model of this shape."""
        vocabularies = vocabularies_of(self.sentences.vocabulary)
        self._unfit = ""
        try:
            model = pair_model(shape, weights, vocabularies)
        except Unfit as unfit:  # same sizes, other weights: only speed with forced lengths can be compared
            self._unfit = f"cannot take these weights: {unfit}"
            model = pair_model(shape, None, vocabularies, like=True)
        model.update_dropout(0.0, 0.0)
        self._translator = self._made(shape, model.eval(), vocabularies)

    @torch.inference_mode()
    def decode(self, batch: Sequence[int], beam: int, length: int | None) -> list[Ids]:
        if self._unfit and length is None:
            raise Unfit(self._unfit)
        sources = [torch.tensor([*self.sentences.ids[place], EOS]) for place in batch]
        self._translator.update_settings(
            beam_size=beam,
            max_length=length or max(self.sentences.limits[place] for place in batch),
            min_length=length or 0,
        )
        asked = {
            "src": torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=PAD),
            "srclen": torch.tensor([len(source) for source in sources]),
            "ind_in_bucket": list(range(len(sources))),
        }
        found = self._translator.predict_batch(asked, attn_debug=False)["predictions"]
        return [[token for token in best.tolist() if token not in (PAD, EOS)] for best, *_ in found]

    def _made(self, shape: Any, model: Any, vocabularies: dict[str, Any]) -> Translator:
        """The Translator that eole would build from a model folder of its own."""
        alpha = self.sentences.alpha
        config = PredictConfig(
            model_path="none",
            src="none",
            max_length_ratio=0,
            fuse_kvq=True,
            length_penalty="avg" if alpha else "none",
            alpha=alpha,
        )
        return Translator(
            model,
            vocabularies,
            config,
            settings_of(shape),
            device_id=-1,
            global_scorer=GNMTGlobalScorer.from_config(config),
        )
