"""The summary of a look: the model, the sequences, the answer, what else can be seen."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.models.build import count_parameters
from regard.verbs.looking.alignment_resources import alignment_of
from regard.verbs.looking.inspected_run import InspectedRun
from regard.verbs.looking.prediction_resources import kept
from regard.verbs.looking.recorded_pass import RecordedPass

FORMAT = 1


def summary_of(watched: RecordedPass, resources: list[str], slow: list[str]) -> dict[str, Any]:
    run = watched.run
    vocabulary = {"vocab_size": watched.logits.size(-1), "kept": kept(watched)} if watched.writes else None
    return {
        "format": FORMAT,
        "model": {
            "name": name_of(run.loaded.path),
            "kind": run.loaded.config.kind,
            "parameters": count_parameters(watched.model),
            "d_model": run.loaded.config.d_model,
        },
        "sequences": {name: sequence.to_dict() for name, sequence in run.sequences.items()},
        "text": run.request.text,
        "request": run.request.to_dict(),
        "image": image_of(run),
        "answer": run.answer,
        "attentions": [asdict(place) for place in watched.places.values()],
        "alignment": alignment_of(watched),
        "logits": vocabulary,
        "changes": run.request.changes.to_dict(),
        "resources": resources,
        "slow": slow,  # those of them that take long
    }


def image_of(run: InspectedRun) -> dict[str, Any] | None:
    """How the image was cut into patches, where the model read one."""
    if run.image is None:
        return None
    rows, columns = run.image.grid
    return {
        "rows": rows,
        "columns": columns,
        "patch_size": run.image.patch_size,
        "before": run.image.before,
    }


def name_of(path: Path) -> str:
    """What a model is called: its folder, or the run that the folder is of."""
    inside = path.name.startswith("step-") or path.name in ("best", "checkpoints")
    return name_of(path.parent) if inside and path.parent.name else path.name
