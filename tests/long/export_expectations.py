"""What docs/leaving-and-arriving.md has of an export: which settings, kinds and tokenisers refuse it."""

import ast
import dataclasses
import tomllib
from typing import Any

from regard.models.config import ModelConfig
from tests.exports.settings_table import COMPANIONS, GGUF_TABLE, KINDS_TABLE, TABLE
from tests.long.export_models import RECIPES, Subject

REFUSED = "refused"
COLUMNS = ("ctranslate2", "onnx", "web", "argos", "gguf", "hf")  # of the table of kinds


def expected_refusals(subject: Subject, config: ModelConfig, target: str) -> list[str]:
    """What the message of a refusal may have, by the documented tables; nothing if none is documented."""
    if _is_refused(config.kind, target):
        return [config.kind]
    tokenizers = [f"kind = {kind!r}" for kind in tokenizer_kinds(subject) if _is_refused(kind, target)]
    return [*(f"{name} = {getattr(config, name)!r}" for name in _settings(config, target)), *tokenizers]


def tokenizer_kinds(subject: Subject) -> list[str]:
    """The kinds of the tokenisers of source and target."""
    if subject.recipe is None:
        return ["bpe"]
    table = tomllib.loads((RECIPES / f"{subject.recipe}.toml").read_text("utf-8")).get("tokenizer", {})
    kind = table.get("kind", "bpe")
    return list(dict.fromkeys([kind, table.get("target_kind", kind)]))


def _is_refused(name: str, target: str) -> bool:
    return KINDS_TABLE[name][COLUMNS.index(target)] == REFUSED


def _settings(config: Any, target: str) -> list[str]:
    """The settings of a config that the documented table of a target refuses."""
    if target == "gguf":
        column = 0 if config.positions == "rotary" else 1
        rows = [(name, text, cells[column]) for name, text, *cells in GGUF_TABLE]
    elif target in ("ctranslate2", "argos", "hf"):
        column = (2 if target == "hf" else 0) + (config.kind == "decoder_only")
        rows = [(name, text, cells[column]) for name, text, *cells in TABLE]
    else:
        return []
    found = [name for name, text, cell in rows if cell == REFUSED and _has(config, name, text)]
    return list(dict.fromkeys(found))


def _has(config: Any, name: str, text: str) -> bool:
    """True if a config has the value of a row; of a number, any that is not the usual one."""
    documented, own = ast.literal_eval(text), getattr(config, name)
    if COMPANIONS.get(name, {}).get("positions", config.positions) != config.positions:
        return False  # it has no effect
    if isinstance(documented, str | bool) or documented is None:
        return own == documented
    usual = next(field.default for field in dataclasses.fields(config) if field.name == name)
    spelled = {"num_kv_heads": config.num_heads, "rotary_dim": config.d_head}.get(name, usual)
    return own not in (None, usual, spelled)
