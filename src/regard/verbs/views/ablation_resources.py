"""What mattered: the answer without each head, layer and token; attributions."""

from dataclasses import asdict
from functools import partial

from regard.inspection.ablation import ablations
from regard.inspection.attribution import POINTS, Method, attributions
from regard.models.build import count_parameters
from regard.models.encoder_only import EncoderOnly
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction, to_array

HEADS_WITH_PROBABILITIES = (
    "classification",
    "tokens",
    "masked_language_model",
)  # heads whose answer has a probability
METHODS: tuple[Method, ...] = ("gradient", "integrated")
NOTE = (
    "How much each token read speaks for each token of the answer: the gradient of its log-probability (nats)"
    " times the embedding, at the embedding itself or in the mean over the way from zero to it. Tokens that"
    " work together share the credit in ways that no such number shows."
)


def ablation_resources(watched: RecordedPass) -> dict[str, ResourceFunction]:
    model = watched.model
    if isinstance(model, EncoderOnly) and model.config.head not in HEADS_WITH_PROBABILITIES:
        return {}
    found: dict[str, ResourceFunction] = {"ablation": partial(_ablation, watched)}
    if watched.run.image is not None:  # attributions are to the embeddings of tokens
        return found
    found["attribution"] = partial(_attribution, watched)
    return found | {f"attribution/{method}": partial(_attributed, watched, method) for method in METHODS}


def operation_counts(watched: RecordedPass) -> dict[str, float]:
    """How many multiplications and additions these take, about.

    A pass takes two of each parameter and token, and as many again twice for its way back.
    """
    run, model = watched.run, watched.model
    tokens = sum(len(sequence.ids) for name, sequence in run.sequences.items() if name != "written")
    answers = len(_places_of_answer(watched) or [0])
    forward = 2.0 * count_parameters(model) * tokens
    heads = sum(place.num_heads for place in watched.places.values())
    gradient = 3 * forward * answers
    return {
        "ablation": forward * (heads + 4 * len(watched.blocks) + tokens),
        "attribution/gradient": gradient,
        "attribution/integrated": gradient * POINTS,
    }


def _ablation(watched: RecordedPass) -> Resource:
    return asdict(ablations(watched.run.forced))


def _attribution(watched: RecordedPass) -> Resource:
    columns = next(name for name in ("source", "text", "read") if name in watched.run.sequences)
    return {
        "columns": columns,
        "rows": _places_of_answer(watched),
        "methods": list(METHODS),
        "note": NOTE,
    }


def _places_of_answer(watched: RecordedPass) -> list[int] | None:
    """The tokens that are the answer, of what was written or of a text; None: one class of all."""
    rows = watched.run.forced.answer_rows
    if rows is None and watched.writes:
        rows = range(len(watched.run.sequences["written"].ids))
    return None if rows is None else list(rows)


def _attributed(watched: RecordedPass, method: Method) -> Resource:
    return to_array(attributions(watched.run.forced, method=method).values)
