"""A model as a folder of ONNX graphs, with a loop that needs nothing of regard."""

from functools import partial
from pathlib import Path
from typing import Any

from regard.data.odd_spaces import replaced_spaces
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import GenerationSettings
from regard.exports.certificate import Quantization
from regard.exports.certified_export import Generating, Target, begins, export_certified, origin
from regard.exports.onnx_graphs import DECODER, ENCODER, save_graphs
from regard.exports.onnx_package import require_onnx
from regard.exports.onnx_quantization import store_in_float16, store_in_int8
from regard.exports.onnx_settings import ENGINE, known, most_positions, refuse_other_quantization
from regard.exports.refusal import NotExpressible
from regard.exports.unapplied_defaults import unapplied_line
from regard.models.build import base_kind
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.model_folder import LoadedModel
from regard.weights.model_name import model_name
from regard.weights.strict_json import json_bytes

FILES = Path(__file__).parent / "onnx_files"
LOOPS = ("generate.py",)
FORMAT_VERSION = 1
NEW_TOKENS = 100  # of a continuation, if the model's own settings have no number
APPLIED = frozenset({  # the decoding defaults that the loops have
    "beam_size", "max_length_ratio", "max_length_offset", "max_length", "max_new_tokens", "begin", "may_end",
    "end_ids", "forced_bos_id",
})  # fmt: skip


def save(loaded: LoadedModel, folder: Path, quantization: Quantization = "float32") -> None:
    """Write the graphs of a model, and the loop with its config.json, into a folder.

    Raises:
        NotExpressible: there are no weights in this form.
        RunError: torch cannot export the model.
    """
    save_without_loop(loaded, folder, quantization)
    for name in LOOPS:
        (folder / name).write_bytes((FILES / name).read_bytes())


def save_without_loop(loaded: LoadedModel, folder: Path, quantization: Quantization) -> None:
    """Write the graphs of a model, its tokenisers, and what a loop reads, into a folder.

    Raises:
        NotExpressible: there are no weights in this form.
        RunError: torch cannot export the model.
    """
    config = known(loaded.config)
    refuse_other_quantization(quantization)
    require_onnx()
    save_graphs(loaded.model, folder)  # type: ignore[arg-type]
    for path in (folder / ENCODER, folder / DECODER):
        if path.exists() and quantization != "float32":
            (store_in_int8 if quantization == "int8" else store_in_float16)(path)
    (folder / "config.json").write_bytes(json_bytes(loop_config(loaded, config)))
    for name, content in loaded.tokenizers.files().items():
        (folder / name).write_bytes(content)


def loop_config(loaded: LoadedModel, config: Generating) -> dict[str, Any]:
    """What the loops read: the content of config.json."""
    tokenizers = loaded.tokenizers
    names = ["tokenizer.json"] * 2 if tokenizers.joint else ["source_tokenizer.json", "target_tokenizer.json"]
    source, target = tokenizers.source, tokenizers.target
    if source.splits_pieces or target.splits_pieces:
        why = "pieces that the vocabulary lacks are split"
        raise NotExpressible(ENGINE, "the tokeniser", why, "take --to ctranslate2")
    translates = isinstance(config, EncoderDecoderConfig)
    begin = [] if translates or not begins(loaded) else [source.bos_id]
    model: Any = loaded.model
    return {
        "format_version": FORMAT_VERSION,
        "kind": base_kind(config),  # what the loops do with it
        "source": {
            "tokenizer": names[0],
            "first_ids": [*begin, *source.prefix],
            "eos_id": source.eos_id,
            "unk_id": source.unk_id,
            "unknown_ids": source.unmatchable_ids,
            "replaced": replaced_spaces(source) if translates else {},
        },
        "target": {
            "tokenizer": names[1],
            "bos_id": target.bos_id,
            "eos_id": target.eos_id,
            "dropped_ids": target.dropped_ids,
        },
        "rules": _rules(loaded, target),
        "cache": {
            "layers": len(model.decoder.blocks if translates else model.blocks),
            "kv_heads": config.num_kv_heads or config.num_heads,
            "head_dim": config.d_head,
        },
        "most_positions": most_positions(config),
        "beam": loaded.generation.get("beam_size") or 5 if translates else 1,
        "max_new_tokens": _limits(loaded.generation) if translates else _new_tokens(loaded.generation),
    }


def _rules(loaded: LoadedModel, target: Tokenizer) -> dict[str, Any]:
    """What a search obeys besides: special tokens are never put out, except those that end a text."""
    generation = loaded.generation
    end_ids = list(generation.get("end_ids", ()))
    special, ends = {target.pad_id, target.bos_id}, {target.eos_id, *end_ids}
    if not isinstance(loaded.config, EncoderDecoderConfig):
        special |= {target.unk_id, target.eos_id}
        may_end = generation.get("may_end")
        if not (begins(loaded) if may_end is None else may_end):
            ends -= {target.eos_id} - set(end_ids)
    return {
        "end_ids": end_ids,
        "forced_id": generation.get("forced_bos_id"),
        "never_ids": sorted(special - ends),
    }


def _limits(generation: dict[str, Any]) -> dict[str, Any]:
    """The greatest length of a translation: ratio * source length + offset, at most `most`."""
    usual = GenerationSettings()
    names = {"ratio": "max_length_ratio", "offset": "max_length_offset", "most": "max_length"}
    return {short: generation.get(name, getattr(usual, name)) for short, name in names.items()}


def _new_tokens(generation: dict[str, Any]) -> dict[str, Any]:
    count = generation.get("max_new_tokens") or NEW_TOKENS
    return {"ratio": 0.0, "offset": count, "most": count}


def _card(loaded: LoadedModel, quantization: Quantization) -> str:
    """How to use the folder, as Markdown."""
    does = "translates" if isinstance(loaded.config, EncoderDecoderConfig) else "continues"
    return f"""# {model_name(loaded)} in ONNX

{origin(quantization)}.

```
pip install numpy onnxruntime tokenizers
python generate.py "a text"
```

`generate.py` {does} texts: greedily, or by a beam whose scores are mean log-probabilities, the end included,
and which stops when as many hypotheses as its size have ended. Its first lines show how to call it.
{unapplied_line(loaded, APPLIED, "The loops do")}"""


ONNX = Target(
    name=ENGINE,
    key="onnx",
    process="regard.exports.onnx_process",
    known=known,
    most_positions=most_positions,
    save=save,
    card=_card,
    applied=lambda loaded: APPLIED,
)
export_to_onnx = partial(export_certified, ONNX)
