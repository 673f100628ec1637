"""A published recipe of regard with another corpus and as many updates as the budget allows.

What `regard new` proposes is compared with it: the proposal should be about as good as our best recipe.
"""

import math
import re
import shutil
from pathlib import Path

from benchmarks.systems.budget import Budget
from benchmarks.systems.corpora import Corpus
from benchmarks.systems.regard_system import Regard, updates_of
from benchmarks.systems.system import Job, TrainingReport, affordable

RECIPE = Path(__file__).parents[2] / "recipes" / "multi30k-raw-en-de.toml"
VALIDATIONS = 10  # of a run, as in the recipe
TRAINING = 0.95  # share of the budget; the rest is for the validations
PROBES = 8, 40  # updates of the trial runs: one takes less time than in the peers


class RegardRecipe(Regard):
    """The best published recipe for raw captions."""

    name = "regard, published recipe"
    about = (
        f"recipes/{RECIPE.name} with the files and the number of updates changed: 3 + 3 layers of 192,"
        " up to 5,000 BPE tokens; its validation pairs come on top of the training pairs"
    )

    def train(self, job: Job, budget: Budget) -> TrainingReport:
        recipe = job.folder / "recipe.toml"
        recipe.write_text(with_corpus(RECIPE.read_text("utf-8"), job.corpus), "utf-8")

        def measured(updates: int) -> float:
            own = Budget(math.inf)
            self._run(job, own, recipe, updates, validate_every=updates)
            return own.spent

        updates = affordable(measured, TRAINING * budget.left, PROBES)
        self._run(job, budget, recipe, updates, validate_every=max(1, updates // VALIDATIONS))
        made = updates_of(job.folder / "model")
        return TrainingReport(updates=made, settings=f"{updates:,} updates planned")

    def _run(self, job: Job, budget: Budget, recipe: Path, updates: int, validate_every: int) -> None:
        run = job.folder / "model"
        shutil.rmtree(run, ignore_errors=True)
        changed = {
            "max_steps": updates,
            "validate_every": validate_every,
            "save_every": validate_every,
            "seed": job.seed,
        }
        options = [word for key, value in changed.items() for word in ("--set", f"training.{key}={value}")]
        command = [self.python, "-m", "regard", "train", recipe, "--out", run, "--threads", "1"]
        budget.run([*command, *options], log=job.log)


def with_corpus(recipe: str, corpus: Corpus) -> str:
    """The text of a recipe with the training and validation files of a corpus, and without a test set."""
    first, *others = [part for part in re.split(r"\n(?=\[)", recipe) if not part.startswith("[data.")]
    files = [
        f"[data.{part}]\n"
        f"source = '{corpus.file(part, corpus.source)}'\n"
        f"target = '{corpus.file(part, corpus.target)}'\n"
        for part in ("train", "valid")
    ]
    return "\n".join([first, *files, *others])
