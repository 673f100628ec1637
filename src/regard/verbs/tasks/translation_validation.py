"""Validation of a translation in training: the loss on held-out pairs, and scores of decoded outputs."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from regard.data.batch import PairBatch, collate
from regard.data.corpus import Pair
from regard.data.tokenizer import TokenizerPair
from regard.decoding.batches import decode_all
from regard.decoding.control import bounded
from regard.decoding.control_fields import Beam
from regard.decoding.controls import controls_with
from regard.decoding.settings import GenerationSettings
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import SEED, bootstrap_interval
from regard.evaluation.line_pairs import References
from regard.evaluation.proportion import wilson_interval
from regard.evaluation.score import Score, version_fact
from regard.evaluation.sequences import exact_matches, word_edits
from regard.evaluation.tokenizers import Tokenize
from regard.evaluation.translation import corpus_scores
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.training.collapse import distinct_outputs
from regard.training.objective import CrossEntropy
from regard.verbs.generation.search_results import samples_for, selected_texts, translation_search

TranslationMetric = Literal["bleu", "chrf++", "exact_match", "error_rate", "chrf"]
CHRF = "chrf++"  # chrF2++; older recipes call it "chrf"


@dataclass(frozen=True, kw_only=True)
class ValidationSettings(Beam):
    """`[validation]`: the metrics of the validation pairs, and of the test pairs at the end.

    `error_rate` counts edits of words (or of phonemes or other symbols between spaces) per word of the
    reference; it does not depend on the tokeniser. All scores are in percent.
    """

    # the scores to compute; "chrf++" is chrF2++, with n-grams of characters and of words; "chrf" is its
    # former name
    metrics: tuple[TranslationMetric, ...] = ("bleu", "chrf++")
    sentences: int = 0  # validation pairs to use, evenly spaced; 0 is all
    several_references: bool = False  # pairs with the same source are one sentence with several references
    tokenize: Tokenize = "auto"  # sacreBLEU's tokeniser; "none" is for text that is tokenised already
    lowercase: bool = False  # score without regard to case
    batch_tokens: int = bounded(4096, least=1)  # tokens of a batch in validation, padding included
    expected_bleu: tuple[float, ...] = ()  # lowest and highest BLEU of similar runs, for `verdict`

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", tuple(map(present_name, self.metrics)))
        if self.expected_bleu and (
            len(self.expected_bleu) != 2 or self.expected_bleu[0] > self.expected_bleu[1]
        ):
            raise RecipeError(
                f"validation.expected_bleu must be an interval, not {list(self.expected_bleu)}",
                "for instance [20.0, 30.0]",
            )
        super().__post_init__()
        if self.sentences < 0:
            raise RecipeError(f"validation.sentences must be 0 or more, not {self.sentences}", "0 is all")

    def refuse_unused(self) -> None:
        """Raise a RecipeError for a setting that has no effect beside the others."""
        for name, metrics in (("tokenize", ("bleu",)), ("lowercase", ("bleu", "chrf++"))):
            value, default = getattr(self, name), getattr(ValidationSettings, name)
            if value != default and not {*metrics} & {*self.metrics}:
                raise RecipeError(
                    f"validation.{name} = {value!r} has no effect: metrics has no {' or '.join(metrics)}",
                    f"leave {name} out, or set it to {default!r}, the default",
                )


def present_name(metric: str) -> str:
    """The name of a metric, also of one that older recipes call by another."""
    return CHRF if metric == "chrf" else metric


def verdict(settings: ValidationSettings, metrics: Mapping[str, float]) -> str:
    """How the BLEU of a run compares with the expected interval; empty if the recipe has none."""
    on_test = "BLEU" in metrics
    bleu = metrics.get("BLEU" if on_test else "bleu")
    if bleu is None or not settings.expected_bleu:
        return ""
    low, high = settings.expected_bleu
    interval = f"{low:.0f} to {high:.0f} of similar runs on corpora of this size"
    data = "" if on_test else " on the validation pairs (greedy)"
    if bleu < low:
        return (
            f"BLEU {bleu:.1f}{data} is below the {interval}:"
            " a harder domain, noise in the corpus, or a run that failed (`regard curves`)"
        )
    return f"BLEU {bleu:.1f}{data} is {'above' if bleu > high else 'within'} the {interval}"


def validator(
    pairs: Sequence[Pair],
    tokenizers: TokenizerPair,
    settings: ValidationSettings,
    generation: GenerationSettings,
) -> Callable[[SequenceToSequence], dict[str, float]]:
    """A function from a model to its scores on `pairs`: `loss` in nats per token, metrics in percent.

    Raises:
        DataError: there is no pair to validate on.
    """
    pairs = _evenly(pairs, settings)
    if not pairs:
        raise DataError("no validation pair is left after filtering", "look at data.valid and data.lines")
    batches = _batches(pairs, tokenizers, settings.batch_tokens)
    fast_generation = generation.with_(n_best=1).changed(controls_with(settings))

    def validate(model: SequenceToSequence) -> dict[str, float]:
        scores = {"loss": _loss(model, batches)}
        if settings.metrics:
            texts, references = _decoded(model, pairs, tokenizers, settings, fast_generation)
            metric_scores = _scores(texts, references, settings, bootstrap=0)
            scores |= {metric: score.value for metric, score in metric_scores.items()}
            scores |= distinct_outputs(texts, references[0])
        return scores

    return validate


def _evenly(pairs: Sequence[Pair], settings: ValidationSettings) -> list[Pair]:
    """`settings.sentences` pairs, evenly spaced, since a file may be sorted by length."""
    sources = [pair.source for pair in pairs]
    items = list(dict.fromkeys(sources)) if settings.several_references else list(range(len(pairs)))
    count = min(settings.sentences or len(items), len(items))
    chosen = {items[i * len(items) // count] for i in range(count)}
    keys = sources if settings.several_references else range(len(pairs))
    return [pair for pair, key in zip(pairs, keys, strict=True) if key in chosen]


def decoded_scores(
    model: SequenceToSequence,
    pairs: Sequence[Pair],
    tokenizers: TokenizerPair,
    settings: ValidationSettings,
    generation: GenerationSettings,
    *,
    bootstrap: int = 1000,
) -> dict[TranslationMetric, Score]:
    """The scores of the model's outputs for the sources of `pairs`, with the targets as references."""
    return _scores(*_decoded(model, pairs, tokenizers, settings, generation), settings, bootstrap)


def _decoded(
    model: SequenceToSequence,
    pairs: Sequence[Pair],
    tokenizers: TokenizerPair,
    settings: ValidationSettings,
    generation: GenerationSettings,
) -> tuple[list[str], list[list[str]] | list[list[str | None]]]:
    """The model's outputs for the sources of `pairs`, and the references."""
    sources, references = _with_references(pairs, settings.several_references)
    decoded = decode_all(
        translation_search(generation.with_(n_best=samples_for(generation, 1)), tokenizers),
        [model],
        tokenizers.source.encode_batch(sources),
        batch_tokens=settings.batch_tokens,
    )
    n_best = [[tokenizers.target.decode(each.ids) for each in hypotheses] for hypotheses in decoded]
    texts = [next((text for _, text, _ in selected_texts(generation, each, 1)), "") for each in n_best]
    return texts, references


def _scores(
    texts: list[str],
    references: list[list[str]] | list[list[str | None]],
    settings: ValidationSettings,
    bootstrap: int,
) -> dict[TranslationMetric, Score]:
    return {metric: _score(metric, texts, references, settings, bootstrap) for metric in settings.metrics}


def _with_references(
    pairs: Sequence[Pair], several: bool
) -> tuple[list[str], list[list[str]] | list[list[str | None]]]:
    """The sources, and lists of references aligned with them; None fills the lists of sources with fewer."""
    if not several:
        return [pair.source for pair in pairs], [[pair.target for pair in pairs]]
    targets: dict[str, list[str]] = {}
    for pair in pairs:
        targets.setdefault(pair.source, []).append(pair.target)
    return list(targets), [list(row) for row in itertools.zip_longest(*targets.values())]


def _score(
    metric: TranslationMetric,
    texts: list[str],
    references: list[list[str]] | list[list[str | None]],
    settings: ValidationSettings,
    bootstrap: int,
) -> Score:
    if metric in ("bleu", CHRF):
        [score] = corpus_scores(
            texts,
            references,
            tokenize=settings.tokenize,
            lowercase=settings.lowercase,
            bootstrap=bootstrap,
            metrics=("chrf" if metric == CHRF else metric,),
        )
        return score
    examples = f"sentences:{len(texts)}|refs:{len(references)}"
    score_of = _exact_match if metric == "exact_match" else _error_rate
    return score_of(texts, references, examples, bootstrap)


def _exact_match(texts: list[str], references: References, examples: str, bootstrap: int) -> Score:
    """The exact match, with Wilson's interval unless `bootstrap` is 0."""
    matches = exact_matches(texts, references)
    low, high = wilson_interval(matches, len(texts))
    method = "|interval:wilson" if bootstrap else ""
    return Score(
        name="exact match",
        value=100 * matches / len(texts),
        low=100 * low if bootstrap else None,
        high=100 * high if bootstrap else None,
        signature=f"{examples}{method}|{version_fact()}",
    )


def _error_rate(texts: list[str], references: References, examples: str, bootstrap: int) -> Score:
    """The word error rate; its interval resamples sentences, since a sentence's words are not independent."""
    edits, lengths = word_edits(texts, references)
    low = high = None
    method = ""
    if bootstrap:
        low, high = (100 * end for end in bootstrap_interval(edits, lengths, bootstrap))
        method = f"|bs:{bootstrap}|seed:{SEED}"
    return Score(
        name="error rate",
        value=100 * sum(edits) / max(sum(lengths), 1),
        low=low,
        high=high,
        signature=f"{examples}|unit:word between spaces|words:{sum(lengths)}{method}|{version_fact()}",
    )


def _batches(pairs: Sequence[Pair], tokenizers: TokenizerPair, batch_tokens: int) -> list[PairBatch]:
    """The pairs sorted by length, in batches of at most `batch_tokens` padded tokens."""
    sources = tokenizers.source.encode_batch([pair.source for pair in pairs])
    targets = tokenizers.target.encode_batch([pair.target for pair in pairs])
    order = sorted(range(len(pairs)), key=lambda i: (len(targets[i]), len(sources[i])))
    groups: list[list[int]] = [[]]
    for i in order:
        longest = max(len(targets[i]), *(len(sources[j]) for j in [*groups[-1], i])) + 2
        if groups[-1] and longest * (len(groups[-1]) + 1) > batch_tokens:
            groups.append([])
        groups[-1].append(i)
    target = tokenizers.target
    return [
        collate(
            [[*sources[i], tokenizers.source.eos_id] for i in group],
            [[target.bos_id, *targets[i], target.eos_id] for i in group],
            [pairs[i].line for i in group],
            pad_id=target.pad_id,
        )
        for group in groups
    ]


def _loss(model: SequenceToSequence, batches: Sequence[PairBatch]) -> float:
    objective = CrossEntropy(pad_id=model.config.pad_id)
    device = next(model.parameters()).device
    with torch.no_grad():
        losses = [objective(model, batch.to(device)) for batch in batches]
    return sum(float(loss.nll) for loss in losses) / sum(loss.num_targets for loss in losses)
