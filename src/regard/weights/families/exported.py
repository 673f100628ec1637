"""Models that `regard export --to hf` wrote with their code; transformers may have trained them since.

The code is never run: config.json has regard's own settings, and the weights have regard's own names.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from regard.errors import FolderError
from regard.models.build import build_uninitialised, config_class
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.families.family import ConfigReader, ConvertedConfig, Family
from regard.weights.model_folder import config_of_settings
from regard.weights.names import Entry, same
from regard.weights.tensors import tied_names

MODEL_TYPE = "regard"
KINDS = ("encoder_decoder", "decoder_only")
IGNORED = ("auto_map", "hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size", "backend")


def exported_name(kind: str, name: str) -> str:
    """The name in an exported folder of the weight that regard calls `name`."""
    return name if kind != "decoder_only" or name.startswith("output.") else f"decoder.{name}"


class Exported(Family):
    """The exported models of one kind. It is not in the table of families: no other model is written so."""

    name = MODEL_TYPE
    special_tokens: ClassVar = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
    _names: Collection[str]
    _has_target: bool

    def __init__(self, table: Mapping[str, Any], where: Path) -> None:
        if table.get("kind") not in KINDS:
            raise FolderError(
                f"{where}: kind = {table.get('kind')!r} is not that of an exported model",
                f"known: {', '.join(KINDS)}",
            )
        self.config = config_class(table["kind"])  # pyright: ignore[reportAttributeAccessIssue]
        self._where = where

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        self._names = names
        kind, given = settings.take(str, "kind"), settings.take(dict, "settings")
        rotary = settings.optional(dict, "rotary")
        settings.unused(*IGNORED)
        self._has_target = settings.optional(bool, "has_target_tokenizer") or False
        settings.must_be("tie_word_embeddings", given.get("tied") not in (False, "none"))
        config = config_of_settings(kind, given, self._where)
        assert isinstance(config, EncoderDecoderConfig | DecoderOnlyConfig)
        if rotary is not None and rotary != rotary_frequencies(config):
            raise FolderError(
                f"{self._where}: the frequencies of the rotary positions are not those of the settings",
                "export the model again: older folders have no scaling of positions in their settings",
            )
        size = config.tgt_vocab_size if isinstance(config, EncoderDecoderConfig) else config.vocab_size
        start = settings.token("decoder_start_token_id", size)
        return ConvertedConfig(
            config=config,
            start_id=settings.token("bos_token_id", size) if start is None else start,
            pad_id=settings.token("pad_token_id", size),
            eos_id=settings.token("eos_token_id", size),
            generation={"begin": False} if kind == "decoder_only" else {},
        )

    def with_other_files(self, described: ConvertedConfig, folder: Path) -> ConvertedConfig:
        if self._has_target and not (folder / "target_tokenizer.json").is_file():
            raise FolderError(
                f"{folder} has no target_tokenizer.json, which transformers does not write",
                "copy it from the folder that regard exported",
            )
        return described

    def write(self, config: Any, labels: Sequence[str]) -> dict[str, Any]:
        raise AssertionError("`regard export --to hf` writes these folders")

    def table(self, config: Any) -> list[Entry]:
        """Each weight by its name; of tied ones the file has any, or several that are equal."""
        entries, ties = [], dict[str, str]()
        for names in tied_names(build_uninitialised(config)):
            aliases = [exported_name(config.kind, name) for name in names]
            chosen = next((each for each in aliases if each in self._names), aliases[0])
            entries.append(same(names[0], chosen))
            ties |= {each: chosen for each in aliases if each != chosen}
        self.ties = ties  # pyright: ignore[reportAttributeAccessIssue]
        return entries


def rotary_frequencies(config: EncoderDecoderConfig | DecoderOnlyConfig) -> dict[str, Any] | None:
    """The frequencies of rotary positions after the model's scaling; None without rotary positions.

    The exported code has them as numbers, so that it needs no method of scaling.
    """
    if config.positions != "rotary":
        return None
    width = config.rotary_dim or config.d_head
    usual = 1.0 / config.rotary_base ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    scaling = config.rotary_scaling
    found = usual if scaling is None else scaling.frequencies(usual, config.rotary_base)
    return {"frequencies": found.tolist(), "amplitude": 1.0 if scaling is None else scaling.amplitude}
