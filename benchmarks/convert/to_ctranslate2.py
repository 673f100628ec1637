"""regard's models -> folders that CTranslate2 reads: the files of `regard export`, without a certificate."""

import shutil
from pathlib import Path
from typing import Any

from benchmarks.common.unfit import Unfit
from benchmarks.convert.names import Weights
from regard.errors import RegardError
from regard.exports.ctranslate2_folder import write_engine_files

SPECIAL = {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}


def write_model(config: Any, weights: Weights, tokens: list[str], folder: Path) -> Path:
    """Write the converted model; `tokens` are the pieces of its only vocabulary by their ids.

    Raises:
        Unfit: CTranslate2 does not support this model.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        write_engine_files(config, weights, (tokens, tokens), SPECIAL, folder)
    except RegardError as error:
        raise Unfit(error.message) from error
    return folder
