"""The repr of what keeps a loaded model: its kind, size, device and folder."""

from regard.models.build import count_parameters
from regard.weights.model_folder import LoadedModel


def model_in_words(loaded: LoadedModel) -> str:
    """The kind, size, device and folder of a model."""
    size = f"{count_parameters(loaded.model):,} parameters"
    return f"{loaded.config.kind}, {size}, on {loaded.model.device}, {loaded.path}"


class ShowsModel:
    """A base class whose repr names the class and the model in `loaded`."""

    loaded: LoadedModel

    def __repr__(self) -> str:
        """The class, and the kind, size, device and folder of its model."""
        return f"<{type(self).__name__}: {model_in_words(self.loaded)}>"
