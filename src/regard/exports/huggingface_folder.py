"""Writes a model as a folder for transformers: of a published family, else with the model's code."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import FolderError, MissingExtra, RunError
from regard.exports.certificate import Quantization
from regard.exports.certified_export import Generating, Target, begins, export_certified, origin
from regard.exports.ctranslate2_calls import SEARCH_DEFAULTS
from regard.exports.huggingface_settings import (
    ENGINE,
    code_has,
    generating,
    known,
    most_positions,
    refuse_other_quantization,
)
from regard.exports.registered_kinds import refuse_registered_kinds
from regard.exports.unapplied_defaults import unapplied_line
from regard.models.build import base_kind
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights import huggingface_tokenizer
from regard.weights.families.exported import MODEL_TYPE, exported_name, rotary_frequencies
from regard.weights.huggingface_decoding import write_decoding
from regard.weights.huggingface_tokenizer import TARGET
from regard.weights.model_folder import LoadedModel
from regard.weights.model_name import model_name
from regard.weights.pretrained import to_huggingface
from regard.weights.strict_json import json_bytes
from regard.weights.tensors import model_tensors, write_tensors

CODE = Path(__file__).parent / "huggingface_files"
CODE_FILES = ("configuration_regard.py", "modeling_regard.py", "layers_regard.py")
CLASSES = {"encoder_decoder": "RegardForConditionalGeneration", "decoder_only": "RegardForCausalLM"}
AUTO = {"encoder_decoder": "AutoModelForSeq2SeqLM", "decoder_only": "AutoModelForCausalLM"}
APPLIED = SEARCH_DEFAULTS | {"max_length", "begin", "end_ids"}  # decoding defaults that the folder has
WEIGHTS = "model.safetensors"


def export_to_huggingface(
    loaded: LoadedModel,
    out: Path,
    *,
    quantization: Quantization = "float32",
    texts: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Write the folder `out`; returns its certificate.

    The folder is of the first published family that fits the model. It has the model's code instead if no
    family fits, or if the family's certificate fails: transformers computes something else, or its tokeniser
    gives other ids (of some families it chooses the tokeniser itself). `family_refused` in the certificate
    then says why.

    Args:
        quantization: "float32", "float16" or "bfloat16".
        texts: texts to compare by; None: random pieces of the vocabulary.

    Raises:
        NotExpressible: neither a family nor the code has a setting of the model.
        RunError: transformers computes something else; nothing is written.
        MissingExtra: transformers is not installed.
        UserError: the model generates nothing, or is on a GPU.
    """
    if family_files(loaded) is None:
        refuse_registered_kinds(ENGINE, loaded.config)
    if find_spec("transformers") is None:  # it is imported in the process of the certificate alone
        raise MissingExtra("transformers", "hf", "this export")
    notes = {}
    if family_files(loaded) is not None:
        try:
            return export_certified(FAMILY, loaded, out, quantization=quantization, texts=texts)
        except RunError as error:
            if not code_has(loaded.config):
                raise
            notes = {"family_refused": error.message}
    return export_certified(OWN, loaded, out, quantization=quantization, texts=texts, notes=notes)


def save_family(loaded: LoadedModel, folder: Path, quantization: Quantization = "float32") -> None:
    """Write the files of a published family into a folder.

    Raises:
        FolderError: no family fits.
    """
    _write(to_huggingface(loaded).files, folder, quantization)


def save(loaded: LoadedModel, folder: Path, quantization: Quantization = "float32") -> None:
    """Write a model and its code into a folder.

    Raises:
        NotExpressible: the code does not have a setting of the model.
    """
    _write(_own_files(loaded, known(loaded.config)), folder, quantization)


def _write(
    files: Mapping[str, bytes | Mapping[str, Tensor]], folder: Path, quantization: Quantization
) -> None:
    refuse_other_quantization(quantization)
    dtype = getattr(torch, quantization)
    for name, content in files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            write_tensors(folder / name, {key: each.to(dtype) for key, each in content.items()})


def family_files(loaded: LoadedModel) -> dict[str, bytes | dict[str, Tensor]] | None:
    """The files of the first published family that fits the model; None if none does."""
    try:
        return to_huggingface(loaded).files
    except FolderError:
        return None


def _own_files(loaded: LoadedModel, config: Generating) -> dict[str, bytes | dict[str, Tensor]]:
    """The files of a folder with the model's code."""
    tokenizers, adds_bos = loaded.tokenizers, begins(loaded)
    has_source = not isinstance(config, DecoderOnlyConfig)
    written = huggingface_tokenizer.write_tokenizers(tokenizers, config, "regard", adds_bos=adds_bos)
    settings = json.loads(written["tokenizer_config.json"])
    settings["split_special_tokens"] = True  # "</s>" in a text is text, not the special token
    settings["model_input_names"] = ["input_ids", "attention_mask"]
    ids = {
        **huggingface_tokenizer.special_token_ids(tokenizers),
        **({"decoder_start_token_id": tokenizers.target.bos_id} if has_source else {}),
    }
    ids.pop("first_token_id", None)
    ends = [tokenizers.target.eos_id, *loaded.generation.get("end_ids", ())]
    decoding = write_decoding(
        loaded.generation, has_source=has_source, tokenizers=tokenizers, forced_eos=False
    )
    generation = {**ids, "eos_token_id": ends if len(ends) > 1 else ends[0], **decoding.decoding}
    tensors = {exported_name(config.kind, name): each for name, each in model_tensors(loaded.model).items()}
    return {
        "config.json": json_bytes(_config(config, {**ids, "has_target_tokenizer": TARGET in written})),
        "generation_config.json": json_bytes(generation),
        WEIGHTS: tensors,
        **{name: (CODE / name).read_bytes() for name in CODE_FILES},
        **written,
        "tokenizer_config.json": json_bytes(settings),
    }


def _config(config: Generating, others: dict[str, Any]) -> dict[str, Any]:
    """The content of config.json."""
    name = CLASSES[config.kind]
    return {
        "model_type": MODEL_TYPE,
        "architectures": [name],
        "auto_map": {
            "AutoConfig": "configuration_regard.RegardConfig",
            AUTO[config.kind]: f"modeling_regard.{name}",
        },
        "kind": config.kind,
        "settings": config.to_dict(),
        "rotary": rotary_frequencies(config),
        "is_encoder_decoder": config.kind == "encoder_decoder",
        "tie_word_embeddings": config.tied not in (False, "none"),
        **others,
    }


def _card(loaded: LoadedModel, quantization: Quantization, *, own: bool) -> str:
    """How to use the folder, as Markdown."""
    auto = AUTO[base_kind(generating(loaded.config)) or ""]
    trust = ", trust_remote_code=True" if own else ""
    code = (
        f"\nNo published family fits, so `{CODE_FILES[1]}` and `{CODE_FILES[2]}` are its code:"
        " read them,\nthen allow transformers to run it as above.\n"
        if own
        else ""
    )
    several = (
        "\nThe target has a tokeniser of its own, which AutoTokenizer does not read:"
        ' `PreTrainedTokenizerFast(tokenizer_file="target_tokenizer.json")`.\n'
        if not loaded.tokenizers.joint
        else ""
    )
    return f"""# {model_name(loaded)} for transformers

{origin(quantization)}. It needs torch and transformers 5.

```python
from transformers import {auto}, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("THIS FOLDER"{trust})
model = {auto}.from_pretrained("THIS FOLDER"{trust})
output = model.generate(**tokenizer("a text", return_tensors="pt", return_token_type_ids=False))
print(tokenizer.decode(output[0], skip_special_tokens=True))
```
{code}{several}{unapplied_line(loaded, _applied(loaded), "transformers does")}"""


def _applied(loaded: LoadedModel) -> set[str]:
    """The names of the decoding defaults that transformers applies."""
    unused = write_decoding(
        loaded.generation,
        has_source=not isinstance(loaded.config, DecoderOnlyConfig),
        tokenizers=loaded.tokenizers,
        forced_eos=False,
    ).unused
    return {*loaded.generation, *APPLIED} - {line.split(" = ")[0] for line in unused}


OWN = Target(
    name=ENGINE,
    key="hf",
    process="regard.exports.huggingface_process",
    known=known,
    most_positions=most_positions,
    save=save,
    card=partial(_card, own=True),
    applied=_applied,
    equal_ids=1.0,
)
FAMILY = replace(OWN, known=generating, save=save_family, card=partial(_card, own=False))
