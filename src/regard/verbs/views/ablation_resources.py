"""Resources of ablation and attribution."""

from dataclasses import asdict
from functools import cache, partial

from regard.inspection.ablation import ablations
from regard.inspection.attribution import (
    MOST_MISSING_NATS,
    MOST_MISSING_SHARE,
    POINTS,
    Attribution,
    Method,
    attributions,
)
from regard.models.build import count_parameters
from regard.models.encoder_only import EncoderOnly
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction, to_array

HEAD_NAMES_WITH_PROBABILITIES = ("classification", "tokens", "masked_language_model")
METHODS: tuple[Method, ...] = ("gradient", "integrated")
NOTE = (
    "How much each input token raises each token of the answer: the gradient of its log-probability (nats)"
    " times the embedding, at the embedding itself or averaged over the path from zero to it. Such numbers"
    " do not show how tokens that work together share the credit."
)


def ablation_resources(recorded: RecordedPass) -> dict[str, ResourceFunction]:
    """`ablation`, `attribution` and others that begin so, if the answer has a probability."""
    model = recorded.model
    if isinstance(model, EncoderOnly) and model.config.head not in HEAD_NAMES_WITH_PROBABILITIES:
        return {}
    found: dict[str, ResourceFunction] = {"ablation": lambda: asdict(ablations(recorded.run.forced))}
    if recorded.run.image is not None:  # attribution needs token embeddings
        return found

    @cache  # two resources are of one computation
    def of_method(method: Method) -> Attribution:
        return attributions(recorded.run.forced, method=method)

    return found | {
        "attribution": partial(_attribution, recorded),
        **{
            f"attribution/{method}": lambda method=method: to_array(of_method(method).values)
            for method in METHODS
        },
        "attribution/missing": lambda: _missing(of_method("integrated")),
    }


def operation_counts(recorded: RecordedPass) -> dict[str, float]:
    """Rough numbers of operations for the slow resources, by path.

    A forward pass takes 2 operations for each parameter and token, a backward pass twice as many.
    """
    run, model = recorded.run, recorded.model
    tokens = sum(len(sequence.ids) for name, sequence in run.sequences.items() if name != "written")
    answers = len(_answer_positions(recorded) or [0])
    forward = 2.0 * count_parameters(model) * tokens
    heads = sum(site.num_heads for site in recorded.sites.values())
    gradient = 3 * forward * answers
    return {
        "ablation": forward * (heads + 4 * len(recorded.blocks) + tokens),
        "attribution/gradient": gradient,
        "attribution/integrated": gradient * POINTS,
        "attribution/missing": gradient * POINTS,
    }


def _attribution(recorded: RecordedPass) -> Resource:
    columns = next(name for name in ("source", "text", "read") if name in recorded.run.sequences)
    return {
        "columns": columns,
        "rows": _answer_positions(recorded),
        "methods": list(METHODS),
        "most_missing": {"share": MOST_MISSING_SHARE, "nats": MOST_MISSING_NATS},
        "note": NOTE,
    }


def _answer_positions(recorded: RecordedPass) -> list[int] | None:
    """The positions of the answer in the written tokens or the text; None for one class of a whole text."""
    rows = recorded.run.forced.answer_rows
    if rows is None and recorded.writes:
        rows = range(len(recorded.run.sequences["written"].ids))
    return None if rows is None else list(rows)


def _missing(integrated: Attribution) -> Resource:
    assert integrated.missing is not None
    return to_array(integrated.missing)
