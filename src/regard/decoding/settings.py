"""The settings of decoding, as a recipe and generation.json hold them; made into a search."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from regard.decoding.hypothesis import LengthPenalty, Power, Wu
from regard.decoding.rules import Banned, LengthLimits, MinimumLength, NoRepeatNGrams, Rule
from regard.decoding.sampling import Filter, Sampling, Temperature, TopK, TopP
from regard.decoding.search import BeamSearch, GreedySearch, Search
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class GenerationSettings:
    """How to decode. Lengths are in tokens, the end not counted.

    The defaults follow Vaswani et al. 2017, section 6.1: a length penalty of alpha 0.6, and at most
    50 tokens more than the source has.
    """

    beam_size: int = 5  # 1 is greedy
    n_best: int = 1
    length_penalty: Literal["wu", "power", "none"] = "wu"  # ((5 + length) / 6)^alpha, length^alpha, 1
    alpha: float = 0.6
    max_length_ratio: float = 1.0  # the greatest length is ratio * source length + offset,
    max_length_offset: int = 50
    max_length: int = 1024  # and never more than this
    min_length: int = 0
    no_repeat_ngram_size: int = 0  # 0 allows repetition
    sample: bool = False  # draw at random instead of searching; n_best is how often
    temperature: float = 1.0
    top_k: int = 0  # 0 keeps all
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:  # so that NaN is refused too
                raise ConfigError(
                    f"{name} is {getattr(self, name)}, but must be at least {least}",
                    f"{name} = {max(least, getattr(type(self), name))} would do",
                )
        if self.min_length > self.max_length:
            raise ConfigError(
                f"min_length ({self.min_length}) is more than max_length ({self.max_length})",
                f"max_length = {self.min_length} would do",
            )
        self._filters()  # what else cannot work is refused by the values themselves
        self.strategy()

    def with_(self, **changes: Any) -> "GenerationSettings":
        """The same with other values."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """What generation.json holds."""
        return dataclasses.asdict(self)

    def strategy(self, *, pad_id: int = 0, bos_id: int = 2, eos_id: int = 3) -> Search:
        """The search that these settings describe."""
        rules: list[Rule] = [Banned(ids=(pad_id, bos_id))]
        if self.min_length:
            rules.append(MinimumLength(length=self.min_length, eos_id=eos_id))
        if self.no_repeat_ngram_size:
            rules.append(NoRepeatNGrams(size=self.no_repeat_ngram_size))
        limits = LengthLimits(
            ratio=self.max_length_ratio,
            offset=self.max_length_offset,
            least=self.min_length,
            most=self.max_length,
        )
        common: dict[str, Any] = {
            "limits": limits,
            "rules": tuple(rules),
            "length_penalty": self._length_penalty(),
            "bos_id": bos_id,
            "eos_id": eos_id,
        }
        if self.sample:
            return Sampling(**common, n_best=self.n_best, filters=self._filters(), seed=self.seed)
        if self.beam_size == 1 and self.n_best == 1:
            return GreedySearch(**common)
        return BeamSearch(**common, n_best=self.n_best, beam_size=self.beam_size)

    def _length_penalty(self) -> LengthPenalty:
        if self.length_penalty == "wu":
            return Wu(alpha=self.alpha)
        return Power(alpha=self.alpha if self.length_penalty == "power" else 0.0)

    def _filters(self) -> tuple[Filter, ...]:
        filters: list[Filter] = []
        if self.temperature != 1:
            filters.append(Temperature(temperature=self.temperature))
        if self.top_k:
            filters.append(TopK(k=self.top_k))
        if self.top_p != 1:
            filters.append(TopP(p=self.top_p))
        return tuple(filters)


_LEAST = {
    "beam_size": 1,
    "n_best": 1,
    "alpha": 0,
    "max_length_ratio": 0,
    "max_length_offset": 0,
    "max_length": 1,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "top_k": 0,
}
