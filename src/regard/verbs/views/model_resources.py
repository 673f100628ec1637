"""Resources of the model itself: positions, nearest neighbours of tokens, architecture; and the image."""

from dataclasses import asdict
from functools import partial
from typing import Any

from regard.inspection.architecture import architecture_of
from regard.inspection.neighbours import nearest_neighbours
from regard.inspection.positional import Positional, positions_of
from regard.models.registered import POSITIONS
from regard.verbs.views.inspected_run import InspectedImage, InspectedRun
from regard.verbs.views.pieces import pieces
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction, to_array

MIN_POSITIONS = 64  # shown for short texts too, so that waves are visible


def model_resources(recorded: RecordedPass) -> dict[str, ResourceFunction]:
    """`architecture`, `neighbours` or `image`, and `positions`, which are the encoder's if there is one."""
    found: dict[str, ResourceFunction] = {"architecture": partial(_architecture, recorded)}
    if recorded.run.image is None:
        found["neighbours"] = partial(_neighbours, recorded.run)
    else:
        found["image"] = partial(_image, recorded.run.image)
    if not recorded.has_keys:
        return found
    found["positions"] = partial(_positions, recorded)
    where = POSITIONS[getattr(recorded.run.loaded.config, "positions", "none")].where
    if where in ("input", "queries_and_keys"):
        for part in ("table", "similarity"):
            found[f"positions/{part}"] = partial(_position_part, recorded, part)
    elif where == "scores":
        found["positions/bias"] = partial(_position_part, recorded, "bias")
    return found


def _image(image: InspectedImage) -> Resource:
    return image.pixels


def _positional(recorded: RecordedPass) -> Positional:
    longest = max(len(sequence.ids) for sequence in recorded.run.sequences.values())
    return positions_of(recorded.model, max(MIN_POSITIONS, longest))


def _positions(recorded: RecordedPass) -> Resource:
    found = _positional(recorded)
    return {"scheme": found.scheme, "length": found.length, "d": found.d, "note": found.note}


def _position_part(recorded: RecordedPass, part: str) -> Resource:
    return to_array(getattr(_positional(recorded), part))


def _neighbours(run: InspectedRun) -> Resource:
    found: dict[str, Any] = {}
    for name, rows in nearest_neighbours(run.forced).items():
        tokenizer = run.tokenizer_of(name)
        found[name] = [
            [
                {"id": each.id, "token": token, "cosine": round(each.cosine, 4)}
                for each, token in zip(row, pieces(tokenizer, [each.id for each in row]), strict=True)
            ]
            for row in rows
        ]
    return found


def _architecture(recorded: RecordedPass) -> Resource:
    return asdict(architecture_of(recorded.run.forced))
