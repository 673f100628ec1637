"""Load: a model from a folder, regard's own or another's, with its config, tokenisers and labels."""

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

from regard.verbs import box
from regard.verbs.device import choose_device
from regard.verbs.look import Changes, Look, Looker
from regard.weights.model_folder import LoadedModel


@dataclass(frozen=True, kw_only=True)
class Loaded(LoadedModel):
    """A model ready to be used, and to be looked at."""

    def look(
        self,
        text: str,
        *,
        target: str | None = None,
        prefix: str | None = None,
        beam_size: int | None = None,
        max_new_tokens: int | None = None,
        changes: Changes | None = None,
    ) -> Look:
        """What it does with a text; in a notebook the look shows itself. See `regard.look`."""
        return self._looker.look(
            text,
            target=target,
            prefix=prefix,
            beam_size=beam_size,
            max_new_tokens=max_new_tokens,
            changes=changes,
        )

    @cached_property
    def _looker(self) -> Looker:
        return Looker(self)


def load(model: str | Path, *, device: str = "auto", threads: int | None = None) -> Loaded:
    """The model of a model folder, of a run folder, or of a Hugging Face folder of a known family.

    Raises:
        FolderError: a file is missing or damaged, or the family is unknown.
    """
    found = box.load(model, choose_device(device, threads))
    return Loaded(**{each.name: getattr(found, each.name) for each in fields(LoadedModel)})
