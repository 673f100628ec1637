"""Sentence encoders (Reimers and Gurevych 2019): the additional files of sentence-transformers.

They list the modules, the pooling, the maximum number of tokens, and the prompt before each text.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.folder_file import read_file
from regard.errors import FolderError, did_you_mean
from regard.models.encoder_only import EncoderOnlyConfig
from regard.weights.huggingface_files import read_table
from regard.weights.strict_json import json_bytes, parse_json

MODULES = "modules.json"
PROMPTS = "config_sentence_transformers.json"
LENGTH_FILES = tuple(  # the possible names of the first module's file
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
POOLINGS = {"cls": "cls", "mean": "mean", "max": "max"}
OLD_POOLINGS = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max"}
MODULE_NAMES = ("Transformer", "Pooling", "Normalize")


def sentence_settings(folder: Path) -> dict[str, Any]:
    """Reads the config settings of a sentence encoder from its files.

    Raises:
        FolderError: a module, a pooling or a prompt is not supported, or a file is damaged.
    """
    modules = _modules(folder / MODULES)
    path = folder / (modules.get("Pooling") or "1_Pooling") / "config.json"
    pooling = read_table(path, folder)
    prompt = _default_prompt(folder / PROMPTS)
    if prompt and pooling.get("include_prompt") is False:
        raise FolderError(
            f"{path}: include_prompt = false is not supported",
            "only true is, which pools the prompt too",
        )
    return {
        "pooling": _pooling(pooling, path),
        "normalised": "Normalize" in modules,
        "sentence_tokens": _max_tokens(folder),
        "sentence_prompt": prompt,
    }


def lowers_case(folder: Path) -> bool:
    """True if texts are lower-cased before tokenisation."""
    path, table = _lengths(folder)
    value = table.get("do_lower_case", False)
    if type(value) is not bool:
        raise FolderError(f"{path}: do_lower_case = {value!r} is not supported", "true or false")
    return value


def sentence_files(config: EncoderOnlyConfig) -> dict[str, bytes]:
    """The files of sentence-transformers for a config; lower-casing is part of tokenizer.json."""
    names = ["Transformer", "Pooling", *(["Normalize"] if config.normalised else [])]
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{name}" if number else "",
            "type": f"sentence_transformers.models.{name}",
        }
        for number, name in enumerate(names)
    ]
    pooling = {f"pooling_mode_{name}": ours == config.pooling for name, ours in OLD_POOLINGS.items()}
    files = {
        MODULES: _json_list(modules),
        "1_Pooling/config.json": json_bytes({"word_embedding_dimension": config.d_model, **pooling}),
    }
    if config.sentence_tokens is not None:
        files[LENGTH_FILES[0]] = json_bytes(
            {"max_seq_length": config.sentence_tokens, "do_lower_case": False}
        )
    if config.sentence_prompt:
        prompts = {"prompts": {"default": config.sentence_prompt}, "default_prompt_name": "default"}
        files[PROMPTS] = json_bytes(prompts)
    return files


def _modules(path: Path) -> dict[str, str]:
    """The folder of each module, by class name without the package, which differs between versions."""
    found: dict[str, str] = {}
    entries = parse_json(b'{"modules": ' + read_file(path) + b"}", str(path))["modules"]
    for entry in entries if isinstance(entries, list) else [entries]:
        match entry:
            case {"type": str(kind), **others} if isinstance(place := others.get("path", ""), str):
                name = kind.rpartition(".")[2]
            case _:
                raise FolderError(f"{path} is not a list of modules", "copy the folder again")
        if name not in MODULE_NAMES or name in found:
            raise FolderError(
                f"{path}: {name} is not supported", "only one each of Transformer, Pooling, Normalize is"
            )
        if Path(place).is_absolute() or ".." in Path(place).parts:
            raise FolderError(f"{path}: {place!r} is outside the folder", "copy the folder again")
        found[name] = place
    return found


def _pooling(table: Mapping[str, Any], path: Path) -> str:
    """The pooling mode; older files have a boolean for each mode."""
    mode = table.get("pooling_mode")
    if isinstance(mode, list) and len(mode) == 1:
        mode = mode[0]
    if mode is None:
        chosen = [name.removeprefix("pooling_mode_") for name, value in table.items() if value is True]
        chosen = [OLD_POOLINGS.get(name, name) for name in chosen if name != "include_prompt"]
        mode = chosen[0] if len(chosen) == 1 else chosen
    if not isinstance(mode, str) or mode not in POOLINGS:
        found = mode if isinstance(mode, str) else ", ".join(map(str, mode or ())) or "nothing"
        raise FolderError(f"{path}: pooling by {found} is not supported", "only mean, cls and max are")
    return POOLINGS[mode]


def _max_tokens(folder: Path) -> int | None:
    """The maximum number of tokens of a text, special tokens included; None: no limit but the positions."""
    path, table = _lengths(folder)
    limit = table.get("max_seq_length")
    name = "max_seq_length"
    if limit is None and os.path.isfile(folder / "tokenizer_config.json"):
        path, name = folder / "tokenizer_config.json", "model_max_length"
        limit = read_table(path).get(name)
    if isinstance(limit, float) or (type(limit) is int and limit > 10**7):
        return None  # transformers writes 10^30 for an unknown limit
    if limit is not None and (type(limit) is not int or limit < 3):
        raise FolderError(f"{path}: {name} = {limit!r} is not supported", "give 3 or more tokens")
    return limit


def _lengths(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    for name in LENGTH_FILES:
        if os.path.isfile(folder / name):
            return folder / name, read_table(folder / name)
    return folder, {}


def _default_prompt(path: Path) -> str:
    """The default prompt before each text."""
    table = read_table(path) if os.path.isfile(path) else {}
    name, prompts = table.get("default_prompt_name"), table.get("prompts") or {}
    if name is None:
        return ""
    if not isinstance(prompts, dict) or not isinstance(prompts.get(name), str):
        known = prompts if isinstance(prompts, dict) else ()
        raise FolderError(
            f"{path}: default_prompt_name = {name!r} is not one of its prompts",
            did_you_mean(str(name), known),
        )
    return prompts[name]


def _json_list(values: Sequence[Mapping[str, Any]]) -> bytes:
    return b"[" + b",".join(json_bytes(value).strip() for value in values) + b"]\n"
