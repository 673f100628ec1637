"""An encoder with a head as a folder with an ONNX graph, and a script that needs nothing of regard."""

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.data.masked_text import mask_id, mask_spellings, spaces_begin_words
from regard.data.tagged import word_prefix
from regard.exports.certificate import Quantization
from regard.exports.certified_export import EncoderTarget, origin
from regard.exports.encoder_texts import refuse_other_heads
from regard.exports.onnx_folder import FILES, FORMAT_VERSION
from regard.exports.onnx_graphs import ENCODER, EXAMPLE_ROWS, EXAMPLE_SRC_LEN, save_graph
from regard.exports.onnx_modules import traceable
from regard.exports.onnx_package import require_onnx
from regard.exports.onnx_quantization import store_in_float16, store_in_int8
from regard.exports.onnx_settings import ENGINE, refuse_other_quantization
from regard.exports.refusal import NotExpressible
from regard.models.build import base_kind
from regard.models.encoder_only import EncoderOnly, EncoderOnlyConfig
from regard.weights.model_folder import LoadedModel
from regard.weights.model_name import model_name
from regard.weights.strict_json import json_bytes

SCRIPT = "predict.py"
DOES = {
    "classification": "predicts the class of a text",
    "regression": "predicts a number for a text",
    "tokens": "labels the words of a text",
    "masked_language_model": "predicts masked tokens, written [MASK]",
}


class HeadGraph(nn.Module):
    """Ids -> the output of the head, of each text or each position; rows are padded beyond `lengths`."""

    def __init__(self, model: EncoderOnly) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Int64[Tensor, "rows src_len"], lengths: Int64[Tensor, " rows"]
    ) -> Float[Tensor, "rows ..."]:
        return self.model(ids, lengths)


def save(loaded: LoadedModel, folder: Path, quantization: Quantization = "float32") -> None:
    """Write the graph of an encoder, its tokeniser, and the script with its config.json, into a folder.

    Raises:
        NotExpressible: there are no weights in this form, or the model has another head.
        RunError: torch cannot export the model.
    """
    save_without_script(loaded, folder, quantization)
    (folder / SCRIPT).write_bytes((FILES / SCRIPT).read_bytes())


def save_without_script(loaded: LoadedModel, folder: Path, quantization: Quantization) -> None:
    """As `save`, without the script."""
    config = refuse_other_heads(ENGINE, loaded.config)
    refuse_other_quantization(quantization)
    require_onnx()
    save_head_graph(loaded.model, folder)  # type: ignore[arg-type]
    if quantization != "float32":
        (store_in_int8 if quantization == "int8" else store_in_float16)(folder / ENCODER)
    (folder / "config.json").write_bytes(json_bytes(script_config(loaded, config)))
    for name, content in loaded.tokenizers.files().items():
        (folder / name).write_bytes(content)


def save_head_graph(model: EncoderOnly, folder: Path) -> None:
    """Write `encoder.onnx` into a folder.

    Raises:
        RunError: the exporter cannot trace the model.
    """
    save_graph(
        HeadGraph(traceable(model)),
        folder / ENCODER,
        (
            torch.ones(EXAMPLE_ROWS, EXAMPLE_SRC_LEN, dtype=torch.int64),
            torch.tensor([EXAMPLE_SRC_LEN, EXAMPLE_SRC_LEN - 1, 2]),
        ),
        ({0: "rows", 1: "src_len"}, {0: "rows"}),
        input_names=["ids", "lengths"],
        output_names=["output"],
    )


def script_config(loaded: LoadedModel, config: EncoderOnlyConfig) -> dict[str, Any]:
    """What the script reads: the content of config.json."""
    tokenizer = loaded.tokenizers.source
    if tokenizer.splits_pieces:
        raise NotExpressible(
            ENGINE, "the tokeniser", "pieces that the vocabulary lacks are split", "take another tokeniser"
        )
    return {
        "format_version": FORMAT_VERSION,
        "kind": base_kind(config),
        "head": config.head,
        "labels": list(loaded.labels),
        "source": {
            "tokenizer": "tokenizer.json",
            "bos_id": tokenizer.bos_id,
            "eos_id": tokenizer.eos_id,
            "pad_id": config.pad_id,
            "unk_id": tokenizer.unk_id,
            "unknown_ids": tokenizer.unmatchable_ids,
            "dropped_ids": tokenizer.dropped_ids,
            "mask_id": mask_id(tokenizer),
            "mask_spellings": mask_spellings(tokenizer),
            "spaces_begin_words": spaces_begin_words(tokenizer),
            "word_prefix": word_prefix(tokenizer) if config.head == "tokens" else "",
        },
        "most_positions": config.position_limit,
    }


def _card(loaded: LoadedModel, quantization: Quantization) -> str:
    """How to use the folder, as Markdown."""
    config = refuse_other_heads(ENGINE, loaded.config)
    return f"""# {model_name(loaded)} in ONNX

{origin(quantization)}.

```
pip install numpy onnxruntime tokenizers
python {SCRIPT} "a text"
```

The model {DOES[config.head]}. The first lines of `{SCRIPT}` show how to call it.
"""


ONNX_ENCODER = EncoderTarget(
    name=ENGINE,
    key="onnx",
    process="regard.exports.onnx_encoder_process",
    save=save,
    card=_card,
)
