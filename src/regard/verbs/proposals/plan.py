"""Translation settings that `regard new` proposes for a corpus and a time: model, vocabulary, updates.

Sizes up to 100,000 pairs come from the experiments in docs/log.md (2026-11-23) and docs/recipes-by-size.md;
larger ones were run at one size only. tests/verbs/proposals/test_plan.py compares a published recipe with its
proposal.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from regard.data.corpus import Pair
from regard.data.tokenizer_training import TokenizerSettings
from regard.verbs.proposals.training_speed import Speed, measure_speed

RESERVED = 0.1  # share of the time for tokenising, validation and the test score
VALIDATIONS = 10  # in a run
MIN_STEPS = 100  # updates, even if the time is too short for them
CLIP_NORM = 1.0  # maximum norm of the gradient
MIN_SHARED_LETTERS = 0.5  # with less overlap, source and target have vocabularies of their own
DROPOUT = (  # (epochs at most, dropout): with more epochs a model overfits more
    (8, 0.1),
    (25, 0.2),
    (math.inf, 0.3),
)
MIN_TOKENS_PER_PARAMETER = 2.0  # target tokens of all epochs; with fewer a smaller model is better


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """A model and its training settings for corpora of up to `pairs` pairs.

    Pre-norm, RMS norm, SwiGLU and rotary positions were best in every comparison, so all sizes have them.
    """

    pairs: float  # at most
    d_model: int
    d_ff: int  # of a gated network, which has 1.5 times the parameters of one without a gate
    num_encoder_layers: int
    num_decoder_layers: int
    num_heads: int
    vocab_size: int
    batch_tokens: int
    learning_rate: float
    warmup: float  # share of the updates
    epochs: int  # at most; more did not help

    @property
    def layer_parameters(self) -> int:
        """The approximate number of parameters in the blocks."""
        attention, network = 4 * self.d_model**2, 3 * self.d_model * self.d_ff
        encoder = self.num_encoder_layers * (attention + network)
        decoder = self.num_decoder_layers * (2 * attention + network)
        return encoder + decoder


SIZES = (
    ModelSize(
        pairs=2e3,
        d_model=128,
        d_ff=288,
        num_encoder_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        vocab_size=1000,
        batch_tokens=1024,
        learning_rate=0.003,
        warmup=0.05,
        epochs=100,
    ),
    ModelSize(
        pairs=1e4,
        d_model=128,
        d_ff=288,
        num_encoder_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        vocab_size=2000,
        batch_tokens=1024,
        learning_rate=0.003,
        warmup=0.05,
        epochs=80,
    ),
    ModelSize(
        pairs=1e5,
        d_model=192,
        d_ff=432,
        num_encoder_layers=3,
        num_decoder_layers=3,
        num_heads=4,
        vocab_size=5000,
        batch_tokens=1024,
        learning_rate=0.002,
        warmup=0.05,
        epochs=50,
    ),
    ModelSize(
        pairs=1e6,
        d_model=256,
        d_ff=640,
        num_encoder_layers=6,
        num_decoder_layers=2,
        num_heads=4,
        vocab_size=8000,
        batch_tokens=2048,
        learning_rate=0.0015,
        warmup=0.05,
        epochs=40,
    ),
    ModelSize(
        pairs=math.inf,
        d_model=512,
        d_ff=1280,
        num_encoder_layers=6,
        num_decoder_layers=6,
        num_heads=8,
        vocab_size=32000,
        batch_tokens=8192,
        learning_rate=0.0007,
        warmup=0.05,
        epochs=20,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The tokeniser, model and training settings of a new recipe."""

    size: ModelSize
    joint: bool  # one vocabulary for both sides
    vocab_size: int  # of each vocabulary
    max_steps: int = 1000  # updates
    minutes: float = 0.0  # the expected time of the run; 0: unknown
    epochs: float = 0.0  # of `max_steps`; 0: unknown
    threads: int | None = None  # CPU threads of that time; None: unknown

    @property
    def model(self) -> dict[str, str | int | float]:
        """The recipe's `[model]`."""
        return {
            "d_model": self.size.d_model,
            "num_heads": self.size.num_heads,
            "d_ff": self.size.d_ff,
            "num_encoder_layers": self.size.num_encoder_layers,
            "num_decoder_layers": self.size.num_decoder_layers,
            "norm_position": "pre",
            "norm": "rms",
            "activation": "swiglu",
            "positions": "rotary",
            "tied": "all" if self.joint else "target",
            "dropout": self.dropout,
        }

    @property
    def parameters(self) -> int:
        """The approximate number of parameters; target embedding and output layer are tied."""
        vocabularies = 1 if self.joint else 2
        return self.size.layer_parameters + vocabularies * self.vocab_size * self.size.d_model

    @property
    def dropout(self) -> float:
        """The dropout for this number of epochs."""
        return next(share for epochs, share in DROPOUT if self.epochs <= epochs)

    @property
    def validate_every(self) -> int:
        """The updates between two validations."""
        return max(1, self.max_steps // VALIDATIONS)

    @property
    def moving_average(self) -> float:
        """The decay of a moving average over about 2 % of the run, but over 10 to 1,000 updates."""
        return round(min(0.999, max(0.9, 1 - 50 / self.max_steps)), 4)


def propose(
    sample: Sequence[Pair],
    *,
    pairs: int,
    shared_letters: float,
    characters: int,
    minutes: float,
    device: torch.device,
    threads: int | None = None,
) -> Proposal:
    """The settings for a corpus and a training time; measures the speed of this machine for some seconds.

    Args:
        sample: some pairs of the training data.
        pairs: the number of all training pairs.
        shared_letters, characters: see `drafts`.
        minutes: the time for the whole run, with tokenising and scores.
        device, threads: where it will be trained; without `threads` the fastest number is measured.
    """
    candidates = list(drafts(pairs, shared_letters, characters))
    for draft in candidates:
        tokenizer = TokenizerSettings(vocab_size=draft.vocab_size, joint=draft.joint)
        speed = measure_speed(draft.model, tokenizer, draft.size.batch_tokens, sample, device, threads)
        proposal = fitted_to_time(draft, speed, pairs, minutes)
        if draft is candidates[-1] or is_trained_enough(proposal, speed):
            return proposal
    raise AssertionError("the smallest size is always proposed")


def drafts(pairs: int, shared_letters: float, characters: int = 0) -> Iterator[Proposal]:
    """Proposals for a corpus: first the size for its pairs, then smaller models for less time.

    Args:
        pairs: the number of training pairs.
        shared_letters: the overlap of the two sides' letters, 0 to 1.
        characters: the number of frequent characters, of the side that has more; they fill at most half of
            the vocabulary.
    """
    fitting = next(size for size in SIZES if pairs <= size.pairs)
    vocab_size = max(fitting.vocab_size, 2 * characters)
    # one of each width: of several, that for the most pairs
    smaller = {size.d_model: size for size in SIZES if size.d_model < fitting.d_model}
    for size in (fitting, *(smaller[width] for width in sorted(smaller, reverse=True))):
        yield Proposal(size=size, joint=shared_letters >= MIN_SHARED_LETTERS, vocab_size=vocab_size)


def fitted_to_time(draft: Proposal, speed: Speed, pairs: int, minutes: float) -> Proposal:
    """`draft` with the updates that fit into `minutes`: `MIN_STEPS` or more, at most its size's epochs."""
    updates_per_epoch = pairs * speed.target_tokens_per_pair / speed.target_tokens_per_update
    seconds_per_update = speed.target_tokens_per_update / speed.target_tokens_per_second
    affordable = 60 * minutes * (1 - RESERVED) / seconds_per_update
    steps = _rounded_down(max(float(MIN_STEPS), min(affordable, draft.size.epochs * updates_per_epoch)))
    seconds = steps * seconds_per_update / (1 - RESERVED)
    return replace(
        draft, max_steps=steps, minutes=seconds / 60, epochs=steps / updates_per_epoch, threads=speed.threads
    )


def is_trained_enough(proposal: Proposal, speed: Speed) -> bool:
    """True if the model sees enough tokens for its size; else a smaller one is better after the same time."""
    tokens = proposal.max_steps * speed.target_tokens_per_update
    return tokens >= proposal.parameters * MIN_TOKENS_PER_PARAMETER


def _rounded_down(value: float) -> int:
    """`value` rounded down to two significant digits: 12,345 -> 12,000."""
    unit = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return int(value // unit * unit)
