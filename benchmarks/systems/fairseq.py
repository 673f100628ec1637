"""fairseq 0.12.2 by its Transformer for IWSLT'14 (examples/translation/README.md).

`transformer_iwslt_de_en`, 6 + 6 layers of 512, Adam at 0.0005 by the inverse square root after 4,000
updates of warm-up, dropout 0.3, 4,096 tokens a batch. Changed: 8,000 SentencePiece subwords of raw text
rather than 10,000 merges of lower-cased text, and a warm-up of a tenth of the run. The last release does
not import on Python 3.11 or newer; with an older one it may take part.
"""

import math
import re
import shutil
from pathlib import Path

from benchmarks.common.unfit import Unfit
from benchmarks.systems.budget import Budget, last_line, translating
from benchmarks.systems.system import BEAM, VOCABULARY, Job, System, TrainingReport, affordable


class Fairseq(System):
    """The published configuration."""

    name = "fairseq"
    about = (
        "transformer_iwslt_de_en: 6 + 6 layers of 512, 4,096 tokens a batch, warm-up of a tenth to 0.0005,"
        " then by the inverse square root; 8,000 SentencePiece subwords; the last checkpoint translates"
    )
    packages = ("fairseq", "torch", "sentencepiece")

    def train(self, job: Job, budget: Budget) -> TrainingReport:
        self._prepare(job, budget)

        def measured(updates: int) -> float:
            own = Budget(math.inf)
            self._run(job, own, updates, warmup=1)
            return own.spent

        updates = affordable(measured, budget.left)
        warmup = max(1, updates // 10)
        made = self._run(job, budget, updates, warmup)
        return TrainingReport(
            updates=made, settings=f"{updates:,} updates planned, {warmup:,} of them warm-up"
        )

    def translate(self, job: Job) -> None:
        pieces, found = job.folder / "test.pieces", job.folder / "generated.txt"
        test = job.corpus.file("test", job.corpus.source)
        unlimited = Budget(math.inf)
        unlimited.run([*self._encode(job), test, pieces], log=job.log)
        checkpoint = job.folder / "model" / "checkpoint_last.pt"
        options = ["--path", checkpoint, "--beam", str(BEAM), "--batch-size", "64", "--buffer-size", "1000"]
        command = [self._tool("interactive"), job.folder / "binary", *options]
        translating(
            [*command, "--remove-bpe=sentencepiece", "--cpu"], log=job.log, stdin=pieces, stdout=found
        )
        hypotheses = re.findall(r"^H-(\d+)\t[^\t]*\t(.*)$", found.read_text("utf-8"), re.MULTILINE)
        ordered = sorted((int(number), text) for number, text in hypotheses)
        job.output.write_text("".join(f"{text}\n" for _, text in ordered), "utf-8")

    def _prepare(self, job: Job, budget: Budget) -> None:
        """SentencePiece pieces of both sides, then fairseq's own binary form with one dictionary."""
        corpus, folder = job.corpus, job.folder
        languages = corpus.source, corpus.target
        files = [corpus.file("train", language) for language in languages]
        options = [str(VOCABULARY), "unigram", "eole"]
        budget.run([*self.script("subwords.py"), folder / "subwords", *options, *files], log=job.log)
        for part in ("train", "valid"):
            for language in languages:
                encoded = folder / f"{part}.pieces.{language}"
                budget.run([*self._encode(job), corpus.file(part, language), encoded], log=job.log)
        budget.run(
            [
                self._tool("preprocess"),
                *("--source-lang", corpus.source, "--target-lang", corpus.target, "--joined-dictionary"),
                *("--trainpref", folder / "train.pieces", "--validpref", folder / "valid.pieces"),
                *("--destdir", folder / "binary", "--workers", "1"),
            ],
            log=job.log,
        )

    def _run(self, job: Job, budget: Budget, updates: int, warmup: int) -> int:
        """Train for so many updates; how many the last checkpoint has."""
        model = job.folder / "model"
        shutil.rmtree(model, ignore_errors=True)
        every = str(max(1, math.ceil(updates / 10)))
        budget.run(
            [
                self._tool("train"),
                job.folder / "binary",
                *("--arch", "transformer_iwslt_de_en", "--share-all-embeddings", "--cpu"),
                *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--clip-norm", "0.0"),
                *("--lr", "5e-4", "--lr-scheduler", "inverse_sqrt", "--warmup-updates", str(warmup)),
                *("--dropout", "0.3", "--weight-decay", "0.0001", "--max-tokens", "4096"),
                *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
                *("--max-update", str(updates), "--seed", str(job.seed), "--num-workers", "0"),
                *("--save-interval-updates", every, "--keep-interval-updates", "2", "--disable-validation"),
                *("--save-dir", model, "--no-epoch-checkpoints", "--no-progress-bar"),
            ],
            log=job.log,
        )
        saved = re.findall(
            r"Saved checkpoint .*@ (\d+) updates", job.log.read_text("utf-8", errors="replace")
        )
        if not (model / "checkpoint_last.pt").exists() or not saved:
            raise Unfit(f"no checkpoint within the budget: {last_line(job.log)}")
        return int(saved[-1])

    def _encode(self, job: Job) -> list[str | Path]:
        return [*self.script("encode.py"), job.folder / "subwords.model"]

    def _tool(self, name: str) -> Path:
        return self.python.with_name(f"fairseq-{name}")
