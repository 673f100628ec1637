"""Jobs: many files answered by many processes that share an output folder, here or in an object store.

Each process gets a number, as a scheduler such as Slurm or Kubernetes counts its tasks: `--shard 3/40`. It
answers every fortieth part of the input. Or an engine (`--on`) places processes, which are given parts by
number. A process that is started again leaves out what is done.
"""

import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Literal, Protocol, runtime_checkable

from regard import console
from regard.errors import ConfigError, DataError, FolderError, UserError
from regard.jobs import merge as merging
from regard.jobs import progress
from regard.jobs.cuts import refuse_others_than_lines
from regard.jobs.inputs import InputFile, find_inputs, read_piece
from regard.jobs.pace import PartDone, ShardReport
from regard.jobs.part_worker import OpenedJob
from regard.jobs.plan import Plan, part_bytes, read_plan
from regard.jobs.progress import Progress
from regard.jobs.shard import run_shard
from regard.jobs.storage import Storage
from regard.jobs.tables import ResultKind, TableColumns, kind_of, table_kind
from regard.jobs.tasks import TaskProgress, task_progress
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.job_settings import settings_of
from regard.verbs.shared.text_options import ShardOptions
from regard.weights.folder import MANIFEST
from regard.weights.model_folder import LoadedModel

EVERYTHING = ShardOptions()
Done = Callable[[PartDone], None]


@runtime_checkable
class LineVerb(Protocol):
    """A verb that answers lines, whatever the other lines are."""

    loaded: LoadedModel

    def answers(self, lines: Any, first: int, /) -> Iterable[Any]:
        """The answer to each line; the first has this number."""
        ...


@dataclass(frozen=True, kw_only=True)
class LineJob:
    """What is done with each line of a job; `written` gives the output line of an answer.

    Of a table, `cell` gives what the new column, by default called `into`, has for an answer, unless the
    output is JSON; None: it must be.
    """

    command: str
    verb: LineVerb
    written: Callable[[Any], str]
    format: Literal["text", "ranked", "json"]
    into: str
    settings: Sequence[Any]  # dataclasses
    more: Mapping[str, Any] = field(default_factory=dict)  # other settings
    cell: Callable[[Any], Any] | None = None
    cell_kind: ResultKind = "text"
    texts: int = 1  # of a row, with tabs between

    def answer(self, lines: Sequence[str], first: int) -> list[str]:
        """The output line of each line."""
        return [self.written(each) for each in self.verb.answers(lines, first)]

    def cells(self, lines: Sequence[str], first: int) -> list[Any]:
        """What the new column of a table has for each row."""
        answers = self.verb.answers(lines, first)
        if self.format != "json":
            assert self.cell is not None
            return [self.cell(each) for each in answers]
        tables = [json.loads(self.written(each)) for each in answers]
        return [{key: value for key, value in each.items() if key != "line"} for each in tables]

    def columns(self, sharding: ShardOptions) -> TableColumns | None:
        """The columns of a job's tables; None if its inputs are lines.

        Raises:
            UserError: the settings do not go with tables.
        """
        if sharding.column is None:
            if sharding.into is not None:
                raise UserError(
                    "into names a column of tables", "give --column, too, the column of the texts"
                )
            return None
        texts = tuple(sharding.column.split(",")) if self.texts > 1 else (sharding.column,)
        if len(texts) != self.texts:
            raise UserError(
                f"column = {sharding.column!r}: {self.command} reads {self.texts} columns",
                "name them with a comma between: SOURCE,TRANSLATION",
            )
        if self.format == "ranked" or (self.format == "text" and self.cell is None):
            raise UserError(
                f"an answer of `regard {self.command}` may have several lines, but a row has one cell",
                "give --json, too",
            )
        result: ResultKind = "json" if self.format == "json" else self.cell_kind
        return TableColumns(texts=texts, into=sharding.into or self.into, result=result)

    def failure(self, line: int, reason: str) -> str:
        """The output of a line that cannot be answered."""
        match self.format:
            case "json":
                return json.dumps({"line": line, "error": reason}, ensure_ascii=False) + "\n"
            case "ranked":
                return ""
            case "text":
                return "\n"


def run_job(
    job: LineJob,
    input: str,
    output: str,
    sharding: ShardOptions = EVERYTHING,
    done: Done | None = None,
) -> ShardReport:
    """Answer the parts of one shard that are not done.

    Args:
        input: a path or an address such as s3://bucket/in/part.gz, or a pattern of them.
        output: the folder that all shards share.
        sharding: which parts this process answers, and their size; a compressed file is one.
        done: is called after each part.

    Raises:
        DataError: there is no such input, an input has changed, or the folder belongs to another job.
    """
    numbers = shard_of(sharding.shard or "1/1")
    opened = opened_job(job, find_inputs([input]), sharding)
    storage = Storage(output)
    return run_shard(
        opened.plan.agreed(storage),
        storage,
        numbers,
        opened.answer,
        failure=opened.failure,
        engine=opened.engine,
        done=done or (lambda done: None),
    )


def opened_job(job: LineJob, inputs: Sequence[InputFile], sharding: ShardOptions) -> OpenedJob:
    """What a process needs to answer parts."""
    if empty := [file.url for file in inputs if not file.size]:
        more = f" and {len(empty) - 1:,} more" if len(empty) > 1 else ""
        console.warn(f"empty input: {empty[0]}{more}, of which the output has nothing")
    columns = job.columns(sharding)
    if columns is None:
        refuse_others_than_lines(inputs)
        if job.texts == 1:
            _refuse_columns(inputs)
    else:
        kind_of(inputs)
    plan = Plan(
        command=job.command,
        version=version("regard"),
        model=hash_of(job.verb.loaded),
        model_path=str(job.verb.loaded.path),
        settings={**settings_of(job.settings), **job.more},
        format=job.format,
        inputs=inputs,
        part_bytes=part_bytes(sharding.part_megabytes),
        columns=columns,
    )
    answer = job.answer if columns is None else job.cells
    return OpenedJob(plan=plan, answer=answer, failure=job.failure, engine=_engine(job.verb))


def _refuse_columns(inputs: Sequence[InputFile]) -> None:
    """Raise a DataError for a file called .tsv whose first line has columns, none of which is named."""
    for file in inputs:
        if table_kind(file.url) == "tsv" and b"\t" in next(read_piece(file, 0, file.size), b""):
            raise DataError(
                f"{file.url} is a table (tab-separated values)", "name the column of its texts: --column NAME"
            )


def shard_of(text: str) -> tuple[int, int]:
    """The number of a shard and of all shards, of I/N.

    Raises:
        ConfigError: it is something else.
    """
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ConfigError(f"shard = {text!r} is not I/N, a number from 1 to N and N", "1/1 is everything")
    return int(found[1]), int(found[2])


def hash_of(loaded: LoadedModel) -> str:
    """The SHA-256 of a model's manifest, which has those of its files.

    Raises:
        FolderError: it is not in a model folder of regard.
    """
    if loaded.folder is None:
        raise FolderError(
            f"{loaded.path} is a Hugging Face folder, which has no manifest",
            f"convert it: regard convert {loaded.path} --out DIR",
        )
    return hashlib.sha256((loaded.folder.path / MANIFEST).read_bytes()).hexdigest()


def _engine(verb: LineVerb) -> Mapping[str, Any]:
    return {
        "device": str(verb.loaded.model.device),
        "machine": platform.machine(),
        "torch": version("torch"),
        "host": platform.node(),
    }


@checked
def jobs_status(output: str) -> Progress | TaskProgress:
    """How far a job is; of test sets and of a sweep of trainings the scores, too.

    Args:
        output: its output folder, a path or an address.
    """
    storage = Storage(output)
    if (found := task_progress(storage)) is not None:
        return found
    return progress.progress_of(read_plan(storage), storage)


@checked
def jobs_verify(output: str) -> list[str]:
    """What is wrong with the output of a job: parts that are missing or damaged, inputs that have changed.

    Args:
        output: its output folder, a path or an address.
    """
    storage = Storage(output)
    return progress.problems_of(read_plan(storage), storage)


@checked
def jobs_merge(output: str, *, to: str) -> int:
    """Write the output of all parts as one file, in the order of the input; returns the number of lines.

    Args:
        output: the output folder of a job, a path or an address.
        to: the file to write; compressed if its name ends with .gz, a table if the inputs are tables.

    Raises:
        DataError: a part is missing or damaged, or the file exists.
    """
    storage = Storage(output)
    return merging.merge(read_plan(storage), storage, to)
