"""Tokenise a corpus for training (`data.tokens`), by one process or by many: the parts of a job."""

import dataclasses
import functools
import platform
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.data.corpus import Pair, problem_of
from regard.data.corpus_formats import Problem
from regard.data.shards import segmenters
from regard.data.token_part import PartTokenizer, PartWriter, Sequences
from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_training import train_tokenizers
from regard.errors import DataError, RecipeError, UserError
from regard.jobs.cuts import refuse_parquet
from regard.jobs.inputs import InputFile, find_inputs
from regard.jobs.pace import ShardReport
from regard.jobs.part_worker import JobOrder, OpenedJob
from regard.jobs.plan import TOKENS, Part, Plan, read_plan
from regard.jobs.rows import PartRows
from regard.jobs.shard import rows_of, run_shard
from regard.jobs.storage import Storage
from regard.jobs.tables import TableColumns, kind_of, table_kind
from regard.jobs.token_rows import TokenRows
from regard.verbs.engine_jobs import LOCAL, everywhere, placed, refuse_unknown_engine
from regard.verbs.jobs import EVERYTHING, Done, shard_of
from regard.verbs.recipes import recipe_path
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.model_loading import model_path
from regard.verbs.shared.settings import load_recipe, recipe_from
from regard.verbs.shared.text_options import ShardOptions
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.tokenised_corpus import create_tokenizers, read_tokenizers, token_settings
from regard.verbs.tasks.translation import TranslationRecipe
from regard.weights.model_folder import load_model

ORDERS = "regard.verbs.tokenize_corpus:open_order"
COMMAND = "data tokenize"
SAMPLE = 1_000_000  # pairs that tokenisers are trained on, from parts that are evenly spread
SAMPLED_PARTS = 100


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
    """Tokenise the pairs of many files, or one shard of them, for a training with `data.tokens = output`.

    The tokenisers are those of the recipe's `model.init`, or are trained by its `[tokenizer]` on a million
    pairs.

    Args:
        recipe: a recipe of a translation: a TOML file, or the name of one that comes with regard. What counts
            are `[tokenizer]`, `[data.lines]`, `batches.max_tokens` and `model.init`.
        input: a path or an address, or a pattern of them. A line has a source and its target with a tab
            between, unless `column` names two columns of tables.
        output: the folder that all shards share, a path or an address.
        overrides: settings `section.key=value` that replace those of the recipe.
        done: is called after each part.

    Raises:
        RecipeError: the recipe is that of another task. DataError: there is no such input, an input has
            changed, or the folder belongs to another job.
    """
    refuse_unknown_engine(sharding)
    source = load_recipe(recipe_path(recipe), overrides, None)
    columns = _columns(sharding)
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
        return placed(order, sharding, done, cpus=1, gpu=False)[0]
    job = _TokenJob(source, Storage(str(output)))
    plan = job.plan(find_inputs([str(input)]), columns, sharding.part_megabytes).agreed(job.storage)
    return run_shard(
        plan,
        job.storage,
        shard_of(sharding.shard or "1/1"),
        job.answer,
        failure=_no_line,
        engine=_engine(),
        wrap=job.rows,
        done=done or (lambda done: None),
    )


def open_order(settings: dict[str, Any], plans: bool) -> OpenedJob:
    """The job of a message, in a process of an engine; that which plans makes the tokenisers, too."""
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
        if not isinstance(source.recipe, TranslationRecipe):
            raise RecipeError(
                f"{source.recipe.name}: the recipe of another task than a translation",
                "a corpus of pairs is tokenised; other tasks tokenise when they train",
            )
        self.storage, self._source, self._recipe = storage, source, source.recipe
        self._settings = token_settings(source.recipe)

    def plan(self, inputs: Sequence[InputFile], columns: TableColumns | None, part_megabytes: int) -> Plan:
        """The job; of the model it needs the tokenisers of `model.init` alone.

        Raises:
            DataError: tables without columns, or columns without tables.
        """
        if columns is not None:
            kind_of(inputs)
        else:
            refuse_parquet(inputs)
            for file in inputs:
                if table_kind(file.url) == "jsonl":
                    raise DataError(f"{file.url} is a table", "name its columns: --column SOURCE,TARGET")
        pretrained = self._pretrained
        return Plan(
            command=COMMAND,
            version=version("regard"),
            model="" if pretrained is None else pretrained.digest(),
            settings=self._settings,
            format=TOKENS,
            inputs=inputs,
            part_bytes=part_megabytes << 20,
            columns=columns,
        )

    @functools.cached_property
    def _pretrained(self) -> TokenizerPair | None:
        init = self._recipe.model.get("init")
        return None if init is None else load_model(model_path(init, self._source.base)).tokenizers

    @functools.cached_property
    def tokenizers(self) -> TokenizerPair:
        """The tokenisers of the corpus; the first process that needs them makes them."""
        if (there := read_tokenizers(self.storage)) is not None:
            return there
        made = self._pretrained or train_tokenizers(_Repeated(self._sample), self._recipe.tokenizer)
        create_tokenizers(self.storage, made)
        there = read_tokenizers(self.storage)
        assert there is not None
        return there

    def _sample(self) -> Iterator[Pair]:
        """The first pairs of parts that are evenly spread."""
        plan = read_plan(self.storage)
        parts = list(plan.parts())
        count = min(len(parts), SAMPLED_PARTS)
        for number in range(count):
            yield from _first_pairs(plan, parts[number * len(parts) // count], SAMPLE // count, self._problem)

    def _problem(self, row: tuple[str, str]) -> Problem | None:
        return problem_of(*row, self._recipe.data.lines.max_characters)

    @functools.cached_property
    def _tokenize(self) -> PartTokenizer:
        chosen, seed = self._recipe.tokenizer, self._recipe.training.seed
        found = segmenters(self.tokenizers, chosen.dropout, chosen.copies, seed)
        return PartTokenizer(self.tokenizers, found, self._recipe.batches.max_tokens)

    def rows(self, rows: PartRows) -> TokenRows:
        """The rows of a part, which become the arrays of a tokenised one."""
        copies = self._recipe.tokenizer.copies if self._recipe.tokenizer.dropout else 1
        return TokenRows(rows, PartWriter(self.tokenizers, copies))

    def answer(self, lines: Sequence[str], first: int) -> list[list[Sequences] | str]:
        """The ids of each pair, or why it is left out.

        Raises:
            DataError: a line cannot be used, and the recipe does not say that such lines are skipped.
        """
        rows = [_pair(line) for line in lines]
        problems = [row if isinstance(row, Problem) else self._problem(row) for row in rows]
        for problem in problems:
            if problem is not None and getattr(self._recipe.data.lines, problem.policy) == "error":
                hint = f'data.lines.{problem.policy} = "skip" counts such lines'
                raise DataError(problem.message, hint)
        good = [row for row, problem in zip(rows, problems, strict=True) if problem is None]
        found = iter(self._tokenize([(row[0], row[1]) for row in good]))
        return [next(found) if problem is None else problem.policy for problem in problems]


@dataclasses.dataclass(frozen=True)
class _Repeated:
    """Pairs that are read anew each time."""

    read: Callable[[], Iterator[Pair]]

    def __iter__(self) -> Iterator[Pair]:
        return self.read()


def _columns(sharding: ShardOptions) -> TableColumns | None:
    """The columns of the source and the target; None if a line has both.

    Raises:
        UserError: there are not two of them.
    """
    if sharding.into is not None:
        raise UserError(
            "into names a column that is added, but a tokenised corpus is no table", "leave it out"
        )
    if sharding.column is None:
        return None
    texts = tuple(sharding.column.split(","))
    if len(texts) != 2:
        raise UserError(
            f"column = {sharding.column!r}: a pair is in two columns",
            "name them with a comma between: SOURCE,TARGET",
        )
    return TableColumns(texts=texts, into="", result="text")


def _first_pairs(plan: Plan, part: Part, count: int, problem: Any) -> Iterator[Pair]:
    """The first usable pairs of a part."""
    rows = rows_of(plan, part, _no_line)
    line = 0
    for chunk, _ in rows.chunks():
        for each in chunk:
            line += 1
            try:
                pair = _pair(rows.text(each))
            except DataError:
                continue
            if not isinstance(pair, Problem) and problem(pair) is None:
                yield Pair(source=pair[0], target=pair[1], line=line)
            if line == count:
                return


def _pair(line: str) -> tuple[str, str] | Problem:
    """The source and the target of a line."""
    cells = line.split("\t")
    if len(cells) != 2:
        return Problem("malformed", f"{len(cells)} columns, not a source and a target with a tab between")
    return cells[0], cells[1]


def _no_line(line: int, reason: str) -> str:
    """A tokenised corpus has no lines."""
    return ""


def _engine() -> dict[str, Any]:
    return {"machine": platform.machine(), "host": platform.node(), "tokenizers": version("tokenizers")}
