"""CPU time of this checkout and of another, alternating, on one thread.

    python -m benchmarks.checkouts OTHER [--rounds N]

OTHER is the folder of another checkout, as `git worktree add` makes one. Measured: a training step in the
form that `regard new` proposes and in that of the paper, and the generation of one text. Prints milliseconds
and the median of the ratios within rounds, other / this: above 1 this one is faster.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, cast

import torch
from torch.nn import functional

from regard.decoding.continuation import ContinuationSettings, continue_all, prompts_of
from regard.fast.training import fused
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.verbs.shared.precision import Precision, compute_in

VOCAB, ROWS, LENGTH, TOKENS = 5000, 120, 18, 100
FORMS = {
    "a training step, the form of regard new": {
        "norm": "rms",
        "norm_position": "pre",
        "activation": "swiglu",
        "positions": "rotary",
    },
    "a training step, the paper's form": {"norm_position": "post", "activation": "relu"},
}
TEXTS: dict[str, tuple[Precision, dict[str, Any]]] = {
    "a token of one text, greedy, float32": ("float32", {"beam_size": 1}),
    "a token of one text, greedy, int8": ("int8", {"beam_size": 1}),
    "a token of one text, sampled, int8": ("int8", {"seed": 1}),
}
MEASURED = [*FORMS, *TEXTS]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, metavar="OTHER")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="[default: 9]")
    parser.add_argument("--measure", choices=MEASURED, help=argparse.SUPPRESS)  # what a child does
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
    elif not (options.other / "src/regard").is_dir():
        parser.error(f"{options.other} is no checkout of regard")
    else:
        for name in MEASURED:
            print(compared(name, options.other, options.rounds), flush=True)


def compared(name: str, other: Path, rounds: int) -> str:
    """A line about this work in both checkouts."""
    here = Path(__file__).parent.parent
    with ExitStack() as stack:
        children = [stack.enter_context(started(name, checkout)) for checkout in (other, here)]
        taken = [[asked(child) for child in children] for _ in range(rounds)]
    before, after = (1000 * median(each) for each in zip(*taken, strict=True))
    ratio = median(one / two for one, two in taken)
    return f"{name}: {before:.2f} ms there, {after:.2f} ms here, {ratio:.2f} x"


def started(name: str, checkout: Path) -> "subprocess.Popen[str]":
    """A child that runs the package of `checkout`, after its warm-up."""
    paths = os.pathsep.join(map(str, (checkout / "src", Path(__file__).parent.parent)))
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.checkouts", str(checkout), "--measure", name],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    asked(child)
    return child


def asked(child: "subprocess.Popen[str]") -> float:
    """Seconds of the processor, measured now."""
    assert child.stdin is not None
    assert child.stdout is not None
    print(file=child.stdin, flush=True)
    return float(child.stdout.readline())


def measure(name: str) -> None:
    """Do the work once for each line of stdin, and print the seconds."""
    torch.set_num_threads(1)
    with ExitStack() as stack:
        work, units = training_step(FORMS[name], stack) if name in FORMS else text(*TEXTS[name])
        for _ in _lines():
            began = time.process_time()
            work()
            print((time.process_time() - began) / units, flush=True)


def _lines() -> Iterator[str]:
    yield from sys.stdin


def training_step(form: dict[str, str], stack: ExitStack) -> tuple[Callable[[], object], int]:
    sizes = {"d_model": 192, "num_heads": 4, "d_ff": 512, "dropout": 0.2}
    layers = {"num_encoder_layers": 3, "num_decoder_layers": 3}
    config = EncoderDecoderConfig.from_table(
        {**sizes, **layers, **form}, src_vocab_size=VOCAB, tgt_vocab_size=VOCAB
    )
    model = build_model(config, seed=0).train()
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(8, LENGTH + 1, (ROWS,), generator=generator)
    lengths[0] = LENGTH
    source, target = (torch.randint(4, VOCAB, (ROWS, LENGTH), generator=generator) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    stack.enter_context(fused(model))

    def step() -> None:
        for _ in range(4):
            logits = model(source, lengths, target)
            functional.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()

    return step, 4


def text(precision: Precision, settings: dict[str, Any]) -> tuple[Callable[[], object], int]:
    table = {"d_model": 384, "num_heads": 6, "d_ff": 1536, "num_layers": 6, "trained_length": 256}
    model = cast(DecoderOnly, build_model(DecoderOnlyConfig.from_table(table, vocab_size=69), seed=0)).eval()
    compute_in(precision, model, model.device)
    search = ContinuationSettings(begin=False, min_new_tokens=TOKENS, **settings).strategy()
    prompts = prompts_of([[4]], begin_id=None)
    return lambda: continue_all(search, model, prompts, max_new_tokens=TOKENS), TOKENS


if __name__ == "__main__":
    main()
