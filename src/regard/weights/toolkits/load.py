"""Finds the toolkit of a checkpoint and makes a model of it."""

import shlex
from pathlib import Path

from regard.data.tokenizer import TokenizerPair
from regard.errors import ConfigError, DataError, FolderError
from regard.models.build import build_uninitialised
from regard.weights.model_folder import LoadedModel, check_size
from regard.weights.names import read_names
from regard.weights.pretrained import PretrainedModel
from regard.weights.tensors import model_tensors, restore_model
from regard.weights.toolkits import joeynmt, sockeye
from regard.weights.toolkits.comet import Comet
from regard.weights.toolkits.eole import Eole
from regard.weights.toolkits.fairseq import Fairseq
from regard.weights.toolkits.joeynmt import JoeyNMT
from regard.weights.toolkits.marian import Marian
from regard.weights.toolkits.opennmt import OpenNMT
from regard.weights.toolkits.sockeye import Sockeye
from regard.weights.toolkits.toolkit import Toolkit

TOOLKITS: tuple[Toolkit, ...] = (Marian(), JoeyNMT(), Eole(), Fairseq(), Sockeye(), OpenNMT(), Comet())


PAGE = "docs/do/coming-from-toolkits.md"
# weights, the files that they need, and the toolkit
INCOMPLETE = (
    *((name, ("config.yaml",), JoeyNMT.title) for name in (*joeynmt.CHECKPOINTS, "[0-9]*.ckpt")),
    (sockeye.BEST, (sockeye.CONFIG, "vocab.src.0.json", "vocab.trg.0.json"), Sockeye.title),
)


def toolkit_of(path: Path) -> Toolkit | None:
    """The toolkit that wrote the checkpoint at `path`; None if it is none that regard knows."""
    return next((toolkit for toolkit in TOOLKITS if toolkit.recognises(path)), None)


def refuse_part_of_checkpoint(path: Path) -> None:
    """Raises a FolderError for a file beside a toolkit's weights, and for weights without their settings."""
    folder = path.parent if path.is_file() else path
    if path.is_file() and (toolkit := toolkit_of(folder)) is not None:
        raise FolderError(
            f"{path} is a file of a checkpoint of {toolkit.title}",
            f"give the folder: regard convert {shlex.quote(str(folder))} --out DIR",
        )
    if path.is_file() and path.suffix in (".yaml", ".yml"):
        raise FolderError(
            f"{path} is a YAML file, not a model",
            f"give the folder with its checkpoint: regard convert FOLDER; {PAGE} says how",
        )
    for pattern, files, title in INCOMPLETE:
        missing = [name for name in files if not (folder / name).is_file()]
        if missing and any(folder.glob(pattern)):
            raise FolderError(
                f"{folder} has {pattern}, but no {' and no '.join(missing)}, which a checkpoint of {title}"
                " needs",
                f"copy it there from where the model was trained; {PAGE} says how to convert",
            )


def with_encoder(toolkit: Toolkit | None, encoder: Path) -> Toolkit:
    """The toolkit, whose checkpoints lack their encoder's files, with the folder that has them.

    Raises:
        FolderError: it is another toolkit, or none.
    """
    if not isinstance(toolkit, Comet):
        raise FolderError(
            f"encoder = {encoder}, but this is not a metric of {Comet.title}",
            "such a folder has hparams.yaml and checkpoints/model.ckpt; leave encoder out for others",
        )
    return Comet(encoder)


def load_toolkit(toolkit: Toolkit, path: Path, *, trust_pickle: bool = False) -> PretrainedModel:
    """Loads the model of a toolkit's checkpoint; no code of it is run.

    Raises:
        FolderError: a file is missing or damaged, files do not match, or a setting is not supported.
    """
    try:
        found = toolkit.read(path, trust_pickle=trust_pickle)
    except (ConfigError, DataError) as error:
        raise FolderError(f"{path}: {error.message}", error.hint) from error
    where = str(found.path)
    check_size(found.config, found.tensors, where)
    model = build_uninitialised(found.config)
    shapes = {name: tensor.shape for name, tensor in model_tensors(model).items()}
    restore_model(model, read_names(found.table, found.tensors, shapes, where=where), where)
    joint = found.source is found.target or found.source.to_bytes() == found.target.to_bytes()
    loaded = LoadedModel(
        model=model.eval(),
        config=found.config,
        tokenizer_pair=TokenizerPair(found.source, found.source if joint else found.target),
        labels=(),
        generation=found.generation,
        path=found.path if found.path.is_dir() else found.path.parent,
    )
    return PretrainedModel(
        loaded=loaded, family=toolkit.name, unused=found.unused, unused_decoding=found.unused_decoding
    )
