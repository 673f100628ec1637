"""COMET (Rei et al. 2020): `checkpoints/model.ckpt` with `hparams.yaml`, and a folder of its encoder.

Settings are those of the checkpoint, as in COMET, which reads two things from `hparams.yaml`: the class, and
`layer_transformation: sparsemax_patch`, by which it says that a metric was trained with softmax, unlike what
its checkpoint has. Another setting that differs between the two is refused.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import ConfigError, FolderError, did_you_mean
from regard.models.encoder import EncoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.translation_metric import ESTIMATOR_ACTIVATIONS, TranslationMetricConfig
from regard.weights.families.bert import XLMRoberta
from regard.weights.families.family import ConfigReader, ConvertedConfig
from regard.weights.huggingface_files import CONFIG, read_table
from regard.weights.huggingface_tokenizer import read_tokenizers
from regard.weights.names import Entry, linear, renamed, same
from regard.weights.pickled import read_pickle, refuse_untrusted
from regard.weights.toolkits.settings import NOTHING, Settings
from regard.weights.toolkits.toolkit import Toolkit, ToolkitCheckpoint, checkpoint_file
from regard.weights.toolkits.yaml_file import read_yaml_table

SETTINGS, CHECKPOINTS = "hparams.yaml", "checkpoints"
PATCHED = "sparsemax_patch"  # softmax
MIXES = {"softmax": "softmax", "sparsemax": "sparsemax", PATCHED: "softmax"}
POOLINGS = {"avg": "mean", "max": "max", "cls": "cls"}
SEGMENTS = {"src": "source", "ref": "reference"}
COMMON_DEFAULTS: Mapping[str, Any] = {  # of all classes, for settings that are absent
    "layer": "mix", "sent_layer": "mix", "layer_norm": True, "pool": "avg", "activations": "Tanh",
    "final_activation": None,
}  # fmt: skip
DEFAULTS: Mapping[str, Mapping[str, Any]] = {  # of a class of COMET, for settings that are absent
    "regression_metric": {"layer_transformation": "softmax", "hidden_sizes": [3072, 1024]},
    "referenceless_regression_metric": {"layer_transformation": "softmax", "hidden_sizes": [2048, 1024]},
    "unified_metric": {"layer_transformation": "sparsemax", "hidden_sizes": [3072, 1024]},
}
OTHER_CLASSES = {
    "xcomet_metric": "its score also depends on error spans, which regard does not find",
    "ranking_metric": "it was trained for ranking alone",
}
OF_THE_SCORE = (  # settings that change it
    "layer", "sent_layer", "layer_transformation", "layer_norm", "pool", "hidden_sizes", "activations",
    "final_activation", "input_segments", "encoder_model",
)  # fmt: skip
OF_TRAINING = (
    "nr_frozen_epochs", "keep_embeddings_frozen", "optimizer", "warmup_steps", "encoder_learning_rate",
    "learning_rate", "layerwise_decay", "loss", "batch_size", "train_data", "validation_data",
    "load_pretrained_weights", "local_files_only", "pretrained_model",
)  # fmt: skip
OF_WORDS = (  # of a second head, for labels of words, which does not change the score
    "word_level_training", "word_layer", "word_weights", "loss_lambda", "error_labels",
    "cross_entropy_weights",
)  # fmt: skip
BUFFERS = (
    "layerwise_attention.dropout_mask", "layerwise_attention.dropout_fill",
    "roberta.embeddings.position_ids", "roberta.embeddings.token_type_ids",
)  # fmt: skip
UNUSED = ("roberta.pooler.", "hidden2tag.", "wordloss.")


class Comet(Toolkit):
    """COMET and COMETKiwi; `encoder` is a folder with the settings and the tokeniser of their encoder."""

    name = "comet"
    title = "COMET"

    def __init__(self, encoder: Path | None = None) -> None:
        self.encoder = encoder

    def recognises(self, path: Path) -> bool:
        folder = _folder(path)
        return (folder / SETTINGS).is_file() and any((folder / CHECKPOINTS).glob("*.ckpt"))

    def read(self, path: Path, *, trust_pickle: bool) -> ToolkitCheckpoint:
        folder = _folder(path)
        file = checkpoint_file(path if path.is_file() else folder / CHECKPOINTS, "*.ckpt", ("model.ckpt",))
        refuse_untrusted(file, trust_pickle=trust_pickle)
        table = read_yaml_table(folder / SETTINGS)
        kind = _class(table, folder / SETTINGS)
        if self.encoder is None:
            raise FolderError(
                f"{folder} has neither the sizes nor the tokeniser of its encoder,"
                f" {table.get('pretrained_model', 'XLM-RoBERTa')}",
                "name a folder with its config.json and tokenizer.json: --encoder DIR",
            )
        tensors, saved = read_pickle(file, self.name)
        settings = _settings(saved, table, kind, file, folder / SETTINGS)
        encoder, converted = _encoder(self.encoder.expanduser())
        config = _config(settings, kind, encoder)
        tokenizers = read_tokenizers(self.encoder.expanduser(), XLMRoberta(), converted)
        if tokenizers is None:
            raise FolderError(f"{self.encoder} has no tokeniser", "copy its tokenizer.json, too")
        tensors, unused = _weights(tensors)
        return ToolkitCheckpoint(
            path=folder,
            config=config,
            table=_table(config, encoder),
            tensors=tensors,
            source=tokenizers.source,
            target=tokenizers.source,
            unused=unused,
        )


def _folder(path: Path) -> Path:
    """The folder with hparams.yaml: `path`, or that of the checkpoint `path`."""
    return path.parent.parent if path.is_file() else path


def _class(table: Mapping[str, Any], where: Path) -> str:
    name = table.get("class_identifier")
    if name not in DEFAULTS:
        hint = OTHER_CLASSES.get(str(name)) or did_you_mean(str(name), DEFAULTS)
        raise FolderError(f"{where}: class_identifier = {name!r} is not supported", hint)
    return str(name)


def _settings(
    saved: Mapping[str, Any], table: Mapping[str, Any], kind: str, file: Path, path: Path
) -> Settings:
    """The settings of the checkpoint; those of hparams.yaml, the file `path`, must be equal."""
    own = saved.get("hyper_parameters")
    if not isinstance(own, dict):
        raise FolderError(f"{file} has no hyper_parameters", "save it again by COMET 2")
    if table.get("layer_transformation") == PATCHED:
        own = {**own, "layer_transformation": PATCHED}
    used = {**COMMON_DEFAULTS, **DEFAULTS[kind], **own}
    for name in OF_THE_SCORE:
        if name in table and name in used and _text(table[name]) != _text(used[name]):
            raise FolderError(
                f"{path}: {name} = {table[name]!r}, but {file.name} has {used[name]!r}",
                "COMET uses that of the checkpoint: correct hparams.yaml",
            )
    known = {*OF_THE_SCORE, *OF_TRAINING, *OF_WORDS, "dropout", "class_identifier"}
    described = Settings({name: value for name, value in table.items() if name not in known}, str(path))
    described.finish()
    settings = Settings({**DEFAULTS[kind], **own}, str(file))
    settings.must_be("class_identifier", kind)
    return settings


def _text(value: Any) -> Any:
    """A value of the checkpoint, or of YAML, as a text that is equal for equal values."""
    if isinstance(value, list):
        return [_text(each) for each in value]
    return "null" if value in NOTHING else str(value).lower()


def _config(settings: Settings, kind: str, encoder: EncoderOnlyConfig) -> TranslationMetricConfig:
    joined = kind == "unified_metric"
    settings.must_be(
        "encoder_model", "XLM-RoBERTa", hint="the encoder must be XLM-RoBERTa; XLM-RoBERTa-XL is pre-norm"
    )
    settings.ignore(*OF_TRAINING, *OF_WORDS, *(("layer", "pool") if joined else ()))
    layer = _layer(settings, "sent_layer" if joined else "layer", encoder.num_layers)
    mix = settings.choice(MIXES, "layer_transformation")
    mix_norm = settings.take(bool, "layer_norm", True)
    shape = {field.name: getattr(encoder, field.name) for field in dataclasses.fields(EncoderConfig)}
    score_activation = None
    if settings.table.get("final_activation") in NOTHING:
        settings.ignore("final_activation")
    else:
        score_activation = _activation(settings, "final_activation")
    config = TranslationMetricConfig(
        **shape,
        joined=joined,
        reads=_reads(settings, kind),  # type: ignore[arg-type]
        layer=layer,
        mix=mix if layer is None else "softmax",  # type: ignore[arg-type]
        mix_norm=mix_norm and layer is None,
        pooling="cls" if joined else settings.choice(POOLINGS, "pool", "avg"),  # type: ignore[arg-type]
        hidden_sizes=_sizes(settings),
        estimator_activation=_activation(settings, "activations"),  # type: ignore[arg-type]
        score_activation=score_activation,  # type: ignore[arg-type]
        estimator_dropout=settings.take(float, "dropout", 0.1),
    )
    settings.finish()
    return config


def _layer(settings: Settings, name: str, num_layers: int) -> int | None:
    """The layer that a setting names; None for a mix of all."""
    word = settings.take(str, name, "mix")
    if word == "mix":
        return None
    if not word.isdecimal() or int(word) > num_layers:
        raise settings.refusal(name, f"give mix, or a layer from 0 to {num_layers}")
    return int(word)


def _reads(settings: Settings, kind: str) -> tuple[str, ...]:
    if kind != "unified_metric":
        return ("source", "reference") if kind == "regression_metric" else ("source",)
    segments = settings.take(list, "input_segments", ["mt", *SEGMENTS])
    if not {*segments} <= {"mt", *SEGMENTS} or not {*segments} & {*SEGMENTS}:
        raise settings.refusal("input_segments", "give mt with src, ref or both")
    return tuple(ours for theirs, ours in SEGMENTS.items() if theirs in segments)


def _sizes(settings: Settings) -> tuple[int, ...]:
    sizes = settings.take(list, "hidden_sizes")
    if not all(type(size) is int for size in sizes):
        raise settings.refusal("hidden_sizes", "give whole numbers")
    return tuple(sizes)


def _activation(settings: Settings, name: str) -> str:
    """An activation; COMET takes its name in any case."""
    word = settings.take(str, name, "Tanh").lower()
    if word not in ESTIMATOR_ACTIVATIONS:
        raise settings.refusal(name, did_you_mean(word, ESTIMATOR_ACTIVATIONS))
    return word


def _encoder(folder: Path) -> tuple[EncoderOnlyConfig, ConvertedConfig]:
    """The encoder that the folder's config.json describes, whatever head it names."""
    path = folder / CONFIG
    table = read_table(path)
    if table.get("model_type") != XLMRoberta.name:
        raise FolderError(
            f"{path}: model_type = {table.get('model_type')!r} is not the encoder of this metric",
            f"name a folder of an {XLMRoberta.name} model",
        )
    settings = ConfigReader(table, str(path))
    try:
        found = XLMRoberta().read(settings, ())
    except ConfigError as error:
        raise FolderError(f"{path}: {error.message}", error.hint) from error
    settings.finish()
    assert isinstance(found.config, EncoderOnlyConfig)
    config = dataclasses.replace(found.config, head="none", num_labels=0)
    return config, dataclasses.replace(found, config=config)


def _weights(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The tensors by the names of the encoder's family, and the names of unused ones."""
    found = renamed(tensors, [(r"^encoder\.model\.", "roberta.")])
    for name in BUFFERS:
        found.pop(name, None)
    unused = tuple(sorted(name for name in found if name.startswith(UNUSED)))
    return {name: tensor for name, tensor in found.items() if name not in unused}, unused


def _table(config: TranslationMetricConfig, encoder: EncoderOnlyConfig) -> list[Entry]:
    entries = XLMRoberta().table(encoder)
    if config.layer is None:
        names = tuple(f"layerwise_attention.scalar_parameters.{k}" for k in range(config.num_layers + 1))
        entries.append(Entry(ours="mix.weights", hf=names, widths=(1,) * len(names)))
        entries.append(same("mix.scale", "layerwise_attention.gamma"))
    for number in range(len(config.hidden_sizes)):  # an activation and a dropout follow each
        entries += linear(f"estimator.layers.{number}", f"estimator.ff.{3 * number}")
    return [*entries, *linear("estimator.output", f"estimator.ff.{3 * len(config.hidden_sizes)}")]
