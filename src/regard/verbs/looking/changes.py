"""What there is to see of what matters: the answer without each head, layer and token; attributions."""

from dataclasses import asdict
from functools import partial

from regard.inspection.ablation import ablations
from regard.models.encoder_only import EncoderOnly
from regard.verbs.looking.watched import Maker, Resource, Watched

SURE = ("classification", "tokens", "masked_language_model", "spans")  # heads whose answer has a probability


def changes(watched: Watched) -> dict[str, Maker]:
    model = watched.model
    if isinstance(model, EncoderOnly) and model.config.head not in SURE:
        return {}
    return {"ablation": partial(_ablation, watched)}


def _ablation(watched: Watched) -> Resource:
    return asdict(ablations(watched.run.forced))
