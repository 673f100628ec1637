"""What there is to see of the model itself: positions, neighbours of tokens, modules."""

from dataclasses import asdict
from functools import partial
from typing import Any

from regard.inspection.architecture import architecture
from regard.inspection.neighbours import neighbours
from regard.inspection.positional import Positional, positional
from regard.verbs.views.inspected_run import InspectedImage, InspectedRun
from regard.verbs.views.pieces import pieces
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction, to_array

POSITIONS = 64  # that are shown of a shorter text, so that there are waves to see


def model_resources(watched: RecordedPass) -> dict[str, ResourceFunction]:
    """Positions are of the encoder, where there is one."""
    found: dict[str, ResourceFunction] = {"architecture": partial(_architecture, watched)}
    if watched.run.image is None:
        found["neighbours"] = partial(_neighbours, watched.run)
    else:
        found["image"] = partial(_image, watched.run.image)
    if not watched.has_keys:
        return found
    found["positions"] = partial(_positions, watched)
    config = watched.run.loaded.config
    scheme = getattr(config, "positions", "none")
    if scheme in ("sinusoidal", "learned", "rotary"):
        for part in ("table", "similarity"):
            found[f"positions/{part}"] = partial(_position_part, watched, part)
    elif scheme in ("alibi", "t5"):
        found["positions/bias"] = partial(_position_part, watched, "bias")
    return found


def _image(image: InspectedImage) -> Resource:
    return image.pixels


def _of_model(watched: RecordedPass) -> Positional:
    longest = max(len(sequence.ids) for sequence in watched.run.sequences.values())
    return positional(watched.model, max(POSITIONS, longest))


def _positions(watched: RecordedPass) -> Resource:
    found = _of_model(watched)
    return {"scheme": found.scheme, "length": found.length, "d": found.d, "note": found.note}


def _position_part(watched: RecordedPass, part: str) -> Resource:
    return to_array(getattr(_of_model(watched), part))


def _neighbours(run: InspectedRun) -> Resource:
    found: dict[str, Any] = {}
    for name, rows in neighbours(run.forced).items():
        tokenizer = run.tokenizer_of(name)
        found[name] = [
            [
                {"id": each.id, "token": token, "cosine": round(each.cosine, 4)}
                for each, token in zip(row, pieces(tokenizer, [each.id for each in row]), strict=True)
            ]
            for row in rows
        ]
    return found


def _architecture(watched: RecordedPass) -> Resource:
    return asdict(architecture(watched.run.forced))
