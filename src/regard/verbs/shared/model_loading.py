"""Loading a model by path or name."""

import difflib
import os
import shlex
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import TypeVar

import torch

from regard import console
from regard.decoding.pool import one_thread
from regard.errors import FolderError
from regard.models.config import ModelConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.model import Model
from regard.verbs.shared.included_models import included_model, included_models
from regard.verbs.shared.unfinished_run import unfinished
from regard.weights.folder import MANIFEST, find_folder
from regard.weights.huggingface_files import is_huggingface
from regard.weights.model_folder import LoadedModel, load_model, read_config_class

MODEL_USES = {  # kind of model -> what it does, and the command
    "encoder_decoder": "translates: `regard translate --model {path}`",
    "recurrent": "translates: `regard translate --model {path}`",
    "decoder_only": "generates text: `regard generate --model {path}`",
    "gat": "labels nodes of a graph: `regard classify --model {path} --input GRAPH.npz`",
    "graph_transformer": "labels nodes of a graph: `regard classify --model {path} --input GRAPH.npz`",
    "vision": "labels images: `regard classify --model {path} FILE`",
    "image_text": "compares texts and images: `regard embed --model {path}`, with --images FILE too, or"
    " `regard classify --model {path} FILE --label TEXT`",
    "translation_metric": "scores translations: `regard evaluate --metric {path}`",
    "conformer": "transcribes recordings: `regard transcribe --model {path} FILE`",
    "speech_to_text": "transcribes speech: `regard transcribe --model {path} FILE.wav`",
}
HEAD_USES = {  # head of an encoder -> what the model does, and the command
    "classification": "classifies texts: `regard classify --model {path}`",
    "regression": "predicts a number for texts: `regard classify --model {path}`",
    "tokens": "labels words: `regard tag --model {path}`",
    "masked_language_model": "predicts masked tokens: `regard fill --model {path}`",
    "replaced_tokens": "detects replaced tokens, for which there is no command",
    "span": "answers questions with a part of a text, for which there is no command",
    "none": "gives vectors of texts: `regard embed --model {path}`",
    "pooled": "gives vectors of texts: `regard embed --model {path}`",
}
Expected = TypeVar("Expected", bound=Model)


def use_of(loaded: LoadedModel) -> str:
    """What the model does, after "it", and the command for it."""
    config = loaded.config
    uses = (
        HEAD_USES.get(config.head) if isinstance(config, EncoderOnlyConfig) else MODEL_USES.get(config.kind)
    )
    return (uses or "has another use").format(path=loaded.path)


def model_path(model: str | Path, base: Path = Path()) -> Path:
    """The folder that `model` names: a path relative to `base`, or else an included model.

    Raises:
        FolderError: there is no such path and no such included model.
    """
    if not str(model):
        raise FolderError("the model is an empty text", "name a model folder, or an included model")
    path = base / Path(model).expanduser()
    if find_folder(path) is not None or os.path.exists(path):
        return path
    known = included_models()
    if str(model) in known:
        return included_model(str(model))
    hint = "name a model folder" + "".join(f", or {name}, an included model" for name in known)
    near = difflib.get_close_matches(str(model), known, n=1, cutoff=0.7)
    raise FolderError(
        f"{path} does not exist", f"did you mean {near[0]!r}, an included model?" if near else hint
    )


def load_named_model(model: str | Path | None, device: torch.device) -> LoadedModel:
    """Load a model from a regard or Hugging Face folder, or an included model by name (None: en-de)."""
    # Threads wait for each other at each of many small tensors, for seconds on a busy machine. Another thread
    # of the program, which begins to compute meanwhile, would keep this number.
    with one_thread() if threading.active_count() == 1 else nullcontext():
        return _loaded(model, device)


def _loaded(model: str | Path | None, device: torch.device) -> LoadedModel:
    path = model_path(model) if model is not None else included_model()
    if where := unfinished(path):
        console.note(where)
    if not is_huggingface(path):
        _refuse_toolkit(path)
        loaded = load_model(path, device)
        _warn_of_symmetric_alibi(loaded)
        return loaded
    from regard.weights.pretrained import load_pretrained  # all families, for which others need not wait

    pretrained = load_pretrained(path, device)
    if pretrained.unused_decoding:
        console.warn(
            f"{path}: unsupported decoding defaults are ignored: {', '.join(pretrained.unused_decoding)}"
        )
    return pretrained.loaded


def _refuse_toolkit(path: Path) -> None:
    """Raise a FolderError for a checkpoint of another toolkit, which `regard convert` reads."""
    if (path / MANIFEST).is_file() or any(find_folder(path / part) for part in ("best", "checkpoints")):
        return
    from regard.weights.toolkits.load import toolkit_of  # 0.1 s, which other folders need not wait for

    if (toolkit := toolkit_of(path)) is not None:
        raise FolderError(
            f"{path} is a checkpoint of {toolkit.title}",
            f"convert it first: regard convert {shlex.quote(str(path))} --out DIR",
        )


def _warn_of_symmetric_alibi(loaded: LoadedModel) -> None:
    """Warn if the encoder's ALiBi is symmetric, so that its states do not depend on the tokens' direction."""
    config = loaded.config
    if not isinstance(config, EncoderOnlyConfig | EncoderDecoderConfig) or config.positions != "alibi":
        return
    if config.alibi == "symmetric":
        console.warn(
            f"{loaded.path}: its encoder cannot distinguish a text from its reverse, since its ALiBi is"
            " symmetric. Train it again; alibi = 'directed' is the default now"
        )


def config_class_of(model: str | Path) -> type[ModelConfig]:
    """The config class of the model in a regard or Hugging Face folder; reads no weights."""
    path = model_path(model)
    if not is_huggingface(path):
        return read_config_class(path)
    from regard.weights.pretrained import huggingface_config_class

    return huggingface_config_class(path)


def model_that(does: str, kind: type[Expected], loaded: LoadedModel) -> Expected:
    """The loaded model, if it is of class `kind`; `does` ("translates") names the use in the message.

    Raises:
        FolderError: it is of another class; the hint names its use.
    """
    if isinstance(loaded.model, kind):
        return loaded.model
    raise FolderError(f"{loaded.path}: this is not a model that {does}", f"it {use_of(loaded)}")
