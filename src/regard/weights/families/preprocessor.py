"""The settings by which a folder of Hugging Face prepares images or sound."""

import os
from pathlib import Path
from typing import Literal

from regard.errors import FolderError
from regard.weights.families.family import ConfigReader
from regard.weights.huggingface_files import read_table

PREPROCESSOR = "preprocessor_config.json"
PROCESSOR = "processor_config.json"  # has the same settings in newer folders


def read_preprocessor(folder: Path, part: Literal["image_processor", "feature_extractor"]) -> ConfigReader:
    """The settings; `part` is their name in newer folders.

    Raises:
        FolderError: the folder has none.
    """
    if os.path.isfile(folder / PREPROCESSOR):
        return ConfigReader(read_table(folder / PREPROCESSOR), str(folder / PREPROCESSOR))
    if os.path.isfile(folder / PROCESSOR):
        table = read_table(folder / PROCESSOR).get(part)
        if isinstance(table, dict):
            return ConfigReader(table, str(folder / PROCESSOR))
    raise FolderError(f"{folder} has no {PREPROCESSOR}", "copy the folder again, with all of its files")
