"""The controls of decoding, each declared once, in one class for each kind of search.

The keys of `[decoding]` and generation.json, the keywords of the Python calls and the command-line options
are derived from these classes. PyTorch is not imported here, so that `--help` is quick.
"""

from dataclasses import dataclass
from typing import Literal

from regard.decoding.control import (
    LARGEST,
    MOST_HYPOTHESES,
    MOST_IDS,
    MOST_TOKENS,
    SMALLEST,
    bounded,
    control,
    controls_of,
    refuse_out_of_range,
)
from regard.errors import ConfigError
from regard.recipe import check_types


@dataclass(frozen=True, kw_only=True)
class BeamSize:
    """How many hypotheses a search keeps. None, and 0 in files, leave it to the model."""

    beam_size: int | None = control(
        "Search with that many hypotheses; 1 is greedy. [default: the model's own]",
        neutral=0,
        least=1,
        most=MOST_HYPOTHESES,
        unit="hypotheses",
    )

    def __post_init__(self) -> None:
        refuse_out_of_range(self)
        check_types(self, kind=ConfigError)

    @property
    def width(self) -> int:
        """How many hypotheses are kept: 1 where nothing is set."""
        return self.beam_size or 1

    @property
    def has_beam(self) -> bool:
        """True if a size is set, even to 0."""
        return self.beam_size is not None

    @property
    def or_greedy(self) -> "Beam":
        """This beam; greedy search where nothing is set."""
        return Beam(beam_size=self.width)


@dataclass(frozen=True, kw_only=True)
class Beam(BeamSize):
    """How many hypotheses a search keeps; 1 is greedy."""

    beam_size: int = bounded(1, least=1, most=MOST_HYPOTHESES, unit="hypotheses")


def beam_of(size: int | None) -> BeamSize:
    """A beam of this size."""
    return BeamSize(beam_size=size)


@dataclass(frozen=True, kw_only=True)
class BeamControls(BeamSize):
    """The controls of beam search."""

    early_stopping: bool | None = control(
        "Stop a beam when as many hypotheses as its size have finished.", neutral=False
    )
    heuristic_stopping: bool | None = control(
        "Stop a beam when as many have finished, and the best of the others, at its present length, scores"
        " below the worst of them.",
        neutral=False,
    )
    beam_groups: int | None = control(
        "Split the beam into that many groups that avoid each other's tokens.",
        neutral=1,
        least=1,
        most=MOST_HYPOTHESES,
    )
    diversity: float | None = control(
        "The penalty of a token for each hypothesis of an earlier group that takes it.",
        metavar="X",
        neutral=0.0,
        least=0,
        most=LARGEST,
    )
    must_contain: tuple[str, ...] = control(
        "Force this text, or one of several with | between them.", (), metavar="TEXT"
    )


@dataclass(frozen=True, kw_only=True)
class SamplingControls:
    """The controls of sampling."""

    sample: bool | None = control("Sample at random, or search. [default: the model's own]")
    temperature: float | None = control(
        "Below 1 probable tokens become more probable; 0 takes the most probable.",
        metavar="T",
        neutral=1.0,
        least=0,
        smallest=SMALLEST,
        most=LARGEST,
    )
    top_k: int | None = control(
        "Sample from the K most probable tokens; 0: from all.", metavar="K", neutral=0, least=0, most=MOST_IDS
    )
    top_p: float | None = control(
        "Sample from the most probable tokens whose probabilities add up to P.",
        metavar="P",
        neutral=1.0,
        least=SMALLEST,
        most=1,
    )
    min_p: float | None = control(
        "Sample from the tokens at least P times as probable as the most probable.",
        metavar="P",
        neutral=0.0,
        least=0,
        most=1,
    )
    typical_p: float | None = control(
        "Sample from the tokens of most typical information whose probabilities add up to P.",
        metavar="P",
        neutral=1.0,
        least=SMALLEST,
        most=1,
    )
    seed: int | None = control("The seed of the samples. [default: 0]", metavar="S", neutral=0)
    mbr: Literal["chrf", "bleu"] | None = control(
        "Of many samples take the one most similar to the others (minimum Bayes risk)."
    )
    mbr_samples: int | None = control(
        "How many samples for minimum Bayes risk. [default: 32]",
        least=2,
        most=MOST_HYPOTHESES,
        unit="hypotheses",
    )


@dataclass(frozen=True, kw_only=True)
class TextControls:
    """The controls of every search: scores, penalties, required and forbidden tokens, where a text ends."""

    length_penalty: Literal["wu", "power", "none"] | None = control(
        "Divide a log-probability by ((5 + length) / 6)^A, by length^A, or by 1."
    )
    alpha: float | None = control("The A of the length penalty.", metavar="A", least=0, most=10)
    repetition_penalty: float | None = control(
        "Above 1: tokens of the text or its prompt become less likely (as in CTRL).",
        metavar="X",
        neutral=1.0,
        least=SMALLEST,
        most=LARGEST,
    )
    presence_penalty: float | None = control(
        "Subtract X from the logit of each token in the output.",
        metavar="X",
        neutral=0.0,
        least=-LARGEST,
        most=LARGEST,
    )
    frequency_penalty: float | None = control(
        "Subtract X from the logit of a token for each time that it is in the output.",
        metavar="X",
        neutral=0.0,
        least=-LARGEST,
        most=LARGEST,
    )
    no_repeat_ngram_size: int | None = control(
        "Never repeat N tokens in the same order; 0 allows it.", neutral=0, least=0, most=MOST_TOKENS
    )
    no_repeat_source_ngram_size: int | None = control(
        "Never copy N tokens of the source in the same order; 0 allows it.",
        neutral=0,
        least=0,
        most=MOST_TOKENS,
    )
    ban: tuple[str, ...] = control(
        "Never output this text as words of their own, however cut into tokens; longer words may contain it.",
        (),
        metavar="TEXT",
    )
    ban_ids: tuple[str | int, ...] = control(
        "Never output these tokens (their numbers, with spaces between) one after another.", (), metavar="IDS"
    )
    boost: tuple[str, ...] = control(
        "Add X to the logits of this text (below 0: subtract).", (), metavar="TEXT=X"
    )
    min_new_tokens: int | None = control(
        "The least number of new tokens.", neutral=0, least=0, most=MOST_TOKENS, unit="tokens"
    )
    max_new_tokens: int | None = control(
        "The greatest number of new tokens. [default: the model's own]",
        least=1,
        most=MOST_TOKENS,
        unit="tokens",
    )
    max_context: int | None = control(
        "A language model reads at most the last N tokens; 0: all. [default: as many as it was trained on]",
        least=0,
        most=MOST_TOKENS,
    )
    stop: tuple[str, ...] = control("Stop before this text.", (), metavar="TEXT")
    end_ids: tuple[int, ...] = control("Another token (its number) that ends a text.", (), metavar="ID")
    prompt_lookup: int | None = control(
        "Propose N tokens from the text so far and verify them in one step; the output stays the same.",
        neutral=0,
        least=0,
        most=MOST_HYPOTHESES,
    )
    draft_model: str | None = control(
        "Propose tokens by this smaller model and verify them in one step; the output stays the same.",
        metavar="DIR",
    )
    draft_tokens: int | None = control(
        "How many tokens the draft model proposes. [default: 4]", least=1, most=MOST_HYPOTHESES
    )


@dataclass(frozen=True, kw_only=True)
class RegisteredControls:
    """The controls that name registered rules and searches (docs/extending.md)."""

    rules: tuple[str, ...] = control("Apply the registered decoding rule of this name.", (), metavar="NAME")
    search: str | None = control(
        "Decode by the registered search of this name. [default: by beam size and sampling]", metavar="NAME"
    )


BEAM_CONTROLS = [name for name in controls_of(BeamControls) if name not in controls_of(BeamSize)]
SAMPLING_CONTROLS = [name for name in controls_of(SamplingControls) if name != "sample"]
DRAFT_CONTROLS = ["prompt_lookup", "draft_model", "draft_tokens"]
SEARCH_CONTROLS = ["beam_size", *BEAM_CONTROLS, "sample", *SAMPLING_CONTROLS, *DRAFT_CONTROLS]
OWN_SEARCH_CONTROLS = {"sample", "mbr", "mbr_samples", *DRAFT_CONTROLS}  # no registered search takes them
TEXTS = ("must_contain", "ban", "boost", "stop")
