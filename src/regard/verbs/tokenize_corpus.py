"""Tokenise a corpus for training (`data.tokens`), by one process or by many: the parts of a job."""

import dataclasses
import functools
import itertools
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard import console
from regard.data.tokenizer import TokenizerPair
from regard.errors import DataError, UserError
from regard.jobs.inputs import InputFile, find_inputs
from regard.jobs.pace import ShardReport
from regard.jobs.part_worker import JobOrder, OpenedJob
from regard.jobs.plan import TOKENS, Plan, part_bytes, read_plan
from regard.jobs.rows import PartRows
from regard.jobs.shard import rows_of, run_shard
from regard.jobs.storage import Storage
from regard.jobs.tables import TableColumns, kind_of, table_kind
from regard.jobs.token_rows import TokenRows
from regard.verbs.corpus_lines import corpus_lines
from regard.verbs.engine_jobs import LOCAL, everywhere, placed, refuse_unknown_engine
from regard.verbs.jobs import EVERYTHING, Done, shard_of
from regard.verbs.recipes import recipe_path
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.model_loading import model_path
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.settings import load_recipe, recipe_from
from regard.verbs.shared.text_options import ShardOptions
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.tokenised_corpus import create_tokenizers, read_tokenizers, token_settings
from regard.weights.model_folder import load_model

ORDERS = "regard.verbs.tokenize_corpus:open_order"
COMMAND = "data tokenize"
SAMPLE = 1_000_000  # lines that tokenisers are trained on, from parts that are evenly spread
SAMPLED_PARTS = 100
NO_COLUMN = "(no column of regard data tokenize)"  # which adds none


@checked
@keyword_fields
def tokenize_corpus(
    recipe: str | Path,
    input: str | Path,
    output: str | Path,
    *,
    overrides: Sequence[str] = (),
    sharding: ShardOptions = EVERYTHING,
    done: Done | None = None,
) -> ShardReport:
    """Tokenise the lines of many files, or one shard of them, for a training with `data.tokens = output`.

    The tokenisers are those of the recipe's `model.init`, or are trained by its `[tokenizer]` on a million
    lines.

    Args:
        recipe: a recipe of a translation or a language model: a TOML file, or the name of one that comes with
            regard. What counts are `[tokenizer]` and `model.init`, and of a translation `[data.lines]` and
            `batches.max_tokens`.
        input: a path or an address, or a pattern of them. A line is a source and its target with a tab
            between, or a document; or `column` names the two columns of tables, or the one.
        output: the folder that all shards share, a path or an address.
        overrides: settings `section.key=value` that replace those of the recipe.
        done: is called after each part.

    Raises:
        RecipeError: the recipe is that of another task. DataError: there is no such input, an input has
            changed, or the folder belongs to another job.
    """
    refuse_unknown_engine(sharding)
    mine = shard_of(sharding.shard or "1/1")
    source = load_recipe(recipe_path(recipe), overrides, None)
    job = _TokenJob(source, Storage(str(output)))
    columns = _columns(sharding, job.lines.columns)
    if sharding.on not in (None, LOCAL):
        settings = {
            "table": source.table,
            "base": everywhere(str(source.base)),
            "name": str(recipe),
            "input": everywhere(str(input)),
            "output": everywhere(str(output)),
            "columns": None if columns is None else dataclasses.asdict(columns),
            "part_megabytes": sharding.part_megabytes,
        }
        order = JobOrder(opens=ORDERS, settings=settings, output=settings["output"])
        return placed(order, sharding, done, Runtime(device="cpu", threads=1))[0]
    plan = job.plan(find_inputs([str(input)]), columns, sharding.part_megabytes).agreed(job.storage)
    job.tokenizers  # noqa: B018 (made or compared, before any part)
    return run_shard(
        plan,
        job.storage,
        mine,
        job.answer,
        failure=_no_line,
        engine=_engine(),
        wrap=job.rows,
        done=done or (lambda done: None),
    )


def open_order(settings: dict[str, Any], plans: bool) -> OpenedJob:
    """The job of a message, in a process of an engine; that which plans makes the tokenisers, too."""
    os.environ.setdefault("RAYON_NUM_THREADS", "1")  # of the tokenisers: the process has one core
    source = recipe_from(settings["table"], "", Path(settings["base"]), settings["name"])
    job = _TokenJob(source, Storage(settings["output"]))
    columns = settings["columns"]
    table = None if columns is None else TableColumns(**{**columns, "texts": tuple(columns["texts"])})
    inputs = find_inputs([settings["input"]]) if plans else []
    plan = job.plan(inputs, table, settings["part_megabytes"])
    if plans:
        plan = plan.agreed(job.storage)
        job.tokenizers  # noqa: B018 (made here, once)
    return OpenedJob(plan=plan, answer=job.answer, failure=_no_line, engine=_engine(), wrap=job.rows)


class _TokenJob:
    """What is done with the lines of a job by the settings of a recipe."""

    def __init__(self, source: RecipeFile, storage: Storage) -> None:
        self.storage, self._source = storage, source
        self.lines = corpus_lines(source.recipe)
        self._settings = token_settings(source.recipe)

    def plan(
        self, inputs: Sequence[InputFile], columns: TableColumns | None, part_megabytes: int | float | None
    ) -> Plan:
        """The job; of the model it needs the tokenisers of `model.init` alone.

        Raises:
            DataError: tables without columns, or columns without tables.
        """
        if columns is not None:
            kind_of(inputs)
        for file in inputs:
            if columns is None and table_kind(file.url) in ("jsonl", "parquet"):
                names = ",".join(self.lines.columns)
                raise DataError(f"{file.url} is a table", f"name what is read of it: --column {names}")
        pretrained = self._pretrained
        return Plan(
            command=COMMAND,
            version=version("regard"),
            model="" if pretrained is None else pretrained.digest(),
            settings=self._settings,
            format=TOKENS,
            inputs=inputs,
            part_bytes=part_bytes(part_megabytes),
            columns=columns,
        )

    @functools.cached_property
    def _pretrained(self) -> TokenizerPair | None:
        """The tokenisers of the model that the training starts from, or of its teacher."""
        recipe = self._source.recipe
        teacher = recipe.training.distillation
        if (name := recipe.model.get("init", None if teacher is None else teacher.teacher)) is None:
            return None
        loaded = load_model(model_path(name, self._source.base))
        console.note(f"tokeniser: from {loaded.path}; [tokenizer] has no effect on it")
        return loaded.tokenizers

    @functools.cached_property
    def tokenizers(self) -> TokenizerPair:
        """The tokenisers of the corpus; the first process that needs them makes them."""
        if (there := read_tokenizers(self.storage, self._settings)) is not None:
            return there
        made = self._pretrained or self.lines.tokenizers(self._sample)
        create_tokenizers(self.storage, made, self._settings)
        there = read_tokenizers(self.storage, self._settings)
        assert there is not None
        return there

    def _sample(self) -> Iterator[str]:
        """The first lines of parts that are evenly spread."""
        plan = read_plan(self.storage)
        parts = list(plan.parts())
        count = min(len(parts), SAMPLED_PARTS)
        for number in range(count):
            lines = _lines_of(rows_of(plan, parts[number * len(parts) // count], _no_line))
            yield from itertools.islice(lines, SAMPLE // count)

    def rows(self, rows: PartRows) -> TokenRows:
        """The rows of a part, which become the arrays of a tokenised one."""
        return TokenRows(rows, self.lines.writer(self.tokenizers))

    def answer(self, lines: Sequence[str], first: int) -> list[Any]:
        """The ids of each line, or why it is left out."""
        return self.lines.tokenised(lines, self.tokenizers)


def _columns(sharding: ShardOptions, names: Sequence[str]) -> TableColumns | None:
    """The columns of tables that are read; None if the inputs are lines.

    Raises:
        UserError: there are not as many as `names`.
    """
    if sharding.into is not None:
        raise UserError(
            "into names a column that is added, but a tokenised corpus is not a table", "leave it out"
        )
    if sharding.column is None:
        return None
    texts = tuple(sharding.column.split(",")) if len(names) > 1 else (sharding.column,)
    if len(texts) != len(names):
        raise UserError(
            f"column = {sharding.column!r} is not {' and '.join(names).lower()}",
            f"name them with a comma between: {','.join(names)}",
        )
    return TableColumns(texts=texts, into=NO_COLUMN, result="text")


def _lines_of(rows: PartRows) -> Iterator[str]:
    """The texts of rows, without those that have none."""
    for chunk, _ in rows.chunks():
        for each in chunk:
            with suppress(DataError):
                yield rows.text(each)


def _no_line(line: int, reason: str) -> str:
    """A tokenised corpus has no lines."""
    return ""


def _engine() -> dict[str, Any]:
    return {"machine": platform.machine(), "host": platform.node(), "tokenizers": version("tokenizers")}
