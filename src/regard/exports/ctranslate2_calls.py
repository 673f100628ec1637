"""The calls of CTranslate2, the same for certificates and for translating.

Its defaults are not regard's: it cuts sources at 1,024 tokens, forbids an end as the first token, and divides
a score by the length without the end. Here nothing is cut or forbidden, and the end counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from regard.decoding.settings import GenerationSettings

BATCH_TOKENS = 2048
BY_TOKENS = {"max_batch_size": BATCH_TOKENS, "batch_type": "tokens"}
# the same calls, as the README.md of an export has them
TRANSLATION_CALL = "translate_batch([pieces], beam_size={beam}, max_input_length=0, min_decoding_length=0)"
CONTINUATION_CALL = "generate_batch([{prompt}], max_length=100, min_length=0, include_prompt_in_result=False)"
ARGOS_BEAM, ARGOS_ALPHA = 4, 0.2  # of Argos Translate
ARGOS_LONGEST, ARGOS_MOST_READ = 256, 1024  # tokens of an output and of a text; CTranslate2's defaults
SEARCH_DEFAULTS = frozenset({"beam_size", "length_penalty", "alpha"})  # of a model's search
IN_CALL = frozenset({"beam_size"})  # the default of a model that TRANSLATION_CALL has
Tokens = list[str]


def translation_call(generation: Mapping[str, Any]) -> str:
    """TRANSLATION_CALL with the beam of a model."""
    return TRANSLATION_CALL.format(beam=generation.get("beam_size", GenerationSettings.beam_size))


class Output(NamedTuple):
    """An output: its tokens, that of the end included if there is one, and its score."""

    tokens: Tokens
    score: float  # the log-probability over the number of tokens to the power of alpha


def translations(
    translator: Any,
    sources: Sequence[Tokens],
    *,
    size: int,
    longest: int,
    alpha: float = 1.0,
    n_best: int = 1,
    never: Sequence[str] = (),
    batch: int = BATCH_TOKENS,
) -> list[list[Output]]:
    """The best outputs of each source by a beam of `size`, 1 for greedy search, of at most `longest` tokens.

    A beam stops when as many hypotheses as its size have finished; if `alpha` is 0, when the best of a step
    has. Tokens in `never` are not put out, and scores are then those of the other tokens alone.
    """
    found = translator.translate_batch(
        sources,
        beam_size=size,
        num_hypotheses=n_best,
        length_penalty=alpha,
        max_decoding_length=longest,
        min_decoding_length=0,
        max_input_length=0,
        max_batch_size=batch,
        batch_type="tokens",
        suppress_sequences=[[token] for token in never] or None,
        return_scores=True,
        return_end_token=True,
    )
    return [list(map(Output, each.hypotheses, each.scores)) for each in found]


def argos_outputs(translator: Any, source: Tokens) -> Tokens:
    """The output by the call of argostranslate 1.11, which also replaces unknown tokens."""
    [found] = translator.translate_batch(
        [source], max_batch_size=32, batch_type="tokens", beam_size=ARGOS_BEAM, length_penalty=ARGOS_ALPHA
    )
    return found.hypotheses[0]


def continuations(
    generator: Any, prompts: Sequence[Tokens], *, size: int, longest: int
) -> list[list[Output]]:
    """The best continuation of each prompt, as `translations`.

    Only prompts of one length share a batch: with others a beam of CTranslate2 4.8 depends on its batch.
    """
    found: list[list[Output]] = [[] for _ in prompts]
    for length in sorted({len(prompt) for prompt in prompts}):
        places = [place for place, prompt in enumerate(prompts) if len(prompt) == length]
        results = generator.generate_batch(
            [prompts[place] for place in places],
            beam_size=size,
            length_penalty=1.0,
            max_length=longest,
            min_length=0,
            sampling_topk=1,
            include_prompt_in_result=False,
            return_scores=True,
            return_end_token=True,
            **BY_TOKENS,
        )
        for place, each in zip(places, results, strict=True):
            found[place] = list(map(Output, each.sequences, each.scores))
    return found


def translation_log_probs(
    translator: Any, sources: Sequence[Tokens], outputs: Sequence[Tokens]
) -> list[list[float]]:
    """The log-probability of each token of these outputs, and of the end."""
    found = translator.score_batch(sources, outputs, max_input_length=0, **BY_TOKENS)
    return [each.log_probs for each in found]


def text_log_probs(generator: Any, texts: Sequence[Tokens]) -> list[list[float]]:
    """The log-probability of each token of these texts but the first."""
    found = generator.score_batch(texts, max_input_length=0, **BY_TOKENS)
    return [each.log_probs for each in found]
