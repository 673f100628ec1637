"""eole, the successor of OpenNMT-py: its default Transformer by the settings that its pages recommend.

docs/quickstart: `architecture: transformer` and nothing else, which is 2 + 2 layers of 512 (Noam's schedule
wants `hidden_size` in writing). Its default optimiser is plain SGD at 1.0, which trains no Transformer;
docs/FAQ/transformer has Adam, Noam's schedule with a rate of 2 and 8,000 updates of warm-up, label smoothing
0.1, dropout 0.1, 4,096 tokens a batch. The warm-up is cut to a tenth of the run, with the peak of the rate
kept.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.common.unfit import Unfit
from benchmarks.systems.budget import Budget, last_line, translating
from benchmarks.systems.system import BEAM, VOCABULARY, Job, System, TrainingReport, affordable

RATE, WARMUP, WIDTH = 2.0, 8000, 512  # of its FAQ


class Eole(System):
    """Its default model."""

    name = "eole"
    about = (
        "its default Transformer, 2 + 2 layers of 512, by docs/FAQ/transformer: Adam, Noam's schedule,"
        " 4,096 tokens a batch; 8,000 SentencePiece subwords; the last checkpoint translates"
    )
    packages = ("eole", "torch", "sentencepiece")
    model: ClassVar[dict[str, Any]] = {"architecture": "transformer", "hidden_size": WIDTH}
    tokens, peak = 4096, RATE * WIDTH**-0.5 * WARMUP**-0.5

    def train(self, job: Job, budget: Budget) -> TrainingReport:
        corpus = job.corpus
        files = [corpus.file("train", language) for language in (corpus.source, corpus.target)]
        options = [str(VOCABULARY), "unigram", "eole"]
        budget.run([*self.script("subwords.py"), job.folder / "subwords", *options, *files], log=job.log)

        def measured(updates: int) -> float:
            own = Budget(math.inf)
            self._run(job, own, updates, warmup=1)
            return own.spent

        updates = affordable(measured, budget.left)
        warmup = max(1, updates // 10)
        made = self._run(job, budget, updates, warmup)
        return TrainingReport(
            updates=made,
            settings=f"{updates:,} updates planned, {warmup:,} of them warm-up to {self.peak:.4f}",
        )

    def translate(self, job: Job) -> None:
        newest = max((job.folder / "model").glob("step_*"), key=_step)
        test = job.corpus.file("test", job.corpus.source)
        options = ["-model_path", newest, "-src", test, "-output", job.output, "-beam_size", str(BEAM)]
        translating([self.python, "-P", "-m", "eole.bin.main", "predict", *options], log=job.log)

    def _run(self, job: Job, budget: Budget, updates: int, warmup: int) -> int:
        """Train for so many updates; how many the last checkpoint has."""
        model = job.folder / "model"
        shutil.rmtree(model, ignore_errors=True)
        config = job.folder / "config.json"  # JSON is YAML
        config.write_text(json.dumps(self._config(job, model, updates, warmup)), "utf-8")
        budget.run([self.python, "-P", "-m", "eole.bin.main", "train", "-config", config], log=job.log)
        found = [_step(path) for path in model.glob("step_*")]
        if not found:
            raise Unfit(f"no checkpoint within the budget: {last_line(job.log)}")
        return max(found)

    def _config(self, job: Job, model: Path, updates: int, warmup: int) -> dict[str, Any]:
        corpus, subwords = job.corpus, str(job.folder / "subwords")
        width = self.model["hidden_size"]
        return {
            "save_data": str(job.folder / "samples"),
            "overwrite": True,
            "seed": job.seed,
            "report_every": 50,
            "src_vocab": f"{subwords}.pieces",
            "tgt_vocab": f"{subwords}.pieces",
            "share_vocab": True,
            "n_sample": 0,
            "data": {
                "train": {
                    "path_src": str(corpus.file("train", corpus.source)),
                    "path_tgt": str(corpus.file("train", corpus.target)),
                },
            },
            "transforms": ["sentencepiece", "filtertoolong"],
            "transforms_configs": {
                "sentencepiece": {
                    "src_subword_model": f"{subwords}.model",
                    "tgt_subword_model": f"{subwords}.model",
                },
                "filtertoolong": {"src_seq_length": 512, "tgt_seq_length": 512},
            },
            "training": {
                "model_path": str(model),
                "train_steps": updates,
                "save_checkpoint_steps": max(1, math.ceil(updates / 10)),
                "keep_checkpoint": 2,
                "world_size": 1,
                "gpu_ranks": [],
                "num_workers": 0,
                "bucket_size": len(corpus.lines("train", corpus.source)),
                "batch_type": "tokens",
                "batch_size": self.tokens,
                "normalization": "tokens",
                "compute_dtype": "fp32",
                "optim": "adam",
                "adam_beta2": 0.998,
                "decay_method": "noam",
                "learning_rate": self.peak * width**0.5 * warmup**0.5,
                "warmup_steps": warmup,
                "max_grad_norm": 0,
                "label_smoothing": 0.1,
                "param_init_method": "xavier_uniform",
                "dropout": [0.1],
                "attention_dropout": [0.1],
            },
            "model": {**self.model, "share_embeddings": True, "share_decoder_embeddings": True},
        }


class SmallEole(Eole):
    """What someone would choose who has a small corpus and a small budget; not a published configuration."""

    name = "eole, small"
    about = (
        "ours for a small budget: 3 + 3 layers of 192, 1,024 tokens a batch, warm-up of a tenth to 0.001,"
        " then Noam's schedule; the last checkpoint translates"
    )
    model: ClassVar[dict[str, Any]] = {
        "architecture": "transformer",
        "hidden_size": 192,
        "layers": 3,
        "heads": 4,
        "transformer_ff": 768,
        "word_vec_size": 192,
        "embeddings": {"word_vec_size": 192},
    }
    tokens, peak = 1024, 0.001


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step_"))
