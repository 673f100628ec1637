"""The decoding settings of a model with a source, as a recipe and generation.json hold them."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.decoding.assembly import assembled, score_by
from regard.decoding.base_search import Search
from regard.decoding.control import LARGEST, MOST_HYPOTHESES, MOST_TOKENS, bounded
from regard.decoding.controls import Controls
from regard.decoding.phrases import Words
from regard.decoding.rules import LengthLimits
from regard.decoding.special_tokens import SpecialTokenIds
from regard.decoding.speculative import Drafter
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class GenerationSettings(Controls):
    """How to decode, given a source. Lengths are in tokens, the end not counted.

    The defaults follow Vaswani et al. 2017, section 6.1: a length penalty of alpha 0.6, and at most
    50 tokens more than the source has. With `sample` there is no search, whatever `beam_size` is.
    """

    samples_by_default: ClassVar[bool | None] = False

    sample: bool | None = False
    beam_size: int = bounded(5, least=1, most=MOST_HYPOTHESES, unit="hypotheses")  # 1 is greedy
    n_best: int = bounded(1, least=1, most=MOST_HYPOTHESES, unit="hypotheses")  # candidates, or samples
    length_penalty: Literal["wu", "power", "none"] = "wu"
    alpha: float = 0.6
    # greatest length: this * source length + max_length_offset
    max_length_ratio: float = bounded(1.0, least=0, most=LARGEST)
    max_length_offset: int = bounded(50, least=0, most=10 * MOST_TOKENS)  # see max_length_ratio
    max_length: int = bounded(1024, least=1, most=10 * MOST_TOKENS, unit="tokens")  # no output is longer
    # least length; max_new_tokens replaces all four
    min_length: int = bounded(0, least=0, most=MOST_TOKENS, unit="tokens")
    no_repeat_ngram_size: int = 0  # 0 allows repetition
    temperature: float = 1.0
    top_k: int = 0  # 0 keeps all
    top_p: float = 1.0
    seed: int = 0
    lower_capitals: bool = False  # sources of several words, all in capitals, are lowercased
    split_above: int = bounded(0, least=0)  # source tokens; longer lines are split into sentences. 0: unknown
    tags: tuple[str, ...] = ()  # of languages, with which the training sources begin
    forced_bos_id: int | None = None  # the token that every output begins with; BART's <s>
    prefixes: dict[str, str] | None = None  # the text before a source, by the task; "": of any other task

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_context is not None:
            raise ConfigError(
                f"max_context = {self.max_context} is for a language model, but this model has a source",
                "leave it out",
            )
        if self.forced_bos_id is not None and self.forced_bos_id < 0:
            raise ConfigError(f"forced_bos_id = {self.forced_bos_id} is not a token", "token ids begin at 0")
        if not all(isinstance(text, str) for text in (self.prefixes or {}).values()):
            raise ConfigError(
                f"prefixes = {self.prefixes}: each value must be a text", 'summarization = "summarize: "'
            )
        for one, other in (("min_length", "max_length"), ("min_length", "max_new_tokens")):
            most = getattr(self, other)
            if most is not None and self.min_length > most:
                raise ConfigError(
                    f"{one} ({self.min_length}) is more than {other} ({most})",
                    f"{other} = {self.min_length} would do",
                )
        if self.takes_beam_size and not self.samples and self.n_best > self.beam_size:
            raise ConfigError(
                f"n_best ({self.n_best}) is more than beam_size ({self.beam_size})",
                f"beam_size = {self.n_best} would do",
            )

    def widened(self, size: int) -> "GenerationSettings":
        """These settings with a beam of at least this size."""
        return self.with_(beam_size=max(self.beam_size, size))

    def strategy(
        self,
        *,
        pad_id: int = 0,
        bos_id: int = 2,
        eos_id: int = 3,
        tokenizer: Words | None = None,
        drafter: Drafter | None = None,
    ) -> Search:
        """The search that these settings describe. The `tokenizer` encodes the texts in them."""
        special = SpecialTokenIds(
            pad_id=pad_id, bos_id=bos_id, eos_id=eos_id, ends=self.end_ids, first=self.forced_bos_id
        )
        ends = eos_id, *self.end_ids  # BART's texts begin with the token that ends them
        return assembled(
            self,
            special=special,
            never=tuple(token for token in (pad_id, bos_id) if token not in ends),
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
