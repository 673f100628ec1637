"""A stopping rule of one's own: a hypothesis ends as soon as it repeats itself.

    python examples/stopping_rule.py

Each search has a field `stop`: a function of the forced prefix and of the ids generated after it, which is
asked after each token. True ends the hypothesis as it is, without an end token. The registered search at the
end has the rule for `search="until_repetition"` in a call, `search = "until_repetition"` in `[decoding]` of a
recipe, and `--search until_repetition`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import regard
from regard.decoding import GreedySearch, LengthLimits, StopCondition, decode_all, register_search
from regard.models import SequenceToSequence


@dataclass(frozen=True)
class Repetition:
    """A `StopCondition`: True if the output ends with the same tokens, `times` times in a row."""

    times: int = 8
    most_tokens: int = 4  # in what is repeated

    def __call__(self, prefix: Sequence[int], generated: Sequence[int]) -> bool:
        return any(self._repeats(generated, length) for length in range(1, self.most_tokens + 1))

    def _repeats(self, generated: Sequence[int], length: int) -> bool:
        last = list(generated[-length * self.times :])
        return len(last) == length * self.times and last == last[:length] * self.times


@dataclass(frozen=True)
class Either:
    """A `StopCondition`: True if one of two is."""

    one: StopCondition
    other: StopCondition

    def __call__(self, prefix: Sequence[int], generated: Sequence[int]) -> bool:
        return self.one(prefix, generated) or self.other(prefix, generated)


@register_search("until_repetition")
@dataclass(frozen=True, kw_only=True)
class UntilRepetition(GreedySearch):
    """Greedy decoding that ends a hypothesis when it repeats itself, or at a stop text as always."""

    def __post_init__(self) -> None:
        super().__post_init__()
        stop = Repetition() if self.stop is None else Either(self.stop, Repetition())
        object.__setattr__(self, "stop", stop)  # the dataclass is frozen


if __name__ == "__main__":
    text = "Buffalo buffalo Buffalo buffalo buffalo buffalo Buffalo buffalo."
    loaded = regard.load()
    assert isinstance(loaded.model, SequenceToSequence)
    tokenizer = loaded.tokenizers.target
    source = loaded.tokenizers.source.encode(text)
    for stop in (None, Repetition()):
        limits = LengthLimits(ratio=1.0, offset=10)
        search = GreedySearch(stop=stop, limits=limits, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id)
        [[found]] = decode_all(search, loaded.model, [source])
        print(len(found.ids), "tokens:", tokenizer.decode(found.ids))
    print(regard.translate(text, search="until_repetition"))
