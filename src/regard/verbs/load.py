"""Load: a model from a folder, regard's own or another's, with its config, tokenisers and labels."""

from dataclasses import dataclass, fields
from functools import cached_property

from regard.models.build import count_parameters
from regard.verbs import box
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.controls import MODEL_BEAM, BeamSize
from regard.verbs.keyword_fields import keyword_fields
from regard.verbs.look import Changes, Look, Looker
from regard.verbs.runtime import RUNTIME, Runtime
from regard.weights.model_folder import LoadedModel


@dataclass(frozen=True, kw_only=True)
class Loaded(LoadedModel):
    """A model ready to be used, and to be looked at: every verb takes it as its `model`."""

    def __repr__(self) -> str:
        """Its kind, size, device and folder, and what it does; the weights are in `model`."""
        use = box.USES.get(self.config.kind, "").partition(":")[0]
        return (
            f"<Loaded: {self.config.kind}, {count_parameters(self.model):,} parameters,"
            f" on {self.model.device}, {self.path}{use and f'; it {use}'}>"
        )

    @keyword_fields
    def look(
        self,
        text: str,
        *,
        target: str | None = None,
        prefix: str | None = None,
        beam: BeamSize = MODEL_BEAM,
        max_new_tokens: int | None = None,
        changes: Changes | None = None,
    ) -> Look:
        """What it does with a text; in a notebook the look shows itself. See `regard.look`."""
        return self._looker.look(
            text,
            target=target,
            prefix=prefix,
            beam=beam,
            max_new_tokens=max_new_tokens,
            changes=changes,
        )

    @cached_property
    def _looker(self) -> Looker:
        return Looker(self)


@checked
@keyword_fields
def load(model: AnyModel | None = None, *, runtime: Runtime = RUNTIME) -> Loaded:
    """The model of a model folder, of a run folder, or of a Hugging Face folder of a known family, read once.

    Every verb takes what this gives as its `model`.

    Args:
        model: a folder; the model in the box without.

    Raises:
        FolderError: a file is missing or damaged, or the family is unknown.
    """
    found = open_model(model, runtime)
    if isinstance(found, Loaded):
        return found
    return Loaded(**{each.name: getattr(found, each.name) for each in fields(LoadedModel)})
