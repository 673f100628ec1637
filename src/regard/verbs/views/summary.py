"""The summary of a look: the model, the sequences, the answer, what else can be seen."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.models.build import count_parameters
from regard.verbs.views.alignment_resources import alignment_summary
from regard.verbs.views.inspected_run import InspectedRun
from regard.verbs.views.prediction_resources import num_kept_logits
from regard.verbs.views.recorded_pass import RecordedPass

FORMAT = 1


def make_summary(watched: RecordedPass, resources: list[str], slow: list[str]) -> dict[str, Any]:
    run = watched.run
    vocabulary = (
        {"vocab_size": watched.logits.size(-1), "kept": num_kept_logits(watched)} if watched.writes else None
    )
    return {
        "format": FORMAT,
        "model": {
            "name": model_name(run.loaded.path),
            "kind": run.loaded.config.kind,
            "parameters": count_parameters(watched.model),
            "d_model": run.loaded.config.d_model,
        },
        "sequences": {name: sequence.to_dict() for name, sequence in run.sequences.items()},
        "text": run.request.text,
        "request": run.request.to_dict(),
        "image": image_summary(run),
        "answer": run.answer,
        "attentions": [asdict(place) for place in watched.places.values()],
        "alignment": alignment_summary(watched),
        "logits": vocabulary,
        "changes": run.request.changes.to_dict(),
        "resources": resources,
        "slow": slow,  # those of them that take long
    }


def image_summary(run: InspectedRun) -> dict[str, Any] | None:
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


def model_name(path: Path) -> str:
    """What a model is called: its folder, or the run that the folder is of."""
    inside = path.name.startswith("step-") or path.name in ("best", "checkpoints")
    return model_name(path.parent) if inside and path.parent.name else path.name
