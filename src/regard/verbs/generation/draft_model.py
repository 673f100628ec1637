"""The draft model of speculative decoding: a smaller model that proposes tokens."""

import torch

from regard.decoding.controls import Controls
from regard.decoding.prompt_stepper import prompt_stepper
from regard.decoding.speculative import Drafter, DraftModel
from regard.decoding.step import ModelStepper
from regard.errors import FolderError
from regard.models.decoder_only import DecoderOnly
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.shared.model_loading import load_named_model
from regard.weights.model_folder import LoadedModel


def drafter_of(
    settings: Controls, loaded: LoadedModel, device: torch.device, begin: tuple[int, ...]
) -> Drafter | None:
    """The draft model of these settings, if any; `begin`: the tokens before a text.

    Raises:
        FolderError: it is of another kind than the model, or has another vocabulary.
    """
    if settings.draft_model is None:
        return None
    draft = load_named_model(settings.draft_model, device)
    draft.model.eval()
    if draft.tokenizers.digest() != loaded.tokenizers.digest():
        raise FolderError(
            f"draft_model = {settings.draft_model}: its tokens are not those of {loaded.path}",
            "train it with the tokeniser of the larger model",
        )
    if isinstance(draft.model, DecoderOnly) and isinstance(loaded.model, DecoderOnly):
        return DraftModel(prompt_stepper(draft.model), begin)
    if isinstance(draft.model, SequenceToSequence) and isinstance(loaded.model, SequenceToSequence):
        return DraftModel(ModelStepper(draft.model), begin)
    raise FolderError(
        f"draft_model = {settings.draft_model}: it is of another kind than {loaded.path}",
        "name a smaller model of the same kind",
    )
