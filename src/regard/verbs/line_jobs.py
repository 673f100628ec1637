"""What each verb does with the lines of a job (see `jobs.py`), from the settings of its Python call."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from regard.errors import DataError
from regard.jobs.part_worker import OpenedJob
from regard.verbs import classify, embed, fill, generate, score, score_texts, tag, translate
from regard.verbs.engine_jobs import opened
from regard.verbs.generation import continuations
from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.generation.translations import output_lines
from regard.verbs.jobs import LineJob
from regard.verbs.shared import scored_lines
from regard.verbs.shared.any_model import AnyModel
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.runtime import (
    DEFAULT_DECODING_RUNTIME,
    DEFAULT_RUNTIME,
    DecodingRuntime,
    Runtime,
)
from regard.verbs.shared.text_options import (
    ChatOptions,
    ClassificationOptions,
    EmbeddingOptions,
    FillingOptions,
    ScoringOptions,
    SummaryOptions,
    TaggingOptions,
    TranslationOptions,
)
from regard.verbs.summarize import OPTIONS as SUMMARY
from regard.verbs.summarize import Summarizer


@keyword_fields
def translate_job(
    *,
    model: AnyModel | None = None,
    controls: Controls = UNSET,
    as_json: bool = False,
    options: TranslationOptions = translate.OPTIONS,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> LineJob:
    """Translates each line."""
    translator = translate.Translator(model, controls=controls, options=options, runtime=runtime)
    return _text_job("translate", translator, as_json, controls, options, runtime)


@keyword_fields
def summarize_job(
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    as_json: bool = False,
    options: SummaryOptions = SUMMARY,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> LineJob:
    """Summarizes each line."""
    summarizer = Summarizer(model, controls=controls, options=options, runtime=runtime)
    return _text_job("summarize", summarizer, as_json, controls, options, runtime)


def _text_job(
    command: str,
    translator: translate.Translator,
    as_json: bool,
    controls: Controls,
    options: SummaryOptions,
    runtime: DecodingRuntime,
) -> LineJob:
    ranked = options.n_best > 1
    return LineJob(
        command=command,
        into=translator.answer.called,
        cell=lambda answer: answer.text,
        verb=translator,
        written=functools.partial(output_lines, ranked=ranked, as_json=as_json),
        format="json" if as_json else "ranked" if ranked else "text",
        settings=[controls, options, runtime],
        more={} if translator.glossary is None else {"glossary": str(translator.glossary)},
    )


@keyword_fields
def generate_job(
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    num: int = 1,
    as_json: bool = False,
    options: ChatOptions = generate.NO_CHAT,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
) -> LineJob:
    """Continues each line."""
    if not as_json:
        raise DataError(
            "an answer of `regard generate` may have several lines, but a job needs one for each line",
            "give --json, too",
        )
    generator = generate.Generator(model, controls=controls, num=num, options=options, runtime=runtime)
    return LineJob(
        command="generate",
        into="continuation",
        verb=generator,
        written=functools.partial(continuations.output_lines, as_json=True),
        format="json",
        settings=[controls, options, runtime],
        more={"num": num},
    )


@keyword_fields
def embed_job(
    *,
    model: AnyModel,
    as_json: bool = False,
    options: EmbeddingOptions = embed.OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> LineJob:
    """Embeds each line."""
    return LineJob(
        command="embed",
        into="vector",
        cell=lambda answer: answer.to_dict()["vector"],
        cell_kind="vector",
        verb=embed.Embedder(model, options=options, runtime=runtime),
        written=functools.partial(embed.output_lines, as_json=as_json),
        format="json" if as_json else "text",
        settings=[options, runtime],
    )


@keyword_fields
def classify_job(
    *,
    model: AnyModel,
    as_json: bool = False,
    options: ClassificationOptions = classify.OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> LineJob:
    """Classifies each line."""
    ranked = options.top > 1
    classifier = classify.Classifier(model, options=options, runtime=runtime)
    is_number = classifier.model.config.head == "regression"
    return LineJob(
        command="classify",
        into="value" if is_number else "label",
        cell=lambda answer: answer.to_dict()["value" if answer.is_number else "label"],
        cell_kind="number" if is_number else "text",
        verb=classifier,
        written=functools.partial(classify.output_lines, ranked=ranked, as_json=as_json),
        format="json" if as_json else "ranked" if ranked else "text",
        settings=[options, runtime],
    )


class _WordTagger(tag.Tagger):
    """Splits lines at white space only."""

    def answers(self, texts: Sequence[str | Sequence[str]], first: int) -> Iterator[tag.TaggedSentence]:
        words = [text.split() if isinstance(text, str) else text for text in texts]
        return super().answers(words, first)


@keyword_fields
def tag_job(
    *,
    model: AnyModel,
    words: bool = False,
    as_json: bool = False,
    options: TaggingOptions = tag.OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> LineJob:
    """Labels the words of each line, a sentence."""
    return LineJob(
        command="tag",
        into="words",
        verb=(_WordTagger if words else tag.Tagger)(model, options=options, runtime=runtime),
        written=functools.partial(tag.output_lines, as_json=as_json),
        format="json" if as_json else "text",
        settings=[options, runtime],
        more={"words": words},
    )


@keyword_fields
def fill_job(
    *,
    model: AnyModel,
    as_json: bool = False,
    options: FillingOptions = fill.OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> LineJob:
    """Predicts the masked tokens of each line."""
    return LineJob(
        command="fill",
        into="masks",
        verb=fill.Filler(model, options=options, runtime=runtime),
        written=functools.partial(fill.output_lines, as_json=as_json),
        format="json" if as_json else "ranked",
        settings=[options, runtime],
    )


@keyword_fields
def score_job(
    *,
    model: AnyModel | None = None,
    as_json: bool = False,
    options: ScoringOptions = score.OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> LineJob:
    """Scores each line, a pair, or a text of a language model."""
    if model is not None and score_texts.scores_texts(model):
        scorer = score_texts.TextScorer(model, options=options, runtime=runtime)
    else:
        scorer = score.PairScorer(model, options=options, runtime=runtime)
    return LineJob(
        command="score",
        into="log_prob",
        cell=lambda answer: answer.to_dict()["log_prob"],
        cell_kind="number",
        texts=2 if isinstance(scorer, score.PairScorer) else 1,
        verb=scorer,
        written=functools.partial(scored_lines.output_lines, as_json=as_json),
        format="json" if as_json else "text",
        settings=[options, runtime],
    )


JOBS: Mapping[str, Callable[..., LineJob]] = {
    "translate": translate_job,
    "summarize": summarize_job,
    "generate": generate_job,
    "embed": embed_job,
    "classify": classify_job,
    "tag": tag_job,
    "fill": fill_job,
    "score": score_job,
}


def open_order(settings: Mapping[str, Any], plans: bool) -> OpenedJob:
    """The job of a message to a process of an engine."""
    return opened(JOBS, settings, plans)
