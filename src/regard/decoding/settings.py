"""The settings of decoding, as a recipe and generation.json hold them; made into a search."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.decoding.assembly import SpecialTokenIds, assembled, score_by
from regard.decoding.base_search import Search
from regard.decoding.controls import LARGEST, MOST_HYPOTHESES, MOST_TOKENS, Controls
from regard.decoding.phrases import Words
from regard.decoding.rules import LengthLimits
from regard.decoding.speculative import Drafter
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class GenerationSettings(Controls):
    """How to decode, given a source. Lengths are in tokens, the end not counted.

    The defaults follow Vaswani et al. 2017, section 6.1: a length penalty of alpha 0.6, and at most
    50 tokens more than the source has. Where `sample` is set, nothing is searched, whatever `beam_size` says.
    """

    draws_unless_told: ClassVar[bool | None] = False

    sample: bool | None = False
    beam_size: int = 5  # 1 is greedy
    n_best: int = 1  # candidates, or samples
    length_penalty: Literal["wu", "power", "none"] = "wu"
    alpha: float = 0.6
    max_length_ratio: float = 1.0  # the greatest length is ratio * source length + offset,
    max_length_offset: int = 50
    max_length: int = 1024  # and never more than this; max_new_tokens stands for all three
    min_length: int = 0
    no_repeat_ngram_size: int = 0  # 0 allows repetition
    temperature: float = 1.0
    top_k: int = 0  # 0 keeps all
    top_p: float = 1.0
    seed: int = 0
    lower_capitals: bool = False  # sources of several words that are all in capitals are read in lower case
    split_above: int = 0  # source tokens; longer lines are split into sentences. 0: not known
    forced_bos_id: int | None = None  # the token that every output begins with; BART's <s>
    prefixes: dict[str, str] | None = None  # what stands before a text, by the task; "": of any other

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}, but must be at least {least}",
                    f"{name} = {max(least, getattr(type(self), name))} would do",
                )
        for name, most in _MOST.items():
            if not getattr(self, name) <= most:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}, but must be at most {most:,}",
                    f"{name} = {getattr(type(self), name)} would do",
                )
        super().__post_init__()
        if self.max_context is not None:
            raise ConfigError(
                f"max_context = {self.max_context} is for a language model, but this one has a source",
                "leave it out",
            )
        if self.forced_bos_id is not None and self.forced_bos_id < 0:
            raise ConfigError(
                f"forced_bos_id = {self.forced_bos_id} is no token", "tokens are counted from 0"
            )
        if not all(isinstance(text, str) for text in (self.prefixes or {}).values()):
            raise ConfigError(f"prefixes = {self.prefixes} are no texts", 'summarization = "summarize: "')
        for one, other in (("min_length", "max_length"), ("min_length", "max_new_tokens")):
            most = getattr(self, other)
            if most is not None and self.min_length > most:
                raise ConfigError(
                    f"{one} ({self.min_length}) is more than {other} ({most})",
                    f"{other} = {self.min_length} would do",
                )
        if not self.draws and self.n_best > self.beam_size:
            raise ConfigError(
                f"n_best ({self.n_best}) is more than beam_size ({self.beam_size})",
                f"beam_size = {self.n_best} would do",
            )

    def strategy(
        self,
        *,
        pad_id: int = 0,
        bos_id: int = 2,
        eos_id: int = 3,
        tokenizer: Words | None = None,
        drafter: Drafter | None = None,
    ) -> Search:
        """The search that these settings describe; a `tokenizer` makes tokens of the words in them."""
        marks = SpecialTokenIds(
            pad_id=pad_id, bos_id=bos_id, eos_id=eos_id, ends=self.end_ids, first=self.forced_bos_id
        )
        ends = eos_id, *self.end_ids  # BART's texts begin with the mark that ends them
        return assembled(
            self,
            marks=marks,
            never=tuple(mark for mark in (pad_id, bos_id) if mark not in ends),
            n_best=self.n_best,
            limits=self._limits(),
            least=max(self.min_length, self.min_new_tokens or 0),
            length_penalty=score_by(self.length_penalty, self.alpha),
            tokenizer=tokenizer,
            drafter=drafter,
        )

    def _limits(self) -> LengthLimits:
        if self.max_new_tokens is not None:
            return LengthLimits(ratio=0.0, offset=self.max_new_tokens, most=self.max_new_tokens)
        return LengthLimits(
            ratio=self.max_length_ratio,
            offset=self.max_length_offset,
            least=max(self.min_length, self.min_new_tokens or 0),
            most=self.max_length,
        )


_LEAST = {
    "beam_size": 1,
    "n_best": 1,
    "max_length_ratio": 0,
    "max_length_offset": 0,
    "max_length": 1,
    "min_length": 0,
    "split_above": 0,
}
_MOST = {
    "n_best": MOST_HYPOTHESES,
    "max_length_ratio": LARGEST,
    "max_length_offset": 10 * MOST_TOKENS,
    "max_length": 10 * MOST_TOKENS,  # a bound, which folders of others set to what their positions reach
    "min_length": MOST_TOKENS,
}
