"""Translation settings that `regard new` proposes for a corpus and a time: vocabulary, model, updates.

Sizes up to 100,000 pairs come from the experiments in docs/log.md (2026-11-23) and docs/recipes-by-size.md;
larger ones were run at one size only. tests/verbs/proposals/test_plan.py compares a published recipe with its
proposal.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from regard.data.corpus import Pair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.verbs.proposals.run_plan import RunPlan, RunSettings, fitted_to_time
from regard.verbs.proposals.training_speed import Speed, measure_speed, timed_pairs

MIN_SHARED_LETTERS = 0.5  # with less overlap, source and target have vocabularies of their own
DROPOUT = (  # (epochs at most, dropout): with more epochs a model overfits more
    (8, 0.1),
    (25, 0.2),
    (math.inf, 0.3),
)
MIN_TOKENS_PER_PARAMETER = 2.0  # target tokens of all epochs; with fewer a smaller model is better


@dataclass(frozen=True, kw_only=True)
class ModelSize(RunSettings):
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
class Proposal(RunPlan):
    """The tokeniser, model and training settings of a new recipe."""

    size: ModelSize
    joint: bool  # one vocabulary for both sides
    vocab_size: int  # of each vocabulary

    @property
    def settings(self) -> ModelSize:
        return self.size

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
    timed = timed_pairs(sample)
    for draft in candidates:
        tokenizers = train_tokenizers(
            timed, TokenizerSettings(vocab_size=draft.vocab_size, joint=draft.joint)
        )
        size = draft.vocab_size
        config = EncoderDecoderConfig.from_table(draft.model, src_vocab_size=size, tgt_vocab_size=size)
        model = build_model(config, seed=1)
        speed = measure_speed(model, tokenizers, draft.size.batch_tokens, timed, device, threads)
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


def is_trained_enough(proposal: Proposal, speed: Speed) -> bool:
    """True if the model sees enough tokens for its size; else a smaller one is better after the same time."""
    tokens = proposal.max_steps * speed.target_tokens_per_update
    return tokens >= proposal.parameters * MIN_TOKENS_PER_PARAMETER
