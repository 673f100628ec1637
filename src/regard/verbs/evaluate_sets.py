"""Evaluate on many test sets: a table of scores, by one process or by several that share a folder."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.data.files import file_digest, locate
from regard.errors import ConfigError, DataError, RecipeError, UserError
from regard.jobs.storage import Storage
from regard.jobs.tasks import TaskPlan, TaskProgress, TaskRecord, progress_of, run_task, task_progress
from regard.recipe import read, read_toml
from regard.verbs.evaluate import OPTIONS, Evaluation, TranslationEvaluation, evaluate
from regard.verbs.generation.controls import MODEL_BEAM, BeamSize
from regard.verbs.jobs import hash_of, settings_of, shard_of
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.learned_metric import AnyMetrics, LearnedMetric, Others, several_models
from regard.verbs.shared.runtime import DEFAULT_DECODING_RUNTIME, DecodingRuntime
from regard.verbs.shared.text_options import WorkerOptions
from regard.verbs.shared.tokenize import Tokenize


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


@checked
@keyword_fields
def evaluate_sets(
    sets: str | Path,
    *,
    model: AnyModel | None = None,
    output: str | Path | None = None,
    shard: str | None = None,
    metric: AnyMetrics = (),
    tokenize: Tokenize = "auto",
    lowercase: bool = False,
    beam: BeamSize = MODEL_BEAM,
    options: WorkerOptions = OPTIONS,
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME,
    done: Callable[[TaskRecord], None] | None = None,
) -> TaskProgress:
    """Score a model on many test sets, each as `evaluate` does.

    Args:
        sets: a TOML file with a table for each test set: its name, and `src` and `ref`, or `data`. Paths are
            relative to the file.
        model: a model or run folder, or what `regard.load` gives; None is the included model.
        output: a folder or an address for the scores and translations; what is there is not computed again.
        shard: I/N, with an output: do only every Nth test set, from the Ith on.
        metric: one or several learned metrics, of all sets of sources and references; see `evaluate`.
        tokenize: sacreBLEU's tokeniser, of the same sets.
        lowercase: ignore case in them.
        done: is called after each test set.

    Raises:
        RecipeError: the file of sets cannot be read. DataError: a file of a set is missing or cannot be read,
            or the output is that of other sets, models or settings.
    """
    if shard is not None and output is None:
        raise UserError("a shard needs an output that all shards share", "give a folder: --output DIR")
    mine = shard_of(shard or "1/1")
    found = read_sets(Path(sets))
    loaded = open_model(model, runtime)
    learned = [LearnedMetric(each, runtime) for each in several_models(metric)]
    metrics = [each.loaded for each in learned]
    only_on_pairs = bool(metrics) or tokenize != "auto" or lowercase or options.workers is not None
    _refuse_unfit(found, learned, only_on_pairs or runtime.changes_model)
    on_pairs = {"metric": metrics, "tokenize": tokenize, "lowercase": lowercase, "options": options}

    def scored(name: str) -> TaskRecord:
        files = found[name]
        scoring = on_pairs if "src" in files else {}
        began = time.monotonic()
        evaluation = evaluate(model=loaded, **files, **scoring, beam=beam, runtime=runtime)
        if output is not None and isinstance(evaluation, TranslationEvaluation):
            lines = "".join(" ".join(each.splitlines()) + "\n" for each in evaluation.translations)
            Storage(str(output)).write(f"translations/{name}.txt", lines.encode("utf-8"))
        record = _record(name, evaluation, time.monotonic() - began)
        if done is not None:
            done(record)
        return record

    if output is None:
        return progress_of("evaluate", list(found), [scored(name) for name in found])
    storage = Storage(str(output))
    settings = {**settings_of([beam, options, runtime]), "tokenize": tokenize, "lowercase": lowercase}
    plan = TaskPlan(
        command="evaluate",
        version=version("regard"),
        settings={"model": hash_of(loaded), "metrics": [hash_of(each) for each in metrics], **settings},
        tasks={name: {**files, "sha256": _digests(files)} for name, files in found.items()},
    )
    plan.agreed(storage)
    for name in plan.shard(*mine):
        run_task(storage, name, lambda name=name: scored(name))
    progress = task_progress(storage)
    assert progress is not None
    return progress


def _record(name: str, evaluation: Evaluation, seconds: float) -> TaskRecord:
    return TaskRecord(
        task=name,
        seconds=round(seconds, 3),
        scores={score.name: score.value for score in evaluation.scores},
        result=evaluation.to_dict(),
    )


def _refuse_unfit(
    found: Mapping[str, Mapping[str, Any]], metrics: Sequence[LearnedMetric], only_on_pairs: bool
) -> None:
    """Raise a UserError for a set that cannot be scored so, before the first of them is."""
    for name, files in found.items():
        if "data" in files:
            if only_on_pairs:
                raise UserError(
                    f"{name} has data: metric, tokenize, lowercase, workers, precision are for src and ref",
                    "leave them out, or score these sets by another call",
                )
            continue
        if not files["ref"] and not metrics:
            raise UserError(f"{name} has no ref", "give it one, or a metric that reads no references")
        for metric in metrics:
            metric.require(Others(sources=(), references=[()] * len(files["ref"])))


def read_sets(path: Path) -> dict[str, dict[str, Any]]:
    """The files of each test set of a TOML file, by its name.

    Raises:
        RecipeError: it cannot be read, or has no set. DataError: a file of a set does not exist.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file of test sets", "[NAME], src and ref are in it, for each set")
    table, _ = read_toml(path)
    if not table:
        raise RecipeError(f"{path} has no test set", 'write [NAME], src = "test.en" and ref = "test.de"')
    found: dict[str, dict[str, Any]] = {}
    for name, content in table.items():
        if not re.fullmatch(r"\w[\w.+-]*", name):
            raise RecipeError(f"{path}: {name!r} is no name of a file", "letters, digits and - _ . + are")
        if not isinstance(content, dict):
            raise RecipeError(f"{path}: {name} is no table", f"write [{name}], and then its files")
        try:
            found[name] = read(EvaluationSet, content, name).paths(path.absolute().parent)
        except RecipeError as error:
            raise RecipeError(f"{path}: {error.message}", error.hint) from None
        except DataError as error:
            raise DataError(f"{path}: {name}: {error.message}", error.hint) from None
    return found


def _digests(files: dict[str, Any]) -> dict[str, str]:
    paths = [path for each in files.values() for path in ([each] if isinstance(each, str) else each)]
    return {path: file_digest(Path(path)) for path in paths if Path(path).is_file()}
