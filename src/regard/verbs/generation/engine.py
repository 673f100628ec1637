"""Translating by another engine: which controls it has, and the search that they describe."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from torch import nn

from regard import console
from regard.data.tokenizer import TokenizerPair
from regard.decoding.assembly import score_by
from regard.decoding.control import controls_of
from regard.decoding.control_fields import BeamSize
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError
from regard.exports.ctranslate2_engine import CTranslate2Engine, EngineSearch, cached_export
from regard.fast.unchanged import changed_part, sampled_weights
from regard.verbs.generation.controls import CONTROLS_BY_NAME
from regard.verbs.shared.runtime import DecodingRuntime
from regard.verbs.shared.text_options import SummaryOptions
from regard.weights.model_folder import LoadedModel

ENGINE = "engine = 'ctranslate2'"
TAKEN = {*controls_of(BeamSize), "length_penalty", "alpha", "early_stopping", "max_new_tokens", "sample"}


class EngineDecoder:
    """Decodes sources by the engine, with the search of these settings, `strategy` in regard."""

    def __init__(
        self,
        settings: GenerationSettings,
        strategy: Any,
        loaded: LoadedModel,
        workers: int,
        options: SummaryOptions,
        runtime: DecodingRuntime,
    ) -> None:
        self._search = engine_search(settings, loaded.tokenizers, strategy)
        self._engine = opened_engine(loaded, runtime, workers)
        self._model, self._exported = loaded.model, sampled_weights(loaded.model)
        self._batch_tokens = options.batch_tokens

    @property
    def positions(self) -> int:
        """How many tokens of a source can be read, its end included."""
        return self._engine.positions or sys.maxsize

    def decode(
        self,
        sources: Sequence[list[int]],
        *,
        first_index: int = 0,  # of samples, which the engine does not have
        decoded: Callable[[Sequence[int]], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source; `decoded` is called once, with the places of all.

        Raises:
            ConfigError: the model is no longer what was exported.
        """
        _refuse_changed(self._model)
        if sampled_weights(self._model) != self._exported:
            raise ConfigError(
                f"the model has changed since it was exported for {ENGINE}",
                "make a new Translator: its weights are exported again",
            )
        found = self._engine.decode(sources, self._search, batch_tokens=self._batch_tokens)
        if decoded is not None:
            decoded(range(len(sources)))
        return found

    def running(self, *, alternatives: int = 0) -> NoReturn:
        """Raise a ConfigError: there is no running batch."""
        raise ConfigError("another engine has no running batch", "take engine = 'regard'")


def opened_engine(loaded: LoadedModel, runtime: DecodingRuntime, workers: int) -> CTranslate2Engine:
    """The engine with the weights of this model, which are exported if they are not in the cache.

    Raises:
        ConfigError: a module has a hook, which the engine would not call.
    """
    _refuse_changed(loaded.model)

    def begins() -> None:
        console.note(f"{ENGINE}: the model is exported and compared with regard's outputs, once")

    folder = cached_export(loaded, runtime.precision, begins=begins)
    return CTranslate2Engine(folder, loaded, workers=workers, threads=runtime.threads or 1)


def _refuse_changed(model: nn.Module) -> None:
    """Raise a ConfigError for what the engine would not call, because it computes without Python."""
    if name := changed_part(model):
        raise ConfigError(
            f"{ENGINE} cannot call the hook, or the changed method, that {name} has",
            "remove it, or take engine = 'regard'",
        )


def engine_search(settings: GenerationSettings, tokenizers: TokenizerPair, strategy: Any) -> EngineSearch:
    """The search of these settings, whose `strategy` is the same search of regard's.

    Raises:
        ConfigError: a control has a value that the engine does not have; nothing is ignored.
    """
    for name in CONTROLS_BY_NAME:
        greedy = name == "temperature" and settings.temperature == 0
        if settings.is_set(name) and name not in TAKEN and not greedy:
            raise _refusal(name, getattr(settings, name))
    if settings.samples:
        raise _refusal("sample", settings.sample)
    for name, neutral in (("min_length", 0), ("forced_bos_id", None)):
        if getattr(settings, name) != neutral:
            raise _refusal(name, getattr(settings, name), "it comes from the model's generation.json")
    alpha = _alpha(settings)
    if alpha == 0 and settings.width > 1:
        if settings.n_best > 1:
            raise _refusal("n_best", settings.n_best, "it needs length_penalty = 'power'")
        if settings.early_stopping:
            raise _refusal("early_stopping", True, "it needs length_penalty = 'power'")
    target = tokenizers.target
    ends = {target.eos_id}
    return EngineSearch(
        size=settings.width,
        n_best=settings.n_best,
        alpha=alpha,
        never=tuple({number: None for number in (target.pad_id, target.bos_id) if number not in ends}),
        limits=strategy.limits,
        length_penalty=score_by(settings.length_penalty, settings.alpha),
    )


def refuse_device(runtime: DecodingRuntime) -> None:
    """Raise a ConfigError for a device that the engine is not used on."""
    if runtime.device not in ("auto", "cpu"):
        raise _refusal("device", runtime.device, "it runs on the CPU: device = 'cpu'")


def _alpha(settings: GenerationSettings) -> float:
    """The exponent of the length in the engine's scores; greedy search needs none."""
    if settings.width == 1 or settings.length_penalty == "none" or not settings.alpha:
        return 0.0
    if settings.length_penalty == "wu":
        raise _refusal("length_penalty", "wu", "length_penalty = 'power' is its own")
    return settings.alpha


def _refusal(name: str, value: Any, hint: str = "leave it out, or take engine = 'regard'") -> ConfigError:
    return ConfigError(f"{name} = {value!r} is not possible with {ENGINE}", hint)
