"""All controls together: which combinations are refused, and what a request resets.

PyTorch is not imported here, so that `--help` is quick.
"""

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from regard.decoding.control import LARGEST, MOST_CHARACTERS, Control, controls_of
from regard.decoding.control_fields import (
    BEAM_CONTROLS,
    OWN_SEARCH_CONTROLS,
    SAMPLING_CONTROLS,
    SEARCH_CONTROLS,
    TEXTS,
    BeamControls,
    BeamSize,
    RegisteredControls,
    SamplingControls,
    TextControls,
)
from regard.decoding.registries import RULES, SEARCHES, controls_taken
from regard.errors import ConfigError

Settings = TypeVar("Settings", bound="Controls")


@dataclass(frozen=True, kw_only=True)
class Controls(RegisteredControls, TextControls, SamplingControls, BeamControls):
    """A request to decoding. None (or an empty tuple) leaves a control to the model.

    Texts (`ban`, `boost`, `must_contain`, `stop`) are tokenised by the model's tokeniser.
    """

    samples_by_default: ClassVar[bool | None] = None  # None: only the model's own settings can tell

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(token < 0 for token in self.end_ids):
            raise ConfigError(f"end_ids = {min(self.end_ids)} is not a token", "token ids begin at 0")
        texts = tuple(map(str, self.ban_ids))
        for ids in texts:
            banned_ids(ids)
        object.__setattr__(self, "ban_ids", texts)
        for name in TEXTS:
            if any(not text for text in getattr(self, name)):
                raise ConfigError(f"{name} has an empty text", f"leave it out of {name}")
            if any("\0" in text for text in getattr(self, name)):
                raise ConfigError(f"{name} has a NUL character", f"leave it out of {name}")
            if any(len(text) > MOST_CHARACTERS for text in getattr(self, name)):
                raise ConfigError(
                    f"{name} has a text of more than {MOST_CHARACTERS:,} characters", "shorten it"
                )
        self._refuse_unknown_names()
        if self.search is None:
            self._refuse_other_searches()
        else:
            self._refuse_not_taken(self.search)
        self._refuse_pairs()

    def is_set(self, name: str) -> bool:
        """True if this control has a value that changes something."""
        value = getattr(self, name)
        return value is not None and value != () and value != CONTROLS_BY_NAME[name].neutral

    def number(self, name: str) -> float | None:
        """The value of this control, a number, if it changes something."""
        return getattr(self, name) if self.is_set(name) else None

    @property
    def size(self) -> int | None:
        """The hypotheses of a beam; None if no search was asked for."""
        return self.beam_size or None

    @property
    def samples(self) -> bool | None:
        """True if tokens are sampled, False if searched; None if only the model can tell."""
        return self._samples()[0]

    @property
    def takes_beam_size(self) -> bool:
        """True unless a registered search without a field for it is set."""
        return self.search is None or "beam_size" in controls_taken(self.search)

    def _samples(self) -> tuple[bool | None, str]:
        """`samples`, and the control that decides it, for messages."""
        if self.search is not None:
            return False, f"search = {self.search!r} is set"
        if self.sample is False:
            return False, "sample is not set" if self.samples_by_default is False else "sample is false"
        if self.temperature == 0:
            return False, "temperature = 0 takes the most probable token"
        if self.sample:
            return True, "sample is set"
        if self.beam_size:
            return False, f"beam_size = {self.beam_size} searches"
        return self.samples_by_default, "the model samples by default"

    def _refuse_unknown_names(self) -> None:
        """Raise a ConfigError for the name of a rule or a search that is not registered."""
        for name in self.rules:
            if name not in RULES:
                raise ConfigError(f"rules: no decoding rule is registered as {name!r}", RULES.hint(name))
        if self.search is not None and self.search not in SEARCHES:
            hint = SEARCHES.hint(self.search)
            if self.samples_by_default is None:  # a request, not the settings of a model
                hint += "; beam_size and sample choose among regard's own searches"
            raise ConfigError(f"search: no search is registered as {self.search!r}", hint)

    def _refuse_not_taken(self, search: str) -> None:
        """Raise a ConfigError for a control of searches that the registered one has no field for."""
        for name in _not_taken(search):
            value = getattr(self, name)
            if value not in (None, (), CONTROLS_BY_NAME[name].neutral, getattr(type(self), name)):
                raise ConfigError(
                    f"{name} = {value} is set, but the search {search!r} does not take it",
                    f"leave out {name}, or search",
                )

    def _refuse_other_searches(self) -> None:
        """Raise a ConfigError for a control of another kind of search than this one."""
        samples, why = self._samples()
        for name in filter(self.is_set, SAMPLING_CONTROLS):
            value = getattr(self, name)
            if samples is False and (name, value) != ("temperature", 0):
                hint = "leave one of them out" if "not set" not in why else f"set sample, or leave out {name}"
                raise ConfigError(f"{name} = {value} is for sampling, but {why}", hint)
        for name in filter(self.is_set, BEAM_CONTROLS):
            value = getattr(self, name)
            if samples:
                raise ConfigError(f"{name} = {value} is for a beam, but {why}", f"{BEAM} would search")
            if self.beam_size is None and self.samples_by_default is None:
                continue
            if self.width == 1:
                size = "is not set" if self.beam_size is None else f"= {self.beam_size} is greedy"
                raise ConfigError(f"{name} = {value} is for a beam, but beam_size {size}", BEAM)

    def _refuse_pairs(self) -> None:
        """Raise a ConfigError for two controls that contradict each other, or one that lacks another."""
        for one, other, why in self._contradictions():
            both = f"{one} = {getattr(self, one)} and {other} = {getattr(self, other)}"
            raise ConfigError(f"{both} do not go together: {why}", "leave one of them out")
        for name, needed in NEEDS.items():
            if self.search is None and self.is_set(name) and not any(self.is_set(each) for each in needed):
                others = " or ".join(needed)
                raise ConfigError(
                    f"{name} = {getattr(self, name)} needs {others}, which is not set",
                    f"set {others}, or leave out {name}",
                )

    def _contradictions(self) -> list[tuple[str, str, str]]:
        """Pairs of controls that contradict each other, and why."""
        found = self._contradictions_of_searches() if self.search is None else []
        if self.min_new_tokens and self.max_new_tokens and self.min_new_tokens > self.max_new_tokens:
            found.append(("min_new_tokens", "max_new_tokens", "the least is more than the greatest"))
        if {text for each in self.must_contain for text in each.split("|")} & {*self.ban}:
            found.append(("must_contain", "ban", "the same text is required and banned"))
        if {boosted(each)[0] for each in self.boost} & {*self.ban}:
            found.append(("boost", "ban", "the same text is boosted and banned"))
        return found

    def _contradictions_of_searches(self) -> list[tuple[str, str, str]]:
        """The contradictions among controls of regard's own searches."""
        found = [pair for pair in EXCLUDE if self.is_set(pair[0]) and self.is_set(pair[1])]
        if self.sample and self.temperature == 0:
            found.append(("sample", "temperature", "temperature 0 samples nothing"))
        if self.samples_by_default is None and self.sample and self.beam_size:
            found.append(("sample", "beam_size", "a beam does not sample"))
        if not self.samples_by_default and self.temperature == 0 and self.width > 1:
            found.append(("temperature", "beam_size", "temperature 0 takes the most probable token"))
        if self.beam_size and self.beam_size % (self.beam_groups or 1):
            found.append(("beam_groups", "beam_size", "all groups have the same size"))
        for name in ("prompt_lookup", "draft_model"):
            if self.is_set(name) and not self.samples and self.width > 1:
                found.append((name, "beam_size", "a beam cannot verify proposed tokens"))
        return found

    def changed(self: Settings, overrides: "Controls") -> Settings:
        """These settings with the overrides. A search that is asked for resets the controls of the others."""
        changes = self._resets(overrides)
        if overrides.max_new_tokens is not None and (self.min_new_tokens or 0) > overrides.max_new_tokens:
            changes["min_new_tokens"] = 0
        asked = {name: getattr(overrides, name) for name in CONTROLS_BY_NAME}
        changes |= {name: value for name, value in asked.items() if value not in (None, ())}
        changed = dataclasses.replace(self, **changes)
        if overrides.alpha is not None:
            changed.refuse_unused_alpha()
        return changed

    def refuse_unused_alpha(self) -> None:
        """Raise a ConfigError if there is no length penalty that `alpha`, which was set, could belong to."""
        if self.search is None and self.length_penalty in (None, "none"):
            state = "is not set" if self.length_penalty is None else "is 'none'"
            raise ConfigError(
                f"alpha = {self.alpha} needs length_penalty, which {state}",
                "set length_penalty to 'power' or 'wu', or leave out alpha",
            )

    def _resets(self, overrides: "Controls") -> dict[str, Any]:
        """The controls of other searches than the one that the overrides ask for, at their defaults."""
        if overrides.search is not None:
            return {name: getattr(type(self), name) for name in _not_taken(overrides.search)}
        if self.search is None:
            return self._resets_of_own(overrides)
        wider = overrides.width > 1 and not self.takes_beam_size
        if overrides.sample or overrides.temperature == 0 or overrides.beam_size == 1 or wider:
            return {"search": None} | self._resets_of_own(overrides)
        return {}

    def _resets_of_own(self, overrides: "Controls") -> dict[str, Any]:
        """As `_resets`, if the overrides ask for one of regard's own searches, or for none."""
        changes: dict[str, Any] = {}
        greedy = overrides.temperature == 0 or overrides.beam_size == 1
        if overrides.sample is False or overrides.beam_size or greedy:
            changes |= _neutral(SAMPLING_CONTROLS) | {"sample": type(self).sample}
        if overrides.sample:
            changes |= {"beam_size": 0} if self.samples_by_default else {}
            changes |= {} if self.temperature else {"temperature": 1.0}
        if overrides.temperature == 0:
            changes["beam_size"] = 1
        if overrides.sample or greedy:
            changes |= _neutral(BEAM_CONTROLS)
        if overrides.width > 1 or overrides.draft_model:
            changes |= {"prompt_lookup": 0}
        if overrides.width > 1 or overrides.prompt_lookup:
            changes |= {"draft_model": None, "draft_tokens": None}
        if overrides.early_stopping or overrides.is_set("beam_groups") or overrides.must_contain:
            changes["heuristic_stopping"] = False
        if overrides.heuristic_stopping:
            changes["early_stopping"] = False
        return changes

    def requiring(self: Settings, texts: tuple[str, ...], beam: BeamSize | None = None) -> Settings:
        """These controls with `must_contain`, and another beam if one is given."""
        return self.with_(must_contain=texts, **({} if beam is None else {"beam_size": beam.width}))

    def to_dict(self) -> dict[str, Any]:
        """The keys of generation.json: what is set."""
        found = dataclasses.asdict(self)
        return {name: value for name, value in found.items() if value is not None and value != ()}

    def with_(self: Settings, **changes: Any) -> Settings:
        """These settings with other values."""
        return dataclasses.replace(self, **changes)


BEAM = "beam_size = 4 (--beam-size 4)"  # a hint
TOKEN_ID = re.compile("[0-9]{1,11}")  # no vocabulary has numbers of more digits
CONTROLS_BY_NAME: dict[str, Control] = controls_of(Controls)
NEEDS = {
    "diversity": ("beam_groups",),
    "beam_groups": ("diversity",),
    "draft_tokens": ("draft_model",),
    "mbr_samples": ("mbr",),
}
EXCLUDE = [
    ("must_contain", "beam_groups", "groups take no required texts"),
    ("prompt_lookup", "draft_model", "both propose tokens"),
    ("early_stopping", "heuristic_stopping", "they stop a beam at different times"),
    ("heuristic_stopping", "beam_groups", "groups stop one by one"),
    ("heuristic_stopping", "must_contain", "a required text may come late"),
]


def controls_with(beam: BeamSize) -> Controls:
    """Controls that set this size and nothing else."""
    return Controls(beam_size=beam.beam_size)


def boosted(text: str) -> tuple[str, float]:
    """The text and the strength of TEXT=X.

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


def banned_ids(text: str) -> tuple[int, ...]:
    """The tokens of a text of `ban_ids`.

    Raises:
        ConfigError: it has something else than numbers of tokens, or nothing.
    """
    words = text.split()
    if not words or not all(map(TOKEN_ID.fullmatch, words)):
        raise ConfigError(f"ban_ids = {text!r}: these are no numbers of tokens", "ban_ids = '17 4'")
    return tuple(map(int, words))


def _not_taken(search: str) -> list[str]:
    """The controls of searches that a registered one does not take."""
    taken = controls_taken(search) - OWN_SEARCH_CONTROLS
    return [name for name in SEARCH_CONTROLS if name not in taken]


def _neutral(names: list[str]) -> dict[str, Any]:
    """The values that switch these controls off."""
    return {name: () if name == "must_contain" else CONTROLS_BY_NAME[name].neutral for name in names}
