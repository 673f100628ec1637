"""The decoding defaults of a model that an export does not apply, listed in its README.md."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from regard.decoding.continuation import ContinuationSettings
from regard.decoding.settings import GenerationSettings
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.model_folder import LoadedModel

# they change nothing without sampling, or only the time that a search takes, or are for warnings
WITHOUT_EFFECT = frozenset({
    "n_best", "seed", "temperature", "top_k", "top_p", "min_p", "typical_p", "mbr_samples",
    "tags", "prompt_lookup", "draft_model", "draft_tokens", "heuristic_stopping", "early_stopping",
})  # fmt: skip
# of most models, and of little effect on an output: README.md alone names them
USUAL = frozenset({
    "max_length", "max_length_ratio", "max_length_offset", "max_new_tokens", "length_penalty", "alpha",
    "lower_capitals", "split_above",
})  # fmt: skip
UNAPPLIED = "unapplied_defaults"  # of a certificate
# values with which a control changes nothing, besides None, 0, False and ()
NEUTRAL = {"length_penalty": "power", "alpha": 1.0, "repetition_penalty": 1.0}


def unapplied_defaults(loaded: LoadedModel, applied: Collection[str]) -> dict[str, Any]:
    """The defaults that change outputs, without those in `applied`.

    Every engine ranks hypotheses by the mean log-probability of a token, so that is not listed.
    """
    kind = GenerationSettings if isinstance(loaded.config, EncoderDecoderConfig) else ContinuationSettings
    usual = {field.name: field.default for field in dataclasses.fields(kind)}
    known = {*applied, *WITHOUT_EFFECT}
    return {
        name: value
        for name, value in {**usual, **loaded.generation}.items()
        if name not in known and value and value != NEUTRAL.get(name)
    }


def unapplied_warning(certificate: Mapping[str, Any]) -> str:
    """A warning of the unapplied defaults in a certificate, such as rules and a search; empty without one."""
    unapplied: Mapping[str, Any] = certificate.get(UNAPPLIED, {})
    found = [f"{name} = {value!r}" for name, value in unapplied.items() if name not in USUAL]
    if not found:
        return ""
    return (
        f"warning: the export does not apply these decoding defaults of the model: {', '.join(found)};"
        " the certificate compares outputs without them"
    )


def unapplied_line(loaded: LoadedModel, applied: Collection[str], who: str) -> str:
    """A paragraph of Markdown that lists the unapplied defaults; empty if there are none."""
    found = [f"`{name} = {value!r}`" for name, value in unapplied_defaults(loaded, applied).items()]
    if not found:
        return ""
    return f"\n{who} not apply these decoding defaults of the model: {', '.join(found)}.\n"
