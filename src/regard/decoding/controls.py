"""The controls of decoding, each declared once: its name, what it may be, and what it goes with.

The keys of `[decoding]` and of generation.json, the keywords of the Python calls and the options of the
command line are all made of this table. PyTorch is not imported here, so that `--help` is quick.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from regard.errors import ConfigError

Settings = TypeVar("Settings", bound="Controls")

MOST_HYPOTHESES = 1000  # of one text, in a beam or drawn: 0.4 GB and 12 s for four words on one core
MOST_TOKENS = 100_000  # that one text is given: the caches of a large model then fill tens of gigabytes
MOST_IDS = 10**9  # no vocabulary has as many
MOST_CHARACTERS = 5000  # of a text that is asked for, banned, ...: it becomes tokens before decoding begins
INTEGERS = 2**63  # beyond them PyTorch has none
LARGEST, SMALLEST = 1000, 1e-6  # factors beyond these leave the range of float32, and tokens become chance


@dataclass(frozen=True, kw_only=True)
class Control:
    """What is known of a control besides its type.

    `neutral` is the value that asks for nothing, and is always allowed. What is of a `kind` of search needs
    that search.
    """

    help: str
    metavar: str = "N"
    neutral: Any = None
    least: int | float | None = None
    smallest: float | None = None  # of what is more than `least`
    most: int | float | None = None
    kind: Literal["", "sampling", "beam"] = ""

    def refuse(self, name: str, value: Any, usual: Any) -> None:
        """Raise a ConfigError if the value is out of range."""
        hint = f"{name} = {usual} would do"
        if isinstance(value, int) and not -INTEGERS <= value < INTEGERS:
            raise ConfigError(f"{name} is an integer of {value.bit_length():,} bits, but may have 64", hint)
        if not math.isfinite(value):
            raise ConfigError(f"{name} is {value}, but must be a finite number", hint)
        if self.least is not None and self.smallest is not None and self.least < value < self.smallest:
            least = f"{self.least} or at least {self.smallest:g}"
            raise ConfigError(f"{name} is {value}, but must be {least}", hint)
        if self.least is not None and value < self.least:
            raise ConfigError(f"{name} is {value}, but must be at least {self.least:g}", hint)
        if self.most is not None and value > self.most:
            raise ConfigError(f"{name} is {value}, but must be at most {self.most:,}", hint)


def _control(help: str, default: Any = None, **facts: Any) -> Any:
    return dataclasses.field(default=default, metadata={"control": Control(help=help, **facts), "help": help})


@dataclass(frozen=True, kw_only=True)
class Controls:
    """What is asked of decoding; None (or an empty tuple) asks for nothing, and leaves it to the model.

    Texts (`ban`, `boost`, `must_contain`, `stop`) become tokens as the model's tokeniser writes them.
    """

    sample: bool | None = _control("Sample at random, or search. [default: the model's own]")
    beam_size: int | None = _control(
        "Search with that many hypotheses; 1 is greedy. [default: the model's own]",
        least=0,
        most=MOST_HYPOTHESES,
    )
    length_penalty: Literal["wu", "power", "none"] | None = _control(
        "A score is the log-probability by ((5 + length) / 6)^A, by length^A, or by 1."
    )
    alpha: float | None = _control("The A of the length penalty.", metavar="A", least=0, most=10)
    early_stopping: bool | None = _control(
        "End a beam when as many hypotheses as its size have ended.", neutral=False, kind="beam"
    )
    heuristic_stopping: bool | None = _control(
        "End a beam when, at its present length, its best scores below the worst of as many that ended.",
        neutral=False,
        kind="beam",
    )
    beam_groups: int | None = _control(
        "Part the beam into that many groups that avoid each other's tokens.",
        neutral=1,
        least=1,
        most=MOST_HYPOTHESES,
        kind="beam",
    )
    diversity: float | None = _control(
        "What a token costs a group for each earlier group's hypothesis that takes it.",
        metavar="X",
        neutral=0.0,
        least=0,
        most=LARGEST,
        kind="beam",
    )
    must_contain: tuple[str, ...] = _control(
        "Say this, or one of several with | between them.", (), metavar="TEXT", kind="beam"
    )
    temperature: float | None = _control(
        "Below 1 the likely is likelier; 0 takes the likeliest.",
        metavar="T",
        neutral=1.0,
        least=0,
        smallest=SMALLEST,
        most=LARGEST,
        kind="sampling",
    )
    top_k: int | None = _control(
        "Draw from the K likeliest tokens; 0 from all.",
        metavar="K",
        neutral=0,
        least=0,
        most=MOST_IDS,
        kind="sampling",
    )
    top_p: float | None = _control(
        "Draw from the likeliest that hold the probability P.",
        metavar="P",
        neutral=1.0,
        least=SMALLEST,
        most=1,
        kind="sampling",
    )
    min_p: float | None = _control(
        "Draw from those at least P times as likely as the likeliest.",
        metavar="P",
        neutral=0.0,
        least=0,
        most=1,
        kind="sampling",
    )
    typical_p: float | None = _control(
        "Draw from the tokens of most typical information that hold the probability P.",
        metavar="P",
        neutral=1.0,
        least=SMALLEST,
        most=1,
        kind="sampling",
    )
    seed: int | None = _control(
        "Another one draws another text. [default: 0]", metavar="S", neutral=0, kind="sampling"
    )
    repetition_penalty: float | None = _control(
        "Above 1: what the text or its prompt has is less likely (CTRL's).",
        metavar="X",
        neutral=1.0,
        least=SMALLEST,
        most=LARGEST,
    )
    presence_penalty: float | None = _control(
        "Taken from the logit of each token that was said.",
        metavar="X",
        neutral=0.0,
        least=-LARGEST,
        most=LARGEST,
    )
    frequency_penalty: float | None = _control(
        "The same as often as it was said.", metavar="X", neutral=0.0, least=-LARGEST, most=LARGEST
    )
    no_repeat_ngram_size: int | None = _control(
        "Say no N tokens in the same order twice; 0 allows it.", neutral=0, least=0, most=MOST_TOKENS
    )
    no_repeat_source_ngram_size: int | None = _control(
        "Say no N tokens in the order in which the source has them.", neutral=0, least=0, most=MOST_TOKENS
    )
    ban: tuple[str, ...] = _control("Never say this.", (), metavar="TEXT")
    boost: tuple[str, ...] = _control(
        "Add X to the logits of this (below 0: take away).", (), metavar="TEXT=X"
    )
    min_new_tokens: int | None = _control(
        "No end before that many tokens.", neutral=0, least=0, most=MOST_TOKENS
    )
    max_new_tokens: int | None = _control(
        "Tokens at most. [default: the model's own]", least=1, most=MOST_TOKENS
    )
    max_context: int | None = _control(
        "A language model sees at most the last N tokens; 0: all. [default: as many as it was trained on]",
        least=0,
        most=MOST_TOKENS,
    )
    stop: tuple[str, ...] = _control("End before this text, which is not shown.", (), metavar="TEXT")
    end_ids: tuple[int, ...] = _control("Another token (its number) that ends a text.", (), metavar="ID")
    prompt_lookup: int | None = _control(
        "Guess that many tokens from the text so far and read them at once; the answer stays the same.",
        neutral=0,
        least=0,
        most=MOST_HYPOTHESES,
    )
    draft_model: str | None = _control(
        "Guess tokens by this smaller model and read them at once; the answer stays the same.", metavar="DIR"
    )
    draft_tokens: int | None = _control(
        "How many the smaller model guesses. [default: 4]", least=1, most=MOST_HYPOTHESES
    )
    mbr: Literal["chrf", "bleu"] | None = _control(
        "Of many samples take that which is most like the others.", kind="sampling"
    )
    mbr_samples: int | None = _control(
        "How many samples. [default: 32]", least=2, most=MOST_HYPOTHESES, kind="sampling"
    )

    draws_unless_told: ClassVar[bool | None] = None  # None: not known yet

    def __post_init__(self) -> None:
        for name, value in self._numbers().items():
            CONTROLS[name].refuse(name, value, usual=_usual(type(self), name))
        if any(token < 0 for token in self.end_ids):
            raise ConfigError(f"end_ids = {min(self.end_ids)} is no token", "tokens are counted from 0")
        for name in TEXTS:
            if any(not text for text in getattr(self, name)):
                raise ConfigError(f"{name} has an empty text", f"leave it out of {name}")
            if any(len(text) > MOST_CHARACTERS for text in getattr(self, name)):
                raise ConfigError(
                    f"{name} has a text of more than {MOST_CHARACTERS:,} characters", "shorten it"
                )
        self._refuse_wrong_search()
        self._refuse_pairs()

    def asks(self, name: str) -> bool:
        """Whether this control is given a value that changes something."""
        value = getattr(self, name)
        return value is not None and value != () and value != CONTROLS[name].neutral

    @property
    def draws(self) -> bool | None:
        """Whether tokens are drawn; None where only the model can say."""
        return self._draws()[0]

    def _draws(self) -> tuple[bool | None, str]:
        """That, and the control that says so."""
        if self.sample is False:
            return False, "sample is not set" if self.draws_unless_told is False else "sample is false"
        if self.temperature == 0:
            return False, "temperature = 0 takes the likeliest token"
        if self.sample:
            return True, "sample is set"
        if self.beam_size:
            return False, f"beam_size = {self.beam_size} searches"
        return self.draws_unless_told, "sample is set by the model"

    def _numbers(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in CONTROLS}
        return {name: value for name, value in found.items() if isinstance(value, int | float)}

    def _refuse_wrong_search(self) -> None:
        """Raise a ConfigError for a control of another search than this one, naming both."""
        draws, why = self._draws()
        for name in (name for name in CONTROLS if self.asks(name)):
            kind, value = CONTROLS[name].kind, getattr(self, name)
            if kind == "sampling" and draws is False and (name, value) != ("temperature", 0):
                hint = "leave one of them out" if "not set" not in why else f"set sample, or leave out {name}"
                raise ConfigError(f"{name} = {value} is for drawing, but {why}", hint)
            if kind == "beam" and draws:
                raise ConfigError(f"{name} = {value} is for a beam, but {why}", "beam_size = 4 would search")
            if kind == "beam" and not self._may_be_a_beam():
                size = "is not set" if self.beam_size is None else f"= {self.beam_size} is greedy"
                raise ConfigError(f"{name} = {value} is for a beam, but beam_size {size}", "beam_size = 4")

    def _may_be_a_beam(self) -> bool:
        if self.beam_size is None:
            return self.draws_unless_told is None
        return self.beam_size > 1

    def _refuse_pairs(self) -> None:
        """Raise a ConfigError for two controls that contradict each other, or one that lacks another."""
        for one, other, why in self._at_odds():
            both = f"{one} = {getattr(self, one)} and {other} = {getattr(self, other)}"
            raise ConfigError(f"{both} do not go together: {why}", "leave one of them out")
        for name, needed in NEEDS.items():
            if self.asks(name) and not any(self.asks(each) for each in needed):
                others = " or ".join(needed)
                raise ConfigError(
                    f"{name} = {getattr(self, name)} needs {others}, which is not set",
                    f"set {others}, or leave out {name}",
                )

    def _at_odds(self) -> list[tuple[str, str, str]]:
        """Pairs that contradict each other, and why."""
        found = [pair for pair in EXCLUDE if self.asks(pair[0]) and self.asks(pair[1])]
        if self.min_new_tokens and self.max_new_tokens and self.min_new_tokens > self.max_new_tokens:
            found.append(("min_new_tokens", "max_new_tokens", "the least is more than the most"))
        groups, size = self.beam_groups or 1, self.beam_size
        if self.sample and self.temperature == 0:
            found.append(("sample", "temperature", "at 0 nothing is drawn"))
        if self.draws_unless_told is None and self.sample and size:
            found.append(("sample", "beam_size", "a beam draws nothing"))
        if not self.draws_unless_told and self.temperature == 0 and (size or 0) > 1:
            found.append(("temperature", "beam_size", "at 0 the likeliest token is taken"))
        if size and size % groups:
            found.append(("beam_groups", "beam_size", "all groups have the same size"))
        for name in ("prompt_lookup", "draft_model"):
            if self.asks(name) and not self.draws and (size or 0) > 1:
                found.append((name, "beam_size", "a beam guesses nothing"))
        said = {text for each in self.must_contain for text in each.split("|")}
        if said & {*self.ban}:
            found.append(("must_contain", "ban", "what must be said is banned"))
        if {boosted(each)[0] for each in self.boost} & {*self.ban}:
            found.append(("boost", "ban", "what is banned is never said"))
        return found

    def changed(self: Settings, given: "Controls") -> Settings:
        """These with what is given: a search that is asked for rules out what was set for others."""
        changes: dict[str, Any] = {}
        greedy = given.temperature == 0 or given.beam_size == 1
        if given.sample is False or given.beam_size or greedy:
            changes |= _neutral("sampling") | {"sample": None if self.draws_unless_told else False}
        if given.sample:
            changes |= {"beam_size": 0} if self.draws_unless_told else {}
            changes |= {} if self.temperature else {"temperature": 1.0}
        if given.temperature == 0:
            changes["beam_size"] = 1
        if given.sample or greedy:
            changes |= _neutral("beam")
        if (given.beam_size or 0) > 1 or given.draft_model:
            changes |= {"prompt_lookup": 0}
        if (given.beam_size or 0) > 1 or given.prompt_lookup:
            changes |= {"draft_model": None, "draft_tokens": None}
        if given.early_stopping or given.asks("beam_groups") or given.must_contain:
            changes["heuristic_stopping"] = False
        if given.heuristic_stopping:
            changes["early_stopping"] = False
        given_names = [name for name in CONTROLS if getattr(given, name) not in (None, ())]
        if given.max_new_tokens is not None and (self.min_new_tokens or 0) > given.max_new_tokens:
            changes["min_new_tokens"] = 0
        return dataclasses.replace(self, **changes | {name: getattr(given, name) for name in given_names})

    def to_dict(self) -> dict[str, Any]:
        """What generation.json holds: what is set."""
        found = dataclasses.asdict(self)
        return {name: value for name, value in found.items() if value is not None and value != ()}

    def with_(self: Settings, **changes: Any) -> Settings:
        """The same with other values."""
        return dataclasses.replace(self, **changes)


CONTROLS: dict[str, Control] = {
    field.name: field.metadata["control"] for field in dataclasses.fields(Controls)
}
TEXTS = ("must_contain", "ban", "boost", "stop")
NEEDS = {
    "diversity": ("beam_groups",),
    "beam_groups": ("diversity",),
    "draft_tokens": ("draft_model",),
    "mbr_samples": ("mbr",),
}
EXCLUDE = [
    ("must_contain", "beam_groups", "groups look for no words"),
    ("prompt_lookup", "draft_model", "one of them guesses"),
    ("early_stopping", "heuristic_stopping", "they end a beam at different times"),
    ("heuristic_stopping", "beam_groups", "groups end by themselves"),
    ("heuristic_stopping", "must_contain", "what must be said may come late"),
]


def boosted(text: str) -> tuple[str, float]:
    """WORD=X taken apart.

    Raises:
        ConfigError: it is not of that form.
    """
    word, equals, strength = text.rpartition("=")
    try:
        if not (word and equals and abs(float(strength)) <= LARGEST):
            raise ValueError
        return word, float(strength)
    except ValueError:
        raise ConfigError(
            f"boost = {text!r} is not of the form TEXT=X, X from -{LARGEST} to {LARGEST}", "boost = Paris=2.5"
        ) from None


def _usual(cls: type[Controls], name: str) -> Any:
    """A value that would do: the default, or the least that is allowed."""
    default = getattr(cls, name)
    control = CONTROLS[name]
    if default is not None:
        return default
    return control.neutral if control.neutral is not None else control.least


def _neutral(kind: str) -> dict[str, Any]:
    """What asks for nothing of a kind of search."""
    return {
        name: () if name == "must_contain" else control.neutral
        for name, control in CONTROLS.items()
        if control.kind == kind
    }
