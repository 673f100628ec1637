"""What each verb does with the lines of a job (see `jobs.py`), from the settings of its Python call."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from regard.jobs.part_worker import OpenedJob
from regard.verbs import embed, generate, translate
from regard.verbs.engine_jobs import opened
from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.jobs import LineJob, refuse_several_lines
from regard.verbs.shared.any_model import AnyModel
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.runtime import (
    DEFAULT_DECODING_RUNTIME,
    DEFAULT_RUNTIME,
    DecodingRuntime,
    Runtime,
)
from regard.verbs.shared.text_options import BatchOptions, ChatOptions, SummaryOptions, TranslationOptions
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
        verb=translator,
        written=functools.partial(translate.output_lines, ranked=ranked, as_json=as_json),
        format="json" if as_json else "ranked" if ranked else "text",
        settings=[controls, options, runtime],
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
    refuse_several_lines(as_json, "generate")
    generator = generate.Generator(model, controls=controls, num=num, options=options, runtime=runtime)
    return LineJob(
        command="generate",
        verb=generator,
        written=functools.partial(generate.output_lines, as_json=True),
        format="json",
        settings=[controls, options, runtime],
        more={"num": num},
    )


@keyword_fields
def embed_job(
    *,
    model: AnyModel,
    as_json: bool = False,
    options: BatchOptions = embed.OPTIONS,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> LineJob:
    """Embeds each line."""
    return LineJob(
        command="embed",
        verb=embed.Embedder(model, options=options, runtime=runtime),
        written=functools.partial(embed.output_lines, as_json=as_json),
        format="json" if as_json else "text",
        settings=[options, runtime],
    )


JOBS: Mapping[str, Callable[..., LineJob]] = {
    "translate": translate_job,
    "summarize": summarize_job,
    "generate": generate_job,
    "embed": embed_job,
}


def open_order(settings: Mapping[str, Any], plans: bool) -> OpenedJob:
    """The job of a message to a process of an engine."""
    return opened(JOBS, settings, plans)
