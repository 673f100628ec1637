"""One shard of a job by each verb: many files in, a folder out that all shards share (see `jobs.py`)."""

import functools
from collections.abc import Callable
from pathlib import Path

from regard.jobs.part_record import PartRecord
from regard.jobs.shard import ShardReport
from regard.verbs import embed, generate, translate
from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.jobs import EVERYTHING, LineJob, refuse_several_lines, run_job
from regard.verbs.shared.any_model import AnyModel
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.runtime import (
    DEFAULT_DECODING_RUNTIME,
    DEFAULT_RUNTIME,
    DecodingRuntime,
    Runtime,
)
from regard.verbs.shared.text_options import (
    BatchOptions,
    ChatOptions,
    ShardOptions,
    SummaryOptions,
    TranslationOptions,
)
from regard.verbs.summarize import Summarizer

Done = Callable[[PartRecord], None]


@checked
@keyword_fields
def translate_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel | None = None,
    controls: Controls = UNSET,
    as_json: bool = False,
    options: TranslationOptions = translate.OPTIONS,
    sharding: ShardOptions = EVERYTHING,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
    done: Done | None = None,
) -> ShardReport:
    """Translate one shard of the lines of many files; `jobs_merge` makes one file of all shards.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        as_json: write a line of JSON for each line.
        done: is called after each part.
    """
    translator = translate.Translator(model, controls=controls, options=options, runtime=runtime)
    job = _text_job("translate", translator, as_json, controls, options, runtime)
    return run_job(job, str(input), str(output), sharding, done)


@checked
@keyword_fields
def summarize_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    as_json: bool = False,
    options: SummaryOptions = SummaryOptions(),  # noqa: B008 (frozen)
    sharding: ShardOptions = EVERYTHING,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
    done: Done | None = None,
) -> ShardReport:
    """Summarize one shard of the lines of many files; `jobs_merge` makes one file of all shards.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
        done: is called after each part.
    """
    summarizer = Summarizer(model, controls=controls, options=options, runtime=runtime)
    job = _text_job("summarize", summarizer, as_json, controls, options, runtime)
    return run_job(job, str(input), str(output), sharding, done)


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


@checked
@keyword_fields
def generate_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    num: int = 1,
    as_json: bool = False,
    options: ChatOptions = generate.NO_CHAT,
    sharding: ShardOptions = EVERYTHING,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
    done: Done | None = None,
) -> ShardReport:
    """Continue one shard of the lines of many files, as JSON; `jobs_merge` makes one file of all shards.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        num: texts for each prompt.
        as_json: must be True: a text may have several lines.
        done: is called after each part.
    """
    refuse_several_lines(as_json, "generate")
    generator = generate.Generator(model, controls=controls, num=num, options=options, runtime=runtime)
    job = LineJob(
        command="generate",
        verb=generator,
        written=functools.partial(generate.output_lines, as_json=True),
        format="json",
        settings=[controls, options, runtime],
        more={"num": num},
    )
    return run_job(job, str(input), str(output), sharding, done)


@checked
@keyword_fields
def embed_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel,
    as_json: bool = False,
    options: BatchOptions = BatchOptions(),  # noqa: B008 (frozen)
    sharding: ShardOptions = EVERYTHING,
    runtime: Runtime = DEFAULT_RUNTIME,
    done: Done | None = None,
) -> ShardReport:
    """Embed one shard of the lines of many files; `jobs_merge` makes one file of all shards.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
        done: is called after each part.
    """
    job = LineJob(
        command="embed",
        verb=embed.Embedder(model, options=options, runtime=runtime),
        written=functools.partial(embed.output_lines, as_json=as_json),
        format="json" if as_json else "text",
        settings=[options, runtime],
    )
    return run_job(job, str(input), str(output), sharding, done)
