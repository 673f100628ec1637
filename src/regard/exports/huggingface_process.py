"""The process in which transformers computes what a certificate compares.

A job comes by standard input and the answer goes to standard output, both as JSON. Nothing of regard's models
is loaded here; code in the folder was written by the export itself.
"""

import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import groupby
from typing import Any

import torch

ROWS = 16  # sequences of a batch
OURS = True


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Greedy and beam outputs of the sources, log-probabilities of the forced outputs, ids of texts."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"HF_MODULES_CACHE": cache, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        torch.set_num_threads(job["threads"])
        translates = job["kind"] == "encoder_decoder"
        auto: Any = transformers.AutoModelForSeq2SeqLM if translates else transformers.AutoModelForCausalLM
        model, report = auto.from_pretrained(
            job["folder"], dtype=torch.float32, trust_remote_code=OURS, output_loading_info=True
        )
        if wrong := {name: found for name, found in report.items() if found}:
            raise ValueError(f"weights do not fit: {wrong}")
        model.eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(job["folder"], trust_remote_code=OURS)
        engine = Engine(transformers, model, job)
        with torch.inference_mode():
            return {
                "greedy": engine.searched(job["sources"], 1),
                "beam": engine.searched(job["sources"], job["beam"]),
                "log_probs": [each for batch in batches(job["forced"]) for each in engine.forced(batch)],
                "ids": [tokenizer(text, add_special_tokens=False)["input_ids"] for text in job["texts"]],
                "versions": {
                    "transformers": version("transformers"),
                    "tokenizers": version("tokenizers"),
                    "python": platform.python_version(),
                },
            }


class Engine:
    """A loaded model, and how it is asked."""

    def __init__(self, transformers: Any, model: Any, job: dict[str, Any]) -> None:
        self.model, self.job = model, job
        self.translates, self.end = job["kind"] == "encoder_decoder", job["end"]
        self.pad = model.config.pad_token_id if model.config.pad_token_id is not None else self.end
        self.start: Any = getattr(model.config, "decoder_start_token_id", None)
        self.settings = transformers.GenerationConfig

    def searched(self, sources: Sequence[Sequence[int]], size: int) -> list[tuple[list[int], float]]:
        """The best output of each source; those of one length are a batch, which has no padding."""
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        found: dict[int, tuple[list[int], float]] = {}
        for _, several in groupby(order, key=lambda number: len(sources[number])):
            for numbers in batches(list(several)):
                found.update(
                    zip(numbers, self.search([sources[each] for each in numbers], size), strict=True)
                )
        return [found[number] for number in range(len(sources))]

    def search(self, rows: Sequence[Sequence[int]], size: int) -> list[tuple[list[int], float]]:
        """The best outputs by `generate` of rows of one length, and their mean log-probabilities."""
        given = [[*ids, self.job["source_end"]] if self.translates else list(ids) for ids in rows]
        settings = self.settings(
            num_beams=size, max_new_tokens=self.job["longest"], do_sample=False, eos_token_id=self.end,
            pad_token_id=self.pad, decoder_start_token_id=self.start, bos_token_id=None, use_cache=True,
            **({"early_stopping": True, "length_penalty": 1.0} if size > 1 else {}),
        )  # fmt: skip
        inputs = torch.tensor(given)
        self.model.generation_config = settings  # its own would fill in what is None here
        found = self.model.generate(
            inputs, attention_mask=torch.ones_like(inputs), generation_config=settings
        ).tolist()
        outputs = [each[1:] if self.translates else each[inputs.size(1) :] for each in found]
        ends = (each.index(self.end) + 1 if self.end in each else len(each) for each in outputs)
        outputs = [each[:end] for each, end in zip(outputs, ends, strict=True)]
        log_probs = self.next_log_probs(list(zip(rows, outputs, strict=True)))
        return [
            (output, sum(each) / max(1, len(each))) for output, each in zip(outputs, log_probs, strict=True)
        ]

    def forced(self, pairs: Sequence[Any]) -> list[list[float]]:
        """The log-probabilities of outputs and their end tokens; of texts, those of all ids but the first."""
        if self.translates:
            return self.next_log_probs([(given, [*output, self.end]) for given, output in pairs])
        return self.next_log_probs([(given[:1], [*given[1:], *output]) for given, output in pairs])

    def next_log_probs(self, pairs: Sequence[Any]) -> list[list[float]]:
        """The log-probability of each id of these outputs."""
        if self.translates:
            sources, mask = padded([[*given, self.job["source_end"]] for given, _ in pairs], self.pad)
            rows, _ = padded([[self.start, *output] for _, output in pairs], self.pad)
            logits = self.model(
                input_ids=sources, attention_mask=mask, decoder_input_ids=rows[:, :-1], use_cache=False
            ).logits
            firsts = [0] * len(pairs)
        else:
            rows, mask = padded([[*given, *output] for given, output in pairs], self.pad)
            logits = self.model(input_ids=rows, attention_mask=mask, use_cache=False).logits
            firsts = [len(given) - 1 for given, _ in pairs]
        found = logits.double().log_softmax(dim=-1)
        return [
            [float(found[row, first + place, number]) for place, number in enumerate(output)]
            for row, ((_, output), first) in enumerate(zip(pairs, firsts, strict=True))
        ]


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of ids as a tensor with padding after the shorter ones, and its mask."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])
    return ids, torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])


def batches(pairs: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Some rows at a time."""
    for first in range(0, len(pairs), ROWS):
        yield pairs[first : first + ROWS]


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
