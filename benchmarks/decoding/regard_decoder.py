"""regard: its search on a batch, and its Translator with workers or int8."""

import inspect
from collections.abc import Sequence
from typing import Any

from benchmarks.common.unfit import Unfit
from benchmarks.decoding.sentences import Decoder, Ids
from regard.decoding.batches import decode_all
from regard.decoding.settings import GenerationSettings
from regard.recipe import read
from regard.verbs.shared.precision import Precision, compute_in
from regard.verbs.translate import Translator
from regard.weights.model_folder import load_model

NO_LIMIT = 1 << 30  # tokens in a batch: the benchmark forms the batches


def ends(beam: int) -> dict[str, Any]:
    """The controls that stop a beam search like the others': when `beam` hypotheses have finished."""
    return {"early_stopping": True} if beam > 1 else {}


class Regard(Decoder):
    """`decode_all`, batch by batch."""

    def __init__(self, *, sentences: str, precision: Precision = "float32") -> None:
        super().__init__(sentences=sentences)
        self._loaded = load_model(self.sentences.model)
        compute_in(precision, self._loaded.model, self._loaded.model.device)
        self._settings = read(GenerationSettings, self._loaded.generation, "generation.json")

    @property
    def config(self) -> Any:
        """The config of the model."""
        return self._loaded.config

    def decode(self, batch: Sequence[int], beam: int, length: int | None) -> list[Ids]:
        target = self._loaded.tokenizers.target
        strategy = self._prescribed(beam, length).strategy(
            pad_id=target.pad_id, bos_id=target.bos_id, eos_id=target.eos_id
        )
        found = decode_all(
            strategy,
            self._loaded.model,  # type: ignore[arg-type]
            [self.sentences.ids[place] for place in batch],
            batch_tokens=NO_LIMIT,
            pad_id=target.pad_id,
            eos_id=target.eos_id,
        )
        return [hypotheses[0].ids for hypotheses in found]

    def _prescribed(self, beam: int, length: int | None) -> GenerationSettings:
        settings = self._settings.with_(beam_size=beam, n_best=1, **ends(beam))
        if length is None:
            return settings
        return settings.with_(
            max_length_ratio=0.0, max_length_offset=length, max_length=length, min_length=length
        )


class Verb(Decoder):
    """The Translator of `regard translate`: it forms the batches, and its time includes tokenising.

    `patient`: regard's default stopping rule, when no unfinished hypothesis can win.
    """

    def __init__(self, *, sentences: str, patient: bool = False, **options: Any) -> None:
        super().__init__(sentences=sentences)
        known = inspect.signature(Translator.__init__).parameters
        for option in options:
            if option not in known:
                raise Unfit(f"this version of regard has no {option!r} in Translator")
        self._options, self._patient = options, patient
        self._translators: dict[int, Translator] = {}
        self._texts: dict[str, list[str]] = {}

    def decode(self, batch: Sequence[int], beam: int, length: int | None) -> list[Ids]:
        raise NotImplementedError  # `decode_all` calls the Translator

    def decode_all(
        self, batches: Sequence[Sequence[int]], beam: int, lengths: Sequence[int | None]
    ) -> list[Any]:
        if any(length is not None for length in lengths):
            raise Unfit("Translator forces no lengths")
        if self._patient and beam == 1:
            raise Unfit("there is no beam")
        translator = self._translator(beam)
        chunks = batches if max(map(len, batches)) == 1 else [[place for batch in batches for place in batch]]
        lines = ([self.sentences.texts[place] for place in chunk] for chunk in chunks)
        found = iter([each.text for each in translator.in_chunks(lines)])
        encode = translator.loaded.tokenizers.target.encode
        return [([encode(next(found)) for _ in batch], 0.0) for batch in batches]

    def _translator(self, beam: int) -> Translator:
        if beam not in self._translators:
            rule = {} if self._patient else ends(beam)
            self._translators[beam] = Translator(
                self.sentences.model, beam_size=beam, **rule, **self._options
            )
        return self._translators[beam]
