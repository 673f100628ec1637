"""Evaluate on many test sets: a table of scores, by one process or by several that share a folder."""

import functools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.counted import counted
from regard.data.files import file_digest, locate
from regard.errors import ConfigError, DataError, RecipeError, RunError, UserError
from regard.jobs.part_worker import JobOrder, OpenedTasks
from regard.jobs.storage import Storage
from regard.jobs.tasks import (
    TaskPlan,
    TaskProgress,
    TaskRecord,
    progress_of,
    run_task,
    task_progress,
)
from regard.recipe import read, read_toml
from regard.verbs.engine_jobs import LOCAL, as_keywords, everywhere, refuse_unknown_engine, run_tasks
from regard.verbs.evaluate import OF_PAIRS, OPTIONS, TranslationEvaluation, evaluate
from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.jobs import hash_of, shard_of
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.job_settings import settings_of
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.learned_metric import AnyMetrics, LearnedMetric, SourcesAndReferences, several_models
from regard.verbs.shared.lines import lines_of
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_DECODING_RUNTIME, DecodingRuntime
from regard.verbs.shared.text_options import EvaluationOptions, TaskOptions
from regard.verbs.shared.tokenize import Tokenize

ORDERS = "regard.verbs.evaluate_sets:open_order"
EVERY_TASK = TaskOptions()
ONE_FILE = 'pairs in one file are data: data = "FILE", in place of src and ref'


@dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """A test set: a source and its references, or test data in the format of the recipe's.

    For metrics that read sources alone there may be no references.
    """

    src: str | None = None
    ref: str | tuple[str, ...] = ()
    data: str | None = None

    def __post_init__(self) -> None:
        if (self.src is None) == (self.data is None) or (self.data is not None and self.ref):
            raise ConfigError("a test set has src and ref, or data", 'src = "test.en", ref = "test.de"')

    def paths(self, base: Path) -> dict[str, Any]:
        """Its files, which are relative to `base`.

        Raises:
            DataError: one does not exist.
        """
        if self.src is None:
            return {"data": str(locate(str(self.data), base).absolute())}
        references = (self.ref,) if isinstance(self.ref, str) else self.ref
        return {
            "src": str(locate(self.src, base).absolute()),
            "ref": [str(locate(each, base).absolute()) for each in references],
        }


@python_call
def evaluate_sets(
    sets: str | Path,
    *,
    model: AnyModel | None = None,
    output: str | Path | None = None,
    tasks: TaskOptions = EVERY_TASK,
    metric: AnyMetrics = (),
    tokenize: Tokenize = "auto",
    lowercase: bool = False,
    context: int | None = None,
    controls: Controls = UNSET,
    options: EvaluationOptions = OPTIONS,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
    done: Callable[[TaskRecord], None] | None = None,
) -> TaskProgress:
    """Score a model on many test sets, each as `evaluate` does.

    Args:
        sets: a TOML file with a table for each test set: its name, and `src` and `ref`, or `data`. Paths are
            relative to the file.
        model: a model or run folder, or what `regard.load` gives; None is the included model.
        output: a folder or an address for the scores and translations; what is there is not computed again.
        metric: one or several learned metrics, of all sets of sources and references; see `evaluate`.
        tokenize: sacreBLEU's tokeniser, of the same sets.
        lowercase: ignore case in them.
        context: of test data of a language model; see `evaluate`.
        done: is called after each test set.

    Raises:
        RecipeError: the file of sets cannot be read. DataError: a file of a set is missing or cannot be read,
            or the output is that of other sets, models or settings. RunError: sets could not be scored on an
            engine.
    """
    refuse_unknown_engine(tasks)
    if output is None and (tasks.shard is not None or tasks.on is not None):
        raise UserError("several processes need an output that all share", "give a folder: --output DIR")
    on_pairs = {"metric": metric, "tokenize": tokenize, "lowercase": lowercase, "options": options}
    settings = {"model": model, **on_pairs, "context": context, "controls": controls, "runtime": runtime}
    if tasks.on not in (None, LOCAL):
        return _scored_on_engine(Path(sets), Storage(str(output)), tasks, settings, done)
    opened = _Sets(Path(sets), output, **settings)

    def scored(name: str) -> TaskRecord:
        record = opened.score(name)
        if done is not None:
            done(record)
        return record

    if output is None:
        return progress_of("evaluate", list(opened.found), [scored(name) for name in opened.found])
    storage = Storage(str(output))
    plan = opened.plan().agreed(storage)
    for name in plan.shard(*shard_of(tasks.shard or "1/1")):
        run_task(storage, name, lambda name=name: scored(name))
    return _progress(storage)


class _Sets:
    """Test sets, and a model that is loaded."""

    @keyword_fields
    def __init__(
        self,
        sets: Path,
        output: str | Path | None,
        *,
        model: AnyModel | None = None,
        metric: AnyMetrics = (),
        tokenize: Tokenize = "auto",
        lowercase: bool = False,
        context: int | None = None,
        controls: Controls = UNSET,
        options: EvaluationOptions = OPTIONS,
        runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
    ) -> None:
        self.found, self._output = read_sets(sets), output
        self._loaded = open_model(model, runtime)
        learned = [LearnedMetric(each, runtime) for each in several_models(metric)]
        self._metrics = [each.loaded for each in learned]
        others = replace(options, workers=None if options.workers == 1 else options.workers)
        only_on_pairs = bool(learned) or tokenize != "auto" or lowercase or others != OPTIONS
        _refuse_unfit(self.found, learned, only_on_pairs or runtime.changes_model, context)
        self._on_pairs: dict[str, Any] = {
            "metric": self._metrics, "tokenize": tokenize, "lowercase": lowercase, "options": options
        }  # fmt: skip
        self._on_data: dict[str, Any] = {} if context is None else {"context": context}
        self._controls, self._runtime = controls, runtime

    def plan(self) -> TaskPlan:
        """What is scored, with the hashes of all files."""
        scoring = {name: self._on_pairs[name] for name in ("tokenize", "lowercase")} | self._on_data
        changed = settings_of([self._controls, self._on_pairs["options"], self._runtime])
        metrics = [hash_of(each) for each in self._metrics]
        models = [self._loaded, *self._metrics]
        return TaskPlan(
            command="evaluate",
            version=version("regard"),
            settings={"model": hash_of(self._loaded), "metrics": metrics, **changed, **scoring},
            tasks={name: {**files, "sha256": _digests(files)} for name, files in self.found.items()},
            paths={hash_of(each): str(each.path) for each in models},
        )

    def score(self, name: str) -> TaskRecord:
        """Score a test set, and write its translations into the output, if there is one."""
        files = self.found[name]
        scoring = self._on_pairs if "src" in files else self._on_data
        began = time.monotonic()
        evaluation = evaluate(
            model=self._loaded, **files, **scoring, controls=self._controls, runtime=self._runtime
        )
        if self._output is not None and isinstance(evaluation, TranslationEvaluation):
            lines = "".join(" ".join(each.splitlines()) + "\n" for each in evaluation.translations)
            Storage(str(self._output)).write(f"translations/{name}.txt", lines.encode("utf-8"))
        return TaskRecord(
            task=name,
            seconds=round(time.monotonic() - began, 3),
            scores={score.name: score.value for score in evaluation.scores},
            result=evaluation.to_dict(),
        )


def _scored_on_engine(
    sets: Path,
    storage: Storage,
    tasks: TaskOptions,
    settings: Mapping[str, Any],
    done: Callable[[TaskRecord], None] | None,
) -> TaskProgress:
    """Score all test sets by the processes of a cluster."""
    read_sets(sets)  # refuses mistakes here
    if settings["options"].workers not in (None, 1):
        raise UserError("workers are for one machine", "give --processes")
    changed = {
        "options": replace(settings["options"], workers=1),
        "metric": [*map(_path_of, several_models(settings["metric"]))],
    }
    keywords = as_keywords({**settings, **changed})
    message = {"sets": str(sets.absolute()), "output": everywhere(storage.url), "keywords": keywords}
    order = JobOrder(opens=ORDERS, settings=message, output=message["output"])

    names = functools.cache(lambda: list(_progress(storage).tasks))  # as they are planned
    reasons = run_tasks(order, tasks, settings["runtime"], lambda number: names()[number], done)
    if reasons:
        name, reason = next(iter(reasons.items()))
        raise RunError(
            f"{len(reasons)} of {len(names())} test sets failed, the first is {name}: {reason}",
            f"the same command scores them again; regard jobs status {storage.url} shows the others",
        )
    return _progress(storage)


def open_order(settings: Mapping[str, Any], plans: bool) -> OpenedTasks:
    """The test sets of a message, in a process of an engine."""
    opened = _Sets(Path(settings["sets"]), settings["output"], **settings["keywords"])
    return OpenedTasks(plan=opened.plan(), do=opened.score)


def _path_of(metric: AnyModel) -> str:
    if not isinstance(metric, str | Path):
        raise UserError("an engine's processes load the metrics themselves", "give their folders")
    return everywhere(str(metric))


def _progress(storage: Storage) -> TaskProgress:
    progress = task_progress(storage)
    assert progress is not None
    return progress


def _refuse_unfit(
    found: Mapping[str, Mapping[str, Any]],
    metrics: Sequence[LearnedMetric],
    only_on_pairs: bool,
    context: int | None,
) -> None:
    """Raise a UserError for a set that cannot be scored so, before the first of them is."""
    for name, files in found.items():
        if "data" in files:
            if only_on_pairs:
                raise UserError(
                    f"{name} has data: {', '.join(OF_PAIRS)}, precision are for src and ref",
                    "leave them out, or score these sets by another call",
                )
            continue
        if context is not None:
            raise UserError(
                f"{name} has src: context is for the test data of a language model",
                "leave it out, or score these sets by another call",
            )
        if not files["ref"] and not metrics:
            raise UserError(f"{name} has no ref", "give it one, or a metric that reads no references")
        for metric in metrics:
            metric.require(SourcesAndReferences(sources=(), references=[()] * len(files["ref"])))


def read_sets(path: Path) -> dict[str, dict[str, Any]]:
    """The files of each test set of a TOML file, by its name.

    Raises:
        RecipeError: it cannot be read, or has no set. DataError: a file of a set does not exist, or a source
            and its references have different numbers of lines.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file of test sets", "[NAME], src and ref are in it, for each set")
    table, _ = read_toml(path)
    if not table:
        raise RecipeError(f"{path} has no test set", 'write [NAME], src = "test.en" and ref = "test.de"')
    found: dict[str, dict[str, Any]] = {}
    for name, content in table.items():
        if not re.fullmatch(r"\w[\w.+-]*", name):
            raise RecipeError(f"{path}: {name!r} is not a file name", "letters, digits and - _ . + are")
        if not isinstance(content, dict):
            raise RecipeError(f"{path}: {name} is not a table", f"write [{name}], and then its files")
        try:
            found[name] = read(EvaluationSet, content, name).paths(path.absolute().parent)
        except RecipeError as error:
            raise RecipeError(f"{path}: {error.message}", error.hint) from None
        except DataError as error:
            raise DataError(f"{path}: {name}: {error.message}", error.hint) from None
    for name, files in found.items():  # before hours are spent on the others
        if files.get("ref"):
            _refuse_other_lengths(f"{path}: {name}", files["src"], files["ref"])
    return found


def _refuse_other_lengths(what: str, source: str, references: Sequence[str]) -> None:
    """Raise a DataError if a reference has more or fewer lines than the source."""
    lines = len(lines_of(source, tables=ONE_FILE))
    for reference in references:
        if (others := len(lines_of(reference, tables=ONE_FILE))) != lines:
            raise DataError(
                f"{what}: {source} has {counted(lines, 'line')}, and {reference} {others:,}",
                "line n of each must have the same meaning; an empty line is an empty text",
            )


def _digests(files: dict[str, Any]) -> dict[str, str]:
    paths = [path for each in files.values() for path in ([each] if isinstance(each, str) else each)]
    return {path: file_digest(Path(path)) for path in paths if Path(path).is_file()}
