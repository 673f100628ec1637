"""regard itself: `regard new` on the corpus, `regard train` on what it wrote, nothing set by hand."""

from pathlib import Path

from benchmarks.common.unfit import Unfit
from benchmarks.systems.budget import Budget, translating
from benchmarks.systems.system import BEAM, Job, System, TrainingReport
from regard.weights.checkpoint import RunFolder


class Regard(System):
    """regard as a user would call it, on one core."""

    name = "regard"
    about = (
        "`regard new` and `regard train` on one core; it holds out its own validation lines of the same files"
    )
    packages = ("regard", "torch", "tokenizers")

    def train(self, job: Job, budget: Budget) -> TrainingReport:
        corpus = job.corpus
        files = [corpus.file("train", language) for language in (corpus.source, corpus.target)]
        recipe, run = job.folder / "recipe.toml", job.folder / "model"
        proposal = ["new", *files, "--out", recipe, *budget_options(job.minutes)]
        budget.run([self.python, "-m", "regard", *proposal], log=job.log)
        training = ["train", recipe, "--out", run, "--threads", "1"]
        budget.run([self.python, "-m", "regard", *training], log=job.log)
        return TrainingReport(updates=updates_of(run), settings="")

    def translate(self, job: Job) -> None:
        run = job.folder / "model"
        test = job.corpus.file("test", job.corpus.source)
        options = ["--input", test, "--output", job.output, "--beam-size", str(BEAM), "--threads", "1"]
        translating([self.python, "-m", "regard", "translate", "--model", run, *options], log=job.log)


def budget_options(minutes: float) -> list[str]:
    """The options of `regard new` for this budget of processor minutes of one core."""
    return ["--minutes", f"{minutes:g}", "--cores", "1"]


def updates_of(run: Path) -> int:
    """The updates of the newest checkpoint of a run."""
    newest = RunFolder(run).latest() if run.exists() else None
    if newest is None:
        raise Unfit("no checkpoint within the budget")
    return newest.step
