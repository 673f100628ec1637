"""mBART (Liu et al. 2020; mBART-50, Tang et al. 2020): BART with norms before the sub-layers."""

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import ClassVar

from regard.errors import FolderError
from regard.weights.families.family import ConfigReader, ConvertedConfig
from regard.weights.families.marian import BART


class MBART(BART):
    """mBART: texts begin with the token of their language."""

    name = "mbart"
    class_name = "MBartForConditionalGeneration"
    norm_position = "pre"
    token_ids: ClassVar = {"pad": 1, "eos": 2}
    language = r"[a-z]{2}_[A-Z]{2}"

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        found = super().read(settings, names)
        start_id = settings.token("decoder_start_token_id", settings.take(int, "vocab_size"))
        return dataclasses.replace(found, start_id=start_id)

    def with_other_files(self, described: ConvertedConfig, folder: Path) -> ConvertedConfig:
        if described.start_id is None:
            raise FolderError(
                f"{folder}: decoder_start_token_id is missing in config.json",
                "mBART-50 has 2; a model that begins with the token of a language has its id",
            )
        return described

    def prefix(self, settings: ConfigReader, vocab_size: int) -> tuple[int, ...]:
        return ()
