"""Scores a model in training: loss on held-out pairs, and what it says when it really decodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from regard.data.batch import Batch, collate
from regard.data.corpus import Pair
from regard.data.tokenizer import TokenizerPair
from regard.decoding.batches import decode_all
from regard.decoding.settings import GenerationSettings
from regard.errors import DataError, RecipeError
from regard.evaluation.sequences import exact_match
from regard.evaluation.translation import corpus_scores
from regard.models.encoder_decoder import EncoderDecoder
from regard.training.objective import CrossEntropy


@dataclass(frozen=True, kw_only=True)
class ValidationSettings:
    """What is measured on the validation pairs, besides the loss, which always is."""

    metrics: tuple[Literal["bleu", "chrf", "exact_match"], ...] = ("bleu", "chrf")
    sentences: int = 0  # how many of the pairs; 0 is all
    beam_size: int = 1
    tokenize: Literal["13a", "none"] = "13a"  # sacreBLEU's; none for text that is tokenised already
    lowercase: bool = False
    batch_tokens: int = 4096

    def __post_init__(self) -> None:
        for name in ("beam_size", "batch_tokens"):
            if getattr(self, name) < 1:
                raise RecipeError(
                    f"validation.{name} must be 1 or more, not {getattr(self, name)}", "try 1 or 4096"
                )


def validator(
    pairs: Sequence[Pair],
    tokenizers: TokenizerPair,
    settings: ValidationSettings,
    generation: GenerationSettings,
) -> Callable[[EncoderDecoder], dict[str, float]]:
    """A function from a model to its scores on `pairs`: `loss` in nats per token, BLEU and chrF in percent.

    Raises:
        DataError: there is no pair to validate on.
    """
    pairs = pairs[: settings.sentences or None]
    if not pairs:
        raise DataError("no validation pair is left after filtering", "look at data.valid and data.lines")
    batches = _batches(pairs, tokenizers, settings.batch_tokens)
    sources = tokenizers.source.encode_batch([pair.source for pair in pairs])
    references = [pair.target for pair in pairs]
    strategy = generation.with_(beam_size=settings.beam_size, n_best=1).strategy()

    def validate(model: EncoderDecoder) -> dict[str, float]:
        scores = {"loss": _loss(model, batches)}
        if not settings.metrics:
            return scores
        found = decode_all(strategy, [model], sources, batch_tokens=settings.batch_tokens)
        texts = [tokenizers.target.decode(hypotheses[0].ids) for hypotheses in found]
        return scores | text_scores(texts, references, settings)

    return validate


def text_scores(
    texts: Sequence[str], references: Sequence[str], settings: ValidationSettings
) -> dict[str, float]:
    scores: dict[str, float] = {}
    if "exact_match" in settings.metrics:
        scores["exact_match"] = 100 * exact_match(list(texts), [list(references)])
    if {"bleu", "chrf"} & set(settings.metrics):
        found = corpus_scores(
            list(texts),
            [list(references)],
            tokenize=settings.tokenize,
            lowercase=settings.lowercase,
            bootstrap=0,
        )
        by_name = {"bleu": "BLEU", "chrf": "chrF2++"}
        values = {score.name: score.value for score in found}
        scores |= {name: values[by_name[name]] for name in settings.metrics if name in by_name}
    return scores


def _batches(pairs: Sequence[Pair], tokenizers: TokenizerPair, batch_tokens: int) -> list[Batch]:
    """The pairs in order of length, as many in a batch as `batch_tokens` allows."""
    sources = tokenizers.source.encode_batch([pair.source for pair in pairs])
    targets = tokenizers.target.encode_batch([pair.target for pair in pairs])
    order = sorted(range(len(pairs)), key=lambda i: (len(targets[i]), len(sources[i])))
    groups: list[list[int]] = [[]]
    for i in order:
        longest = max(len(targets[i]), *(len(sources[j]) for j in [*groups[-1], i])) + 2
        if groups[-1] and longest * (len(groups[-1]) + 1) > batch_tokens:
            groups.append([])
        groups[-1].append(i)
    marks = tokenizers.target
    return [
        collate(
            [[*sources[i], tokenizers.source.eos_id] for i in group],
            [[marks.bos_id, *targets[i], marks.eos_id] for i in group],
            [pairs[i].line for i in group],
            pad_id=marks.pad_id,
        )
        for group in groups
    ]


def _loss(model: EncoderDecoder, batches: Sequence[Batch]) -> float:
    objective = CrossEntropy(pad_id=model.config.pad_id)
    device = next(model.parameters()).device
    with torch.no_grad():
        losses = [objective(model, batch.to(device)) for batch in batches]
    return sum(float(loss.nll) for loss in losses) / sum(loss.num_targets for loss in losses)
