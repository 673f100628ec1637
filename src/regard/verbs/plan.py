"""What size of model, vocabulary and run a corpus of so many pairs asks for."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tier:
    """What did well for corpora up to this size."""

    pairs: float
    preset: str
    vocab_size: int
    batch_tokens: int
    learning_rate: float
    warmup_steps: int
    epochs: int
    norm_position: str = "post"


TIERS = (  # the second is recipes/multi30k-en-de
    Tier(
        pairs=5e3,
        preset="tiny",
        vocab_size=2000,
        batch_tokens=1024,
        learning_rate=0.002,
        warmup_steps=200,
        epochs=60,
    ),
    Tier(
        pairs=1e5,
        preset="tiny",
        vocab_size=10000,
        batch_tokens=4096,
        learning_rate=0.0035,
        warmup_steps=1000,
        epochs=50,
    ),
    Tier(
        pairs=5e5,
        preset="small",
        vocab_size=8000,
        batch_tokens=4096,
        learning_rate=0.002,
        warmup_steps=1000,
        epochs=20,
        norm_position="pre",
    ),
    Tier(
        pairs=4e6,
        preset="medium",
        vocab_size=16000,
        batch_tokens=8192,
        learning_rate=0.0007,
        warmup_steps=4000,
        epochs=15,
    ),
    Tier(
        pairs=float("inf"),
        preset="base",
        vocab_size=32000,
        batch_tokens=25000,
        learning_rate=0.0007,
        warmup_steps=4000,
        epochs=10,
    ),
)
STEPS = 1000.0, 100_000.0  # fewest and most updates


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The proposal that a new recipe makes."""

    tier: Tier
    joint: bool  # one vocabulary for both sides
    max_steps: int
    validate_every: int

    @property
    def warmup_steps(self) -> int:
        return min(self.tier.warmup_steps, self.max_steps // 5)


def plan_for(pairs: int, target_tokens: float, shared_letters: float) -> Plan:
    """Sizes for so many pairs; sides that share less than half of their letters get a vocabulary each."""
    tier = next(tier for tier in TIERS if pairs <= tier.pairs)
    steps = _round(min(max(tier.epochs * target_tokens / tier.batch_tokens, STEPS[0]), STEPS[1]))
    return Plan(tier=tier, joint=shared_letters >= 0.5, max_steps=steps, validate_every=_round(steps / 20))


def _round(value: float) -> int:
    """To two digits."""
    return int(float(f"{value:.1e}"))
