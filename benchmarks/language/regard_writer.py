"""regard's generation, as in `regard generate`."""

from typing import Any, cast

from benchmarks.language.writer import Writer
from regard.decoding.continuation import ContinuationSettings, continue_all, prompts_of
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnly
from regard.verbs.shared.precision import Precision, compute_in


class Generator(Writer):
    """Greedy decoding with the cache."""

    def __init__(self, *, precision: Precision = "float32", **settings: Any) -> None:
        super().__init__(**settings)
        self._model = cast(DecoderOnly, build_model(self.config, seed=0))
        self._model.load_state_dict(dict(self.weights()))
        self._model.eval()
        compute_in(precision, self._model, self._model.device)

    def write(self, length: int) -> list[int]:
        return self.write_all([self.prompt], length)[0]

    def write_all(self, prompts: list[list[int]], length: int) -> list[list[int]]:
        settings = ContinuationSettings(beam_size=1, begin=False, max_new_tokens=length)
        asked = prompts_of(prompts, begin_id=None)
        found = continue_all(settings.strategy(), self._model, asked, max_new_tokens=length)
        return [hypotheses[0].ids for hypotheses in found]
