"""What mattered: the answer without each head, layer and token; attributions."""

from dataclasses import asdict
from functools import partial

from regard.inspection.ablation import ablations
from regard.inspection.attribution import Method, attributions
from regard.models.encoder_only import EncoderOnly
from regard.verbs.looking.watched import Maker, Resource, Watched, array

SURE = ("classification", "tokens", "masked_language_model")  # heads whose answer has a probability
METHODS: tuple[Method, ...] = ("gradient", "integrated")
NOTE = (
    "How much each token read speaks for each token of the answer: the gradient of its log-probability (nats)"
    " times the embedding, at the embedding itself or in the mean over the way from zero to it. Tokens that"
    " work together share the credit in ways that no such number shows."
)


def changes(watched: Watched) -> dict[str, Maker]:
    model = watched.model
    if isinstance(model, EncoderOnly) and model.config.head not in SURE:
        return {}
    found: dict[str, Maker] = {
        "ablation": partial(_ablation, watched),
        "attribution": partial(_attribution, watched),
    }
    return found | {f"attribution/{method}": partial(_attributed, watched, method) for method in METHODS}


def _ablation(watched: Watched) -> Resource:
    return asdict(ablations(watched.run.forced))


def _attribution(watched: Watched) -> Resource:
    columns = next(name for name in ("source", "text", "read") if name in watched.run.sequences)
    return {"columns": columns, "methods": list(METHODS), "note": NOTE}


def _attributed(watched: Watched, method: Method) -> Resource:
    return array(attributions(watched.run.forced, method=method).values)
