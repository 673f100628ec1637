"""The summary of a look: the model, the sequences, the answer, and the paths of the other resources."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.models.build import count_parameters
from regard.verbs.views.alignment_resources import alignment_summary
from regard.verbs.views.inspected_run import InspectedRun
from regard.verbs.views.prediction_resources import num_kept_logits
from regard.verbs.views.recorded_pass import RecordedPass

FORMAT = 1  # of all resources of a look


def make_summary(recorded: RecordedPass, resources: list[str], slow: list[str]) -> dict[str, Any]:
    """The resource `summary`."""
    run = recorded.run
    logits = None
    if recorded.writes:
        logits = {"vocab_size": recorded.logits.size(-1), "kept": num_kept_logits(recorded)}
    return {
        "format": FORMAT,
        "model": {
            "name": _model_name(run.loaded.path.resolve()),
            "kind": run.loaded.config.kind,
            "parameters": count_parameters(recorded.model),
            "d_model": run.loaded.config.d_model,
        },
        "sequences": {name: sequence.to_dict() for name, sequence in run.sequences.items()},
        "text": run.request.text,
        "request": run.request.to_dict(),
        "image": _image_summary(run),
        "answer": run.answer,
        "attentions": [asdict(site) for site in recorded.shown_sites],
        "without_weights": [
            {**asdict(recorded.sites[name]), "why": why} for name, why in recorded.no_weights.items()
        ],
        "alignment": alignment_summary(recorded),
        "logits": logits,
        "changes": run.request.changes.to_dict(),
        "resources": resources,
        "slow": slow,  # the resources that take long
    }


def _image_summary(run: InspectedRun) -> dict[str, Any] | None:
    """The grid of patches of an image; None if the model read a text."""
    if run.image is None:
        return None
    rows, columns = run.image.grid
    return {
        "rows": rows,
        "columns": columns,
        "patch_size": run.image.patch_size,
        "before": run.image.before,
    }


def _model_name(path: Path) -> str:
    """The name of a model's folder, or of the run folder that it is in."""
    in_run = path.name.startswith("step-") or path.name in ("best", "checkpoints")
    return _model_name(path.parent) if in_run and path.parent.name else path.name
