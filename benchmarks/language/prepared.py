"""The model that generates text, prepared for all contenders."""

import json
from pathlib import Path
from typing import cast

from benchmarks.common.program import BUILD
from benchmarks.common.unfit import Unfit
from benchmarks.convert.to_ctranslate2 import write_model
from benchmarks.language.writer import weights_of
from benchmarks.work.texts import training_task
from regard.data.tokenizer import Tokenizer
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.verbs.shared.model_loading import model_that
from regard.weights.model_folder import load_model

SPECIAL_TOKENS = [0, 1, 2, 3]  # never generated


def prepared(model: str | None) -> tuple[Path, DecoderOnlyConfig]:
    """The work's file, and the model's config; without a trained model the training workload's config."""
    if model is None:
        task = training_task("none")
        config = cast(DecoderOnlyConfig, task.config)
        tokenizer = Tokenizer.from_bytes(task.files["tokenizer.json"])
    else:
        loaded = load_model(model)
        config = model_that("continues a text", DecoderOnly, loaded).config
        tokenizer = loaded.tokenizers.source
    pieces = tokenizer.vocabulary()
    vocabulary = sorted(pieces, key=lambda piece: pieces[piece])
    try:
        folder = BUILD / "ctranslate2-texts"
        converted = str(write_model(config, weights_of(config, model), vocabulary, folder))
    except Unfit as unfit:
        converted = f"!cannot take these weights: {unfit}"
    except ModuleNotFoundError as error:
        converted = f"!{error.name} is not installed"
    work = {
        "model": model,
        "config": config.to_dict(),
        "converted": converted,
        "vocabulary": vocabulary,
        "prompt": tokenizer.encode("\n")[-1:],
        "banned": SPECIAL_TOKENS,
    }
    path = BUILD / "text.json"
    path.write_text(json.dumps(work), "utf-8")
    return path, config
