"""From controls to a search among a model's tokens, and from what it finds to the texts told."""

from collections.abc import Sequence

from regard.data.tokenizer import TokenizerPair
from regard.decoding.base_search import Search
from regard.decoding.controls import Controls
from regard.decoding.phrases import up_to
from regard.decoding.risk import minimum_risk
from regard.decoding.settings import GenerationSettings
from regard.decoding.speculative import Drafter
from regard.errors import ConfigError
from regard.evaluation.utility import sentence_utility

SAMPLES = 32  # for minimum Bayes risk


def translation_search(
    settings: GenerationSettings, tokenizers: TokenizerPair, drafter: Drafter | None = None
) -> Search:
    """The search of a model with these tokenisers.

    Raises:
        ConfigError: a control compares tokens of the source with others, or words have no tokens.
    """
    for name in ("no_repeat_source_ngram_size", "prompt_lookup"):
        if settings.asks(name) and not tokenizers.joint:
            raise ConfigError(
                f"{name} = {getattr(settings, name)} looks for the source's tokens, but this model has"
                " others for its target",
                f"leave out {name}",
            )
    target = tokenizers.target
    return settings.strategy(
        pad_id=target.pad_id,
        bos_id=target.bos_id,
        eos_id=target.eos_id,
        tokenizer=target,
        drafter=drafter,
    )


def samples_for(settings: Controls, num: int) -> int:
    """How many samples are drawn so that `num` texts come of them: more, for minimum Bayes risk.

    Raises:
        ConfigError: there are fewer.
    """
    if settings.mbr is None:
        return num
    samples = settings.mbr_samples or SAMPLES
    if samples < num:
        raise ConfigError(
            f"mbr_samples = {samples} are fewer than the {num} texts that are asked for",
            f"mbr_samples = {num} would do",
        )
    return samples


def selected_texts(
    settings: Controls, texts: Sequence[str], count: int
) -> list[tuple[int, str, float | None]]:
    """The texts that are told of those that were found: their places, themselves and what is thought of them.

    Each is told up to its stop. Of samples those of the least risk are, if that is asked for, with their
    expected utility.
    """
    shown = [up_to(text, settings.stop) for text in texts]
    if settings.mbr is None:
        return [(place, text, None) for place, text in enumerate(shown)]
    best = minimum_risk(shown, sentence_utility(settings.mbr), count)
    return [(place, shown[place], score) for place, score in best]
