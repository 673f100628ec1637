"""Load: a model from a regard or Hugging Face folder, with its config, tokenisers and labels."""

from dataclasses import dataclass, fields
from functools import cached_property

from regard.models.build import count_parameters
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.box import USES
from regard.verbs.look import Changes, Look, Looker
from regard.weights.model_folder import LoadedModel


@dataclass(frozen=True, kw_only=True)
class Loaded(LoadedModel):
    """A model that every verb takes as its `model`, with a method to look at what it does."""

    def __repr__(self) -> str:
        """The kind, size, device, folder and use of the model."""
        use = USES.get(self.config.kind, "").partition(":")[0]
        return (
            f"<Loaded: {self.config.kind}, {count_parameters(self.model):,} parameters,"
            f" on {self.model.device}, {self.path}{use and f'; it {use}'}>"
        )

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
        """What the model does with a text; a notebook displays the result. See `regard.look`."""
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


@checked
def load(model: AnyModel | None = None, *, device: str = "auto", threads: int | None = None) -> Loaded:
    """Load the model of a model folder, a run folder, or a Hugging Face folder of a known family.

    Every verb takes the result as its `model`.

    Args:
        model: a folder; None is the included model.
        device: "cpu", "cuda" or "mps"; "auto" is a GPU if there is one.
        threads: CPU threads; None is PyTorch's default.

    Raises:
        FolderError: a file is missing or damaged, or the family is unknown.
    """
    loaded = open_model(model, device, threads)
    if isinstance(loaded, Loaded):
        return loaded
    return Loaded(**{each.name: getattr(loaded, each.name) for each in fields(LoadedModel)})
