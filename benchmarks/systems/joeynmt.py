"""JoeyNMT 2.3 by its Transformer for IWSLT'14, and by one of the size of the others.

Published: configs/transformer_iwslt14_deen_bpe.yaml of joeynmt/joeynmt, 6 + 6 layers of 256, dropout 0.3,
batches of 4,096 tokens, Adam at 0.0003. Changed: its rate falls when the validation score no longer rises,
which fails with today's PyTorch (`ReduceLROnPlateau` has no `verbose` any more), so the schedule is that of
configs/iwslt14_deen_sp.yaml, warm-up and inverse square root, the warm-up cut to a tenth; 8,000 subwords by
SentencePiece on raw, cased text, as 32,000 merges would be whole words of so small a corpus; 200 validation
sentences, so that validation is cheap.
"""

import json
import math
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.unfit import Unfit
from benchmarks.systems.budget import Budget, last_line, translating
from benchmarks.systems.system import BEAM, VOCABULARY, Job, System, TrainingReport, affordable

ENDLESS = 10**6


class JoeyNmt(System):
    """The published configuration."""

    name = "JoeyNMT"
    about = (
        "configs/transformer_iwslt14_deen_bpe: 6 + 6 layers of 256, 4,096 tokens a batch, dropout 0.3, 0.0003"
        " after a warm-up of a tenth, then by the inverse square root (its own plateau fails with this"
        " PyTorch); 8,000 SentencePiece subwords; the last weights translate"
    )
    packages = ("joeynmt", "torch", "sentencepiece")
    layers, width, heads, dropout = 6, 256, 4, 0.3
    tokens, rate = 4096, 0.0003

    def train(self, job: Job, budget: Budget) -> TrainingReport:
        self._subwords(job, budget)

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
        newest = max(_checkpoints(job.folder / "model"), key=_step)
        config = job.folder / "config.json"
        settings = json.loads(config.read_text("utf-8"))
        settings["testing"]["load_model"] = str(newest)
        config.write_text(json.dumps(settings), "utf-8")
        test = job.corpus.file("test", job.corpus.source)
        command = [self.python, "-P", "-m", "joeynmt", "translate", config]
        # its own option for an output file fails in 2.3.0
        translating(command, log=job.log, stdin=test, stdout=job.output)

    def _subwords(self, job: Job, budget: Budget) -> None:
        corpus = job.corpus
        files = [corpus.file("train", language) for language in (corpus.source, corpus.target)]
        options = [str(VOCABULARY), "unigram", "joeynmt"]
        command = [*self.script("subwords.py"), job.folder / "subwords", *options, *files]
        budget.run(command, log=job.log)

    def _run(self, job: Job, budget: Budget, updates: int, warmup: int) -> int:
        """Train for so many updates at most; how many it made."""
        model = job.folder / "model"
        shutil.rmtree(model, ignore_errors=True)
        training = {"updates": updates, "learning_rate_warmup": warmup}
        config = job.folder / "config.json"  # JSON is YAML
        config.write_text(json.dumps(self._config(job, model, training)), "utf-8")
        command = [self.python, "-P", "-m", "joeynmt", "train", config, "--skip-test"]
        budget.run(command, log=job.log)
        found = [_step(path) for path in _checkpoints(model)]
        if not found:
            raise Unfit(f"no checkpoint within the budget: {last_line(job.log)}")
        return max(found)

    def _config(self, job: Job, model: Path, training: Mapping[str, Any]) -> dict[str, Any]:
        corpus, subwords = job.corpus, job.folder / "subwords"
        side = {
            "level": "bpe",
            "lowercase": False,
            "max_length": 100,
            "voc_file": f"{subwords}.pieces",
            "tokenizer_type": "sentencepiece",
            "tokenizer_cfg": {"model_file": f"{subwords}.model"},
        }
        stack = {
            "type": "transformer",
            "num_layers": self.layers,
            "num_heads": self.heads,
            "embeddings": {"embedding_dim": self.width, "scale": True, "dropout": 0.0},
            "hidden_size": self.width,
            "ff_size": 4 * self.width,
            "dropout": self.dropout,
        }
        return {
            "name": corpus.name,
            "joeynmt_version": "2.3.0",
            "model_dir": str(model),
            "use_cuda": False,
            "random_seed": job.seed,
            "data": {
                "train": str(corpus.prefix("train")),
                "dev": str(corpus.prefix("valid")),
                "dataset_type": "plain",
                "sample_dev_subset": 200,
                "src": {"lang": corpus.source, **side},
                "trg": {"lang": corpus.target, **side},
            },
            "testing": {
                "beam_size": BEAM,
                "beam_alpha": 1.0,
                "batch_size": 2048,
                "batch_type": "token",
                "max_output_length": 100,
                "eval_metrics": ["bleu"],
            },
            "training": {
                "optimizer": "adam",
                "adam_betas": [0.9, 0.999],
                "normalization": "tokens",
                "loss": "crossentropy",
                "label_smoothing": 0.1,
                "scheduling": "warmupinversesquareroot",
                "learning_rate": self.rate,
                "learning_rate_min": 0.0,  # YAML reads JSON's 1e-08 as a word
                "batch_size": self.tokens,
                "batch_type": "token",
                "early_stopping_metric": "bleu",
                "epochs": ENDLESS,
                "validation_freq": 1000,
                "logging_freq": 10,
                "overwrite": True,
                "shuffle": True,
                "print_valid_sents": [0],
                "keep_best_ckpts": 1,
                **training,
            },
            "model": {
                "initializer": "xavier_uniform",
                "embed_initializer": "xavier_uniform",
                "embed_init_gain": 1.0,
                "init_gain": 1.0,
                "bias_initializer": "zeros",
                "tied_embeddings": True,
                "tied_softmax": True,
                "encoder": stack,
                "decoder": stack,
            },
        }


class SmallJoeyNmt(JoeyNmt):
    """What someone would choose who has a small corpus and a small budget; not a published configuration."""

    name = "JoeyNMT, small"
    about = (
        "ours for a small budget: 3 + 3 layers of 192, 1,024 tokens a batch, warm-up of a tenth to 0.001,"
        " then by the inverse square root; the last weights translate"
    )
    layers, width, heads, dropout = 3, 192, 4, 0.1
    tokens, rate = 1024, 0.001


def _checkpoints(model: Path) -> list[Path]:
    """The numbered ones; `best` and `latest` are links to them."""
    return [path for path in model.glob("*.ckpt") if re.fullmatch(r"\d+", path.stem)]


def _step(path: Path) -> int:
    return int(path.stem)
