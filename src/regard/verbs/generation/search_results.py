"""From controls to a search, and from its hypotheses to output texts."""

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
        ConfigError: a control compares source tokens with target tokens of another vocabulary, or texts have
            no tokens.
    """
    for name in ("no_repeat_source_ngram_size", "prompt_lookup"):
        if settings.is_set(name) and not tokenizers.joint:
            raise ConfigError(
                f"{name} = {getattr(settings, name)} needs one vocabulary, but this model has one for its"
                " source and another for its target",
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
    """How many samples give `num` texts: with minimum Bayes risk more than `num`.

    Raises:
        ConfigError: `mbr_samples` is less than `num`.
    """
    if settings.mbr is None:
        return num
    samples = settings.mbr_samples or SAMPLES
    if samples < num:
        raise ConfigError(
            f"mbr_samples = {samples} is less than the {num} texts of each input",
            f"mbr_samples = {num} would do",
        )
    return samples


def selected_texts(
    settings: Controls, texts: Sequence[str], count: int
) -> list[tuple[int, str, float | None]]:
    """The output texts: their places among `texts`, the texts up to their stop texts, and their scores.

    With minimum Bayes risk the best `count` samples, whose score is their expected utility; else all texts,
    without a score.
    """
    shown = [up_to(text, settings.stop) for text in texts]
    if settings.mbr is None:
        return [(place, text, None) for place, text in enumerate(shown)]
    best = minimum_risk(shown, sentence_utility(settings.mbr), count)
    return [(place, shown[place], score) for place, score in best]
