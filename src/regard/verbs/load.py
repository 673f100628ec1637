"""Load: a model from a regard or Hugging Face folder, with its config, tokenisers and labels."""

from dataclasses import dataclass, fields
from functools import cached_property

from regard.verbs.generation.controls import MODEL_BEAM, BeamSize
from regard.verbs.look import Changes, Look, Looker
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.model_loading import use_of
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.shows_model import model_in_words
from regard.weights.model_folder import LoadedModel


@dataclass(frozen=True, kw_only=True)
class Loaded(LoadedModel):
    """A model that every verb takes as its `model`, with a method to look at what it does."""

    def __repr__(self) -> str:
        """The kind, size, device, folder and use of the model."""
        use = use_of(self).partition(":")[0]
        return f"<Loaded: {model_in_words(self)}; it {use}>"

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
        """What the model does with a text; a notebook displays the result. See `regard.look`."""
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
def load(model: AnyModel | None = None, *, runtime: Runtime = DEFAULT_RUNTIME) -> Loaded:
    """Load the model of a model folder, a run folder, or a Hugging Face folder of a known family.

    Every verb takes the result as its `model`.

    Args:
        model: a folder; None is the included model.

    Raises:
        FolderError: a file is missing or damaged, or the family is unknown.
    """
    loaded = open_model(model, runtime)
    if isinstance(loaded, Loaded):
        return loaded
    return Loaded(**{each.name: getattr(loaded, each.name) for each in fields(LoadedModel)})
