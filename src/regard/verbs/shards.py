"""Jobs by each verb: many files in, a folder out; by one of several processes, or by an engine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.jobs.pace import ShardReport
from regard.verbs import classify, embed, fill, generate, score, tag, translate
from regard.verbs.engine_jobs import LOCAL, refuse_unknown_engine, run_on_engine
from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.jobs import EVERYTHING, Done, run_job
from regard.verbs.line_jobs import JOBS, SUMMARY
from regard.verbs.shared.any_model import AnyModel
from regard.verbs.shared.file_formats import note_markup
from regard.verbs.shared.python_call import python_call
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
    ShardOptions,
    SummaryOptions,
    TaggingOptions,
    TranslationOptions,
)

ORDERS = "regard.verbs.line_jobs:open_order"


@python_call
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
    """Translate the lines of many files, or one shard of them; `jobs_merge` makes one file of all shards.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        as_json: write a line of JSON for each line.
        done: is called after each part.
    """
    settings = {"model": model, "controls": controls, "as_json": as_json, "options": options}
    return _run("translate", {**settings, "runtime": runtime}, (input, output), sharding, done)


@python_call
def summarize_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel,
    controls: Controls = UNSET,
    as_json: bool = False,
    options: SummaryOptions = SUMMARY,
    sharding: ShardOptions = EVERYTHING,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
    done: Done | None = None,
) -> ShardReport:
    """Summarize the lines of many files, or one shard of them; `jobs_merge` makes one file of all shards.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
        done: is called after each part.
    """
    settings = {"model": model, "controls": controls, "as_json": as_json, "options": options}
    return _run("summarize", {**settings, "runtime": runtime}, (input, output), sharding, done)


@python_call
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
    """Continue the lines of many files, or one shard of them, as JSON; `jobs_merge` makes one file of all.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        num: texts for each prompt.
        as_json: must be True: a text may have several lines.
        done: is called after each part.
    """
    settings = {"model": model, "controls": controls, "num": num, "as_json": as_json, "options": options}
    return _run("generate", {**settings, "runtime": runtime}, (input, output), sharding, done)


@python_call
def embed_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel,
    as_json: bool = False,
    options: EmbeddingOptions = embed.OPTIONS,
    sharding: ShardOptions = EVERYTHING,
    runtime: Runtime = DEFAULT_RUNTIME,
    done: Done | None = None,
) -> ShardReport:
    """Embed the lines of many files, or one shard of them; `jobs_merge` makes one file of all shards.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
        done: is called after each part.
    """
    settings = {"model": model, "as_json": as_json, "options": options, "runtime": runtime}
    return _run("embed", settings, (input, output), sharding, done)


@python_call
def classify_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel,
    as_json: bool = False,
    options: ClassificationOptions = classify.OPTIONS,
    sharding: ShardOptions = EVERYTHING,
    runtime: Runtime = DEFAULT_RUNTIME,
    done: Done | None = None,
) -> ShardReport:
    """Classify the lines of many files, or one shard of them; `jobs_merge` makes one file of all.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
        done: is called after each part.
    """
    settings = {"model": model, "as_json": as_json, "options": options, "runtime": runtime}
    return _run("classify", settings, (input, output), sharding, done)


@python_call
def tag_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel,
    words: bool = False,
    as_json: bool = False,
    options: TaggingOptions = tag.OPTIONS,
    sharding: ShardOptions = EVERYTHING,
    runtime: Runtime = DEFAULT_RUNTIME,
    done: Done | None = None,
) -> ShardReport:
    """Label the words of the lines of many files, or one shard of them; `jobs_merge` makes one file of all.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        words: split a line at white space only.
        as_json: write a line of JSON for each line.
        done: is called after each part.
    """
    settings = {"model": model, "words": words, "as_json": as_json, "options": options, "runtime": runtime}
    return _run("tag", settings, (input, output), sharding, done)


@python_call
def fill_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel,
    as_json: bool = False,
    options: FillingOptions = fill.OPTIONS,
    sharding: ShardOptions = EVERYTHING,
    runtime: Runtime = DEFAULT_RUNTIME,
    done: Done | None = None,
) -> ShardReport:
    """Predict masked tokens in the lines of many files, or one shard; `jobs_merge` makes one file of all.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns.
        as_json: write a line of JSON for each line.
        done: is called after each part.
    """
    settings = {"model": model, "as_json": as_json, "options": options, "runtime": runtime}
    return _run("fill", settings, (input, output), sharding, done)


@python_call
def score_shard(
    input: str | Path,
    output: str | Path,
    *,
    model: AnyModel | None = None,
    as_json: bool = False,
    options: ScoringOptions = score.OPTIONS,
    sharding: ShardOptions = EVERYTHING,
    runtime: Runtime = DEFAULT_RUNTIME,
    done: Done | None = None,
) -> ShardReport:
    """Score the pairs of many files, or one shard of them; `jobs_merge` makes one file of all.

    A pair is a line: SOURCE and TRANSLATION, separated by a tab. Of a language model a line is a text.

    Args:
        input: a path or an address, or a pattern of them, such as s3://bucket/in/*.gz.
        output: the folder that all shards share, a path or an address.
        model: a model or run folder, or what `regard.load` returns; the included model by default.
        as_json: write a line of JSON for each line.
        done: is called after each part.
    """
    settings = {"model": model, "as_json": as_json, "options": options, "runtime": runtime}
    return _run("score", settings, (input, output), sharding, done)


def _run(
    command: str,
    settings: Mapping[str, Any],
    places: tuple[str | Path, str | Path],
    sharding: ShardOptions,
    done: Done | None,
) -> ShardReport:
    """Here, or by the processes of an engine."""
    refuse_unknown_engine(sharding)
    input, output = map(str, places)
    if sharding.column is None:
        note_markup(input)
    if sharding.on in (None, LOCAL):
        return run_job(JOBS[command](**settings), input, output, sharding, done)
    return run_on_engine(ORDERS, command, settings, (input, output), sharding, done)
