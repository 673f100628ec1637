"""Hugging Face's Marian, trained from random weights by its Seq2SeqTrainer.

`marian_trainer.py` has its settings, and runs in its environment.
"""

import math
import shutil

from benchmarks.common.unfit import Unfit
from benchmarks.systems.budget import Budget, last_line, translating
from benchmarks.systems.system import BEAM, VOCABULARY, Job, System, TrainingReport, affordable


class Marian(System):
    """A Marian of the size that `regard new` proposes."""

    name = "Hugging Face Marian"
    about = (
        "MarianConfig of 3 + 3 layers of 192 (4.7 M parameters), 8,000 BPE tokens, Seq2SeqTrainer: AdamW,"
        " 0.0005 after a warm-up of a tenth, then linearly to 0 (its default), label smoothing 0.1, 64 pairs"
        " a batch"
    )
    packages = ("transformers", "torch", "tokenizers", "accelerate")

    def train(self, job: Job, budget: Budget) -> TrainingReport:
        corpus = job.corpus
        files = [corpus.file("train", language) for language in (corpus.source, corpus.target)]
        script, tokenizer = self.script("marian_trainer.py"), job.folder / "tokenizer"
        budget.run([*script, "tokenize", tokenizer, str(VOCABULARY), *files], log=job.log)

        def fit(own: Budget, updates: int) -> None:
            shutil.rmtree(job.folder / "model", ignore_errors=True)
            options = [str(updates), str(job.seed)]
            own.run([*script, "train", tokenizer, job.folder / "model", *files, *options], log=job.log)

        def measured(updates: int) -> float:
            own = Budget(math.inf)
            fit(own, updates)
            return own.spent

        updates = affordable(measured, budget.left)
        fit(budget, updates)
        made = job.folder / "model" / "updates"
        if not made.exists():
            raise Unfit(f"no model within the budget: {last_line(job.log)}")
        return TrainingReport(updates=int(made.read_text()), settings=f"{updates:,} updates planned")

    def translate(self, job: Job) -> None:
        test = job.corpus.file("test", job.corpus.source)
        arguments = [job.folder / "model", test, job.output, str(BEAM)]
        command = [*self.script("marian_trainer.py"), "translate", job.folder / "tokenizer", *arguments]
        translating(command, log=job.log)
